"""Loops whose steps only run kernels and copy values: one instruction runs such a loop.

Between two steps it changes only the arguments that differ: the elements of the step, and the
carried values.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import attrs
import numpy as np

from structir.runtime.plans.instructions import WORD, Code
from structir.runtime.plans.workspace import Workspace
from structir.targets.cpu.bytecode import BODY, OPCODE, REPEAT
from structir.targets.cpu.layouts import SPACE

Words = Sequence[int]  # of an instruction


@attrs.frozen
class _Parts:
    """The instructions of a loop, by their roles, and the index of the first one of the body."""

    limit: int
    going: int
    rows: list[Words]
    body: list[Words]
    first: int
    swaps: list[Words]
    counter: int


def repeat_loops(
    words: Any, code: Code, workspaces: Mapping[int, Workspace]
) -> list[np.ndarray[Any, Any]]:
    """Replaces the first instruction of each loop that can be repeated; returns the tables.

    `words` are the instructions with addresses; `workspaces` are those of the run instructions.
    """
    tables: list[np.ndarray[Any, Any]] = []
    for start, end in code.loops:
        parts = _parts(words[start:end].tolist())
        if parts is not None:
            table = _table(parts, start, end, words, code, workspaces, tables)
            words[start, :2] = OPCODE.repeat, table
    return tables


def _parts(words: Sequence[Words]) -> _Parts | None:
    """Returns the instructions of a loop by their roles; None if its body has other ones."""
    kinds = [w[0] for w in words]
    at, limit, going = 0, -1, -1
    if kinds[at] == OPCODE.reached:
        limit, at = words[at][2], at + 1
    if kinds[at] == OPCODE.unless:
        going, at = words[at][1], at + 1
    first = at + _count(kinds[at:], (OPCODE.part,))
    after = first + _count(kinds[first:], (OPCODE.run, OPCODE.copy, OPCODE.append))
    last = after + _count(kinds[after:], (OPCODE.swap,))
    body = list(words[first:after])
    is_growing = any([w[0] == OPCODE.append and w[5] == 0 for w in body])
    if kinds[last:] != [OPCODE.add, OPCODE.jump] or is_growing or at == 0:
        return None
    return _Parts(
        limit, going, list(words[at:first]), body, first, list(words[after:last]), words[last][1]
    )


def _count(kinds: Sequence[int], wanted: Collection[int]) -> int:
    """Returns how many of the first instructions have these kinds."""
    return next((k for k, kind in enumerate(kinds) if kind not in wanted), len(kinds))


def _table(
    parts: _Parts,
    start: int,
    end: int,
    words: Any,
    code: Code,
    workspaces: Mapping[int, Workspace],
    tables: list[np.ndarray[Any, Any]],
) -> int:
    """Adds the tables of a loop; returns the address of the first."""

    def add(numbers: Sequence[int]) -> int:
        tables.append(np.array([*numbers, 0], np.int64))
        return int(tables[-1].ctypes.data)

    varying = {w[1] for w in parts.rows} | {slot for w in parts.swaps for slot in w[1:3]}
    uses = Counter([w[1] for w in parts.body if w[0] == OPCODE.run])
    body, moves = list[int](), list[tuple[int, int]]()
    for k, instruction in enumerate(parts.body):
        index = start + parts.first + k
        entry = [0] * len(BODY)
        entry[BODY.kind], entry[BODY.number] = instruction[0], index
        entry[BODY.address] = int(words[index].ctypes.data)
        if instruction[0] == OPCODE.run:
            own = _arguments(workspaces[index], code, index, instruction[3])
            moves += own
            changed = [m for m in own if m[1] in varying or uses[instruction[1]] > 1]
            entry[BODY.address] = instruction[1]
            entry[BODY.moves] = add([n for m in changed for n in m])
            entry[BODY.move_count] = len(changed)
        body += entry
    table = [0] * len(REPEAT)
    table[REPEAT.counter], table[REPEAT.limit] = parts.counter, parts.limit
    table[REPEAT.going], table[REPEAT.after] = parts.going, end
    table[REPEAT.rows] = add([n for w in parts.rows for n in (w[1], w[2], w[4])])
    table[REPEAT.moves], table[REPEAT.move_count] = add([n for m in moves for n in m]), len(moves)
    table[REPEAT.body], table[REPEAT.body_count] = add(body), len(parts.body)
    table[REPEAT.swaps] = add([slot for w in parts.swaps for slot in w[1:3]])
    table[REPEAT.row_count], table[REPEAT.swap_count] = len(parts.rows), len(parts.swaps)
    return add(table)


def _arguments(space: Workspace, code: Code, index: int, count: int) -> list[tuple[int, int]]:
    """Returns the addresses of the arguments of a run for inputs and results, with the slots of
    these, for each thread."""
    first = code.external_from[index]
    slots = code.external[first : first + count]
    block, stride = int(space.words[SPACE.arguments]), space.plan.layout.stride
    pairs = zip(space.plan.layout.patches[::2], space.plan.layout.patches[1::2], strict=True)
    arguments = [(block + WORD * word, slots[outside]) for word, outside in pairs]
    threads = range(int(space.words[SPACE.threads]))
    return [(address + WORD * stride * t, slot) for t in threads for address, slot in arguments]
