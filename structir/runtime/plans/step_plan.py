"""Step plans: a function or a loop at given sizes, run in one compiled call."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from itertools import chain
from typing import Any

import attrs
import numpy as np

from structir.runtime.plans.growing import OUTPUT, Growing, Grown
from structir.runtime.plans.instructions import (
    CONSTANT,
    OUTSIDE,
    VALUE,
    WORD,
    Code,
    InstructionBlock,
    MemoryCell,
    NotPlannedError,
    Slot,
    constant,
    leaves,
    map_leaves,
)
from structir.runtime.plans.plan import MAX_CACHED_BYTES
from structir.runtime.plans.repeated_loops import repeat_loops
from structir.runtime.plans.results import RESULTS, is_large
from structir.runtime.plans.sizes import ALIGNMENT
from structir.runtime.plans.workspace import GIL_RELEASE_ELEMENTS, Workspace
from structir.system.locks import cached_property
from structir.targets.cpu.bytecode import (
    OPCODE,
    STOP,
    bytecode_address,
    bytecode_runner,
    move_address,
)
from structir.targets.cpu.layouts import SPACE, STATE

Array = Any
LEFT = object()  # the value must be computed on the host


@attrs.frozen
class Result:
    """The index of an array among the results."""

    number: int


class StepPlan:
    """Encoded instructions, the memory of all values, and the structure of the result."""

    def __init__(
        self,
        block: InstructionBlock,
        inputs: Sequence[Slot],
        growing: Sequence[Growing],
        value: Any,
    ) -> None:
        self.inputs, self.growing = inputs, growing
        grown = [v for v in leaves(value) if isinstance(v, Grown)]
        if any(v.version != v.growing.version for v in grown):
            raise NotPlannedError("a value whose memory has been reused")
        self.outputs = [v for v in grown if v.kind == OUTPUT]
        self.results: list[Slot] = []
        self.value = map_leaves(value, lambda leaf: self._result(block, leaf))
        self.code = code = Code()
        block.write(code)
        room = [cell for g in growing for cell in (g.cell, g.filled)]
        for cell in (*[slot.cell for slot in (*inputs, *self.results)], *room):
            code.slot(cell)
        code.step(OPCODE.end)
        self.offsets, size = code.arena()
        self.own_bytes = size + ALIGNMENT
        self.plan_bytes = max([plan.arena_bytes for plan in code.plans], default=0) + ALIGNMENT
        self.bytes = self.own_bytes + self.plan_bytes
        if self.bytes > MAX_CACHED_BYTES:
            raise NotPlannedError("values that need too much memory")
        self.free: list[StepSpace] = []

    def _result(self, block: InstructionBlock, leaf: Any) -> Any:
        """Returns a leaf of the value after a run: a result, or its value before."""
        if isinstance(leaf, np.ndarray):
            leaf = Slot(constant(leaf), leaf.shape, leaf.dtype)
        if not isinstance(leaf, Slot):
            return leaf
        cell = MemoryCell(leaf.cell.root.bytes, OUTSIDE)
        block.move(cell, leaf.cell)
        self.results.append(Slot(cell, leaf.shape, leaf.dtype))
        return Result(len(self.results) - 1)

    @cached_property
    def space_of_calls(self) -> NativeSpace | None:
        """The space of native calls, which use it one at a time; None if they cannot run the
        plan."""
        is_plain = [*leaves(self.value)] == [Result(k) for k in range(len(self.results))]
        is_large_result = any(is_large(r.cell.root.bytes) for r in self.results)
        return None if self.growing or is_large_result or not is_plain else NativeSpace(self)

    def run(self, arrays: Sequence[Array]) -> Any:
        """Runs the plan on dense inputs; returns LEFT if the host must compute the value."""
        try:
            space = self.free.pop()
        except IndexError:
            space = StepSpace(self)
        results = [RESULTS.new(r.shape, r.dtype) for r in self.results]
        grown = {g: g.new(g.room) for g in self.growing}
        try:
            if not space.run(arrays, results, grown):
                return LEFT
            elements = {g: space.elements(g, array) for g, array in grown.items()}
            if any(not len(elements[g.growing]) for g in self.outputs):
                return LEFT  # an empty output has another shape
        finally:
            self.free.append(space)

        def from_run(leaf: Any) -> Any:
            if isinstance(leaf, Result):
                return results[leaf.number]
            return leaf.from_elements(elements[leaf.growing]) if isinstance(leaf, Grown) else leaf

        return map_leaves(self.value, from_run)


class StepSpace:
    """The memory of one run at a time: words, slots, buffers."""

    def __init__(self, plan: StepPlan) -> None:
        self.plan, code = plan, plan.code
        self.words = np.array(code.words, np.int64)
        self.slots = np.zeros(len(code.cells) + 1, np.int64)
        self.arena = np.empty(plan.own_bytes, np.uint8)
        shared = np.empty(plan.plan_bytes, np.uint8)
        self.external = np.array([*code.external, 0], np.int64)
        self.workspaces: dict[int, Workspace] = {}
        for bound, positions in code.plans.items():
            space = Workspace(bound, shared)
            for index in positions:
                self.workspaces[index] = space
                self.words[index, 1] = space.address
                self.words[index, 2] = self.external.ctypes.data + WORD * code.external_from[index]
        self.repeats = repeat_loops(self.words, code, self.workspaces)
        base = -(-self.arena.ctypes.data // ALIGNMENT) * ALIGNMENT
        for cell, slot in code.cells.items():
            if cell.origin == VALUE:
                self.slots[slot] = base + plan.offsets[cell]
            elif cell.origin == CONSTANT:
                self.slots[slot] = cell.data.ctypes.data
        outside = [slot.cell.root for slot in (*plan.inputs, *plan.results)]
        self.argument_slots = np.array([code.cells[cell] for cell in outside], np.int64)
        self.state = np.zeros(len(STATE), np.int64)
        self.state[STATE.code] = self.words.ctypes.data
        self.state[STATE.slots] = self.slots.ctypes.data
        self.state[STATE.move] = move_address()
        self.address = int(self.state.ctypes.data)

    def run(
        self, arrays: Sequence[Array], results: Sequence[Array], grown: dict[Growing, Array]
    ) -> bool:
        """Runs the instructions; returns whether the results are complete. A full growing value
        is reallocated."""
        self.slots[self.argument_slots] = [a.ctypes.data for a in (*arrays, *results)]
        for growing, array in grown.items():
            self._give_room(growing, array)
        self.state[STATE.at] = 0
        run = bytecode_runner()
        while (stop := run(self.address)) in (STOP.pause, STOP.full):
            if stop == STOP.full:
                slot = self.words[self.state[STATE.at], 1]
                growing = next(g for g in grown if self.plan.code.cells[g.cell.root] == slot)
                self._grow(growing, grown)
        if stop == STOP.failure:
            raise self.workspaces[int(self.state[STATE.at])].failure(int(self.state[STATE.detail]))
        return bool(stop == STOP.end)

    def _give_room(self, growing: Growing, array: Array) -> None:
        slot = self.plan.code.cells[growing.cell.root]
        self.slots[slot] = array.ctypes.data
        appends = (self.words[:, 0] == OPCODE.append) & (self.words[:, 1] == slot)
        self.words[appends, 5] = array.nbytes

    def _grow(self, growing: Growing, grown: dict[Growing, Array]) -> None:
        before = grown[growing]
        growing.room = 2 * len(before)
        grown[growing] = growing.new(growing.room)
        grown[growing][: len(before)] = before
        self._give_room(growing, grown[growing])

    def elements(self, growing: Growing, array: Array) -> Array:
        """Returns the current elements of a growing output."""
        address = int(self.slots[self.plan.code.cells[growing.filled.root]])
        count = growing.count(ctypes.c_int64.from_address(address).value)
        return array if count == len(array) else array[:count].copy()


class NativeSpace:
    """A StepSpace with the tables of native calls, which write addresses into its slots."""

    def __init__(self, plan: StepPlan) -> None:
        self.steps = space = StepSpace(plan)
        slots = space.argument_slots.tolist()
        patches = list(chain(*zip(slots, range(len(slots)), strict=True)))
        tables = [
            *_sizes(plan.inputs),
            *_sizes(plan.results),
            patches,
            [0] * len(space.argument_slots),
        ]
        self._tables = [np.array([*words, 0], np.int64) for words in tables]
        addresses = [int(words.ctypes.data) for words in self._tables]
        self.words = np.zeros(len(SPACE), np.int64)
        self.address = int(self.words.ctypes.data)
        elements = sum([b.elements_touched for b in plan.code.plans])
        is_long = bool(plan.code.loops) or elements > GIL_RELEASE_ELEMENTS
        space_words = {
            SPACE.long: is_long,
            SPACE.dims: addresses[0],
            SPACE.input_bytes: addresses[1],
            SPACE.result_dims: addresses[2],
            SPACE.result_bytes: addresses[3],
            SPACE.patches: addresses[4],
            SPACE.patch_count: len(space.argument_slots),
            SPACE.arguments: space.slots.ctypes.data,
            SPACE.outside: addresses[5],
            SPACE.threads: 1,
            SPACE.code: bytecode_address(),
            SPACE.state: space.address,
        }
        for index, value in space_words.items():
            self.words[index] = value


def _sizes(slots: Sequence[Slot]) -> list[list[int]]:
    """Returns the shapes of values, and their bytes."""
    return [[n for s in slots for n in s.shape], [s.cell.root.bytes for s in slots]]
