"""Loops over the values of one row of a ragged tensor, in blocks of whole vectors.

LLVM computes what remains behind the last vector of a loop one value at a time, which takes longer
than a short row. Here the first block of a row has the remainder, and whole blocks follow. All of
the first block is computed, without a branch: what is beyond the remainder does not enter totals,
and in results later values overwrite it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs

from structir.ir.expr import Var
from structir.ir.kernel import (
    REGISTERS,
    VECTOR,
    Apply,
    Assign,
    Element,
    For,
    KernelStatement,
    Literal,
    Local,
    LoopVariable,
    Scalar,
    Scratch,
    nodes_of,
)
from structir.ir.node import replace
from structir.ir.scalar_functions import declared
from structir.ir.struct_info import TensorStructInfo
from structir.loops.lower.as_scalar import applied, literal, stated
from structir.loops.program.buffer import element_bytes
from structir.loops.regions.row_totals import (
    RowMemory,
    identity_of,
    lane_dtype,
    position,
    totals_of,
)
from structir.loops.schedule.edits import calculate, fresh_copy, integer
from structir.targets.cpu.unaligned_sums import WHOLE_BYTES, vector_bytes

BLOCK = 32  # values; half as many of 8 bytes
BEHIND = 2 * BLOCK  # values behind a row in memory that only the loop has
MOST_LANES = 16  # LLVM unrolls longer loops before it vectorizes them
Body = Sequence[KernelStatement]


@attrs.frozen(eq=False)
class BlockSize:
    """A number of values, and how many of them the first block of a row has."""

    values: int
    rest: Local
    lanes: Local  # the same number, as an int32


class VectorBlocks:
    """Rewrites the loops over a row to blocks."""

    def __init__(self, memory: RowMemory) -> None:
        self.memory = memory
        self.totals: list[Scratch] = []  # of the lanes of a block
        self.sizes: dict[int, BlockSize] = {}
        self.bytes = WHOLE_BYTES  # of a vector
        self.count = 0

    def statements(self, body: Body) -> Body | None:
        """Returns the statements of a row in blocks; None if a loop over it has no such form."""
        statements = list(_without_single_rows(body))
        loops = [s for s in statements if isinstance(s, For)]
        others = [node for s in statements if s not in loops for node in nodes_of(s)]
        totals = {loop: totals_of(loop, self.memory) for loop in loops}
        loops = [loop for loop in loops if totals[loop] is not None]
        is_plain = all(self._only_reads(loop) for loop in totals if totals[loop] is None)
        if not loops or not is_plain or any(isinstance(node, For) for node in others):
            return None
        values = _function_block(loops) if any(map(_calls_functions, loops)) else self._block(loops)
        self.bytes = vector_bytes([node for s in statements for node in nodes_of(s)])
        rewritten = list[KernelStatement]()
        for statement in statements:
            own = totals.get(statement)  # type: ignore[call-overload]
            if own is None:
                rewritten.append(statement)
                continue
            is_shared = self._has_functions_or_rooms(statement)
            size = self._size(values if is_shared else self._block([statement]))
            rewritten += _Blocks(self, size, statement, own).statements()
        return [*self._heads(), *rewritten]

    def _block(self, loops: Sequence[Any]) -> int:
        """Returns the values of a block of other functions, whose totals are in registers."""
        pairs = [(loop, statement) for loop in loops for statement in loop.body]
        dtypes = [lane_dtype(*pair, self.memory.length) for pair in pairs]
        return BLOCK // 2 if any(element_bytes(dtype) == 8 for dtype in dtypes) else BLOCK

    def _only_reads(self, loop: Any) -> bool:
        """Whether a loop writes no memory, and reads none that blocks of other loops write."""
        elements = [node for node in nodes_of(loop) if isinstance(node, Element)]
        targets = [node.target for node in nodes_of(loop) if isinstance(node, Assign)]
        is_read = all(element.array not in self.memory.rooms for element in elements)
        return is_read and not any(isinstance(target, Element) for target in targets)

    def _has_functions_or_rooms(self, loop: Any) -> bool:
        """Whether a loop calls math functions, or shares memory with one that may."""
        arrays = [node.array for node in nodes_of(loop) if isinstance(node, Element)]
        return _calls_functions(loop) or not self.memory.rooms.isdisjoint(arrays)

    def _size(self, values: int) -> BlockSize:
        if values not in self.sizes:
            rest, lanes = Local(f"rest{values}", "int64"), Local(f"lanes{values}", "int32")
            self.sizes[values] = BlockSize(values, rest, lanes)
        return self.sizes[values]

    def _heads(self) -> Iterator[KernelStatement]:
        """Yields the statements that compute the numbers of values in first blocks."""
        for size in self.sizes.values():
            rest = Apply("bitand", (self.memory.length, integer(size.values - 1)), "int64")
            yield Assign(size.rest, rest)
            yield Assign(size.lanes, Apply("cast", (size.rest,), "int32"))


class _Blocks:
    """Writes one loop over a row in blocks."""

    def __init__(
        self, rows: VectorBlocks, size: BlockSize, loop: Any, totals: Mapping[Local, Apply]
    ) -> None:
        self.rows, self.size, self.loop, self.totals = rows, size, loop, totals
        rows.count += 1
        names = [f"{stem}{rows.count}" for stem in ("first", "start", "next", "lane")]
        self.first, self.start, self.next, self.lane = [LoopVariable(n, "int64") for n in names]
        self.lanes = {total: self._lanes(total) for total in totals}

    def statements(self) -> Iterator[KernelStatement]:
        """Yields the loops over the first block, over the others, and over the totals of lanes."""
        values = self.size.values
        yield _vector(self.first, values, self._first_block())
        whole = calculate("sub", self.loop.stop, self.size.rest)
        inner = _vector(self.next, values, self._further_block())
        yield For(self.start, integer(0), whole, values, (inner,))
        for total, value in self.totals.items():
            dtype: str = self.lanes[total].struct_info.dtype  # type: ignore[attr-defined]
            count = min(self.rows.bytes // element_bytes(dtype), values, MOST_LANES)
            term = self._across(total, replace(value, dtype=dtype), count)
            term = term if dtype == total.dtype else Apply("cast", (term,), total.dtype)
            yield _vector(self.lane, count, [Assign(total, _with(value, total, term))])

    def _lanes(self, total: Local) -> Var:
        """Returns an array for the totals of the lanes of a block."""
        name, totals = f"totals{len(self.rows.totals)}", self.rows.totals
        statement = Assign(total, self.totals[total])
        dtype = lane_dtype(self.loop, statement, self.rows.memory.length)
        array = Var(name, TensorStructInfo((self.size.values,), dtype))
        totals.append(Scratch(array, zeros=False, space=REGISTERS))
        return array

    def _first_block(self) -> Iterator[KernelStatement]:
        # LLVM would compare the numbers themselves as int64, of which a vector has half as many
        index = _narrow(self.first)
        distance = Apply("sub", (index, self.size.lanes), "int32")
        is_inside = Apply("lt", (distance, Literal(0, "int32")), "bool")
        for statement in self._at(self.first, self.first, index):
            total = statement.target
            if total not in self.lanes:
                yield statement
                continue
            place = _element(self.lanes[total], self.first)
            term = Local(f"{total.name}_term", place.dtype)
            none = literal(identity_of(statement.value), place.dtype)
            yield Assign(term, stated(statement.value.args[1]))
            yield Assign(place, applied("select", [is_inside, term, none], place.dtype))

    def _further_block(self) -> Iterator[KernelStatement]:
        index = calculate("add", self.start, self.next)
        room = calculate("add", index, integer(self.size.values))
        block = _narrow(calculate("add", self.size.rest, self.start))
        position = Apply("add", (block, _narrow(self.next)), "int32")
        for statement in self._at(room, calculate("add", self.size.rest, index), position):
            total = statement.target
            if total not in self.lanes:
                yield statement
                continue
            place = _element(self.lanes[total], self.next)
            yield Assign(place, _with(statement.value, place, statement.value.args[1]))

    def _at(self, room: Scalar, value: Scalar, index: Scalar) -> Iterator[Any]:
        """Yields the statements of the loop at an index in rooms, and one in the row, which is also
        given as an int32."""
        memory, variable = self.rows.memory, self.loop.variable
        for statement in self.loop.body:
            if statement.target in self.totals:
                combined = statement.value
                term = position(self.loop, combined.args[1], index, memory.length)
                if term is not None:
                    combined = replace(combined, args=(combined.args[0], term), dtype="int32")
                    statement = replace(statement, value=combined)
            yield memory.at(statement, variable, room, value)

    def _across(self, total: Local, value: Apply, count: int) -> Scalar:
        """Returns the combination of a lane of all vectors of a block, as a tree: each result waits
        for fewer others."""
        lanes = self.lanes[total]
        terms: list[Scalar] = [
            _element(lanes, calculate("add", self.lane, integer(first)))
            for first in range(0, self.size.values, count)
        ]
        while len(terms) > 1:
            pairs = zip(terms[::2], terms[1::2], strict=False)
            terms = [_with(value, *pair) for pair in pairs] + terms[len(terms) & ~1 :]
        return terms[0]


def _without_single_rows(body: Body) -> Iterator[KernelStatement]:
    """Yields statements, and those of loops that run once."""
    for statement in body:
        if isinstance(statement, For) and _is(statement.start, 0) and _is(statement.stop, 1):
            yield from fresh_copy(None, statement, {statement.variable: integer(0)}).body
        else:
            yield statement


def _function_block(loops: Sequence[For]) -> int:
    """Returns the values of a block of math functions: one vector. They cost more than a
    mispredicted branch, and several vectors at once need more registers than there are."""
    nodes = [node for loop in loops for node in nodes_of(loop)]
    dtypes = {node.dtype for node in nodes if isinstance(node, Element | Apply)}
    sizes = [element_bytes(dtype) for dtype in dtypes - {"bool", "int64"}]
    return vector_bytes(nodes) // max([4, *sizes])


def _calls_functions(loop: Any) -> bool:
    """Whether a loop calls math functions."""
    return any(isinstance(node, Apply) and node.fn in declared() for node in nodes_of(loop))


def _vector(variable: LoopVariable, count: int, body: Any) -> For:
    return For(variable, integer(0), integer(count), 1, tuple(body), kind=VECTOR)


def _narrow(index: Scalar) -> Apply:
    """Returns an index as an int32, of which a vector has twice as many."""
    return Apply("cast", (index,), "int32")


def _element(array: Var, index: Scalar) -> Element:
    return Element(array, (index,), array.struct_info.dtype)  # type: ignore[attr-defined]


def _with(value: Apply, total: Scalar, term: Scalar) -> Apply:
    """Returns the combination of another total and another term."""
    return replace(value, args=(total, term))


def _is(scalar: Scalar, value: int) -> bool:
    return isinstance(scalar, Literal) and scalar.value == value
