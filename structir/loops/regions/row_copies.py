"""Copies of the rows of ragged tensors, row by row: each row is one block of memory.

Values between the rows are set to 0, so that all memory of the result is written.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from math import prod

from structir.ir.dtype import is_float
from structir.ir.expr import Var
from structir.ir.kernel import (
    VECTOR,
    Apply,
    Assign,
    Branch,
    Element,
    For,
    KernelStatement,
    Literal,
    Local,
    LoopVariable,
    Part,
    Scalar,
    While,
)
from structir.ir.struct_info import TensorStructInfo
from structir.loops.lower.as_scalar import Scalars
from structir.loops.program.buffer import Buffer, element_bytes
from structir.loops.program.stage import KernelCall, Stage, routine_stages
from structir.loops.regions.row_order import any_sign
from structir.loops.regions.segment_rows import rows_call, unread
from structir.loops.schedule.edits import calculate, integer
from structir.projections.spec import IndexSpec

CHUNK = 64  # bytes that are copied at once: vectors without a remainder
VECTORS = 2  # of a chunk
SHORT = 5  # vectors of a short row, which is copied without a loop
Steps = Sequence[int]  # elements that loops copy at once
Run = Sequence[Buffer]  # values, and the start and the limit of each row in them
Body = tuple[KernelStatement, ...]


def copies_of_rows(
    spec: IndexSpec, operands: Sequence[Buffer], origin: str
) -> tuple[list[Buffer], list[Stage]]:
    """Returns the stages of an op that copies rows of some operands into the rows of its result.

    Three operands each are values, and the start and the limit of each row in them; the last
    operand is the start of each row of the result.
    """
    out = Buffer(spec.results[0].dims, operands[0].dtype)
    call = _Copies(operands, out).kernel_call()
    return [out], routine_stages(list(dict.fromkeys(operands)), [out], call, origin)


def _number(name: str) -> Local:
    return Local(name, "int64")


def _least(first: Scalar, second: Scalar) -> Scalar:
    return Apply("min", (first, second), "int64")


def _most(first: Scalar, second: Scalar) -> Scalar:
    return Apply("max", (first, second), "int64")


def _next(row: Scalar) -> Scalar:
    return calculate("add", row, integer(1))


def _previous(row: Scalar) -> Scalar:
    return calculate("sub", row, integer(1))


def _or(first: Scalar, second: Scalar) -> Scalar:
    return Apply("or", (first, second), "bool")


def _both_signs(number: Scalar) -> list[Scalar]:
    """Returns numbers of which one is negative unless a number is 0."""
    return [number, calculate("sub", integer(0), number)]


class _Copies:
    """Writes the kernel that copies rows."""

    def __init__(self, operands: Sequence[Buffer], out: Buffer) -> None:
        self.operands, self.out = operands, out
        self.scalars = Scalars(unread)
        arrays = [b.root for b in dict.fromkeys((*operands, out))]
        self.arrays = {
            b: Var(f"x{k}", TensorStructInfo(b.shape, b.dtype)) for k, b in enumerate(arrays)
        }
        self.inner = self.scalars.index(prod(out.shape[1:]))
        self.total = self.scalars.index(out.shape[0])  # values of the result
        self.row, self.at = LoopVariable("row", "int64"), _number("at")
        self.stop, self.chunk = _number("stop"), CHUNK // element_bytes(out.dtype)
        self.lanes = self.chunk // VECTORS
        self.room = max(self.chunk, SHORT * self.lanes)  # elements behind a row in order
        self.loops = 0

    @property
    def runs(self) -> list[Run]:
        """The operands of which rows are copied, in the order of the copies."""
        parts = self.operands[:-1]
        return [tuple(parts[k : k + 3]) for k in range(0, len(parts), 3)]

    def _pairs(self) -> Iterator[tuple[Run, bool]]:
        """Yields the operands, and whether each is copied twice in succession."""
        runs = self.runs
        while runs:
            is_twice = runs[:1] == runs[1:2]
            yield runs[0], is_twice
            runs = runs[1 + is_twice :]

    def kernel_call(self) -> KernelCall:
        """Returns the kernel, called with the operands and the result."""
        starts = self.operands[-1]
        rows = self.scalars.index(starts.shape[0])
        low, high, after = Local("low", "int64"), Local("high", "int64"), _number("next")
        following = calculate("add", self.row, integer(1))
        has_row = Apply("lt", (self.row, rows), "bool")
        copies: list[KernelStatement] = []
        for run, is_twice in self._pairs():
            copies += self._copy_twice(run) if is_twice else self._copy(run)
        body = (
            Assign(self.at, self.total),
            Branch(has_row, (Assign(self.at, _most(self._entry(starts, self.row), integer(0))),)),
            Branch(
                Apply("eq", (self.row, integer(0)), "bool"), (self._zeros(integer(0), self.at),)
            ),
            Branch(
                has_row,
                (
                    *copies,
                    Assign(after, self.total),
                    Branch(
                        Apply("lt", (following, rows), "bool"),
                        (Assign(after, self._entry(starts, following)),),
                    ),
                    self._zeros(self.at, after),
                ),
            ),
        )
        stop = Assign(self.stop, _least(self._entry(starts, high), self.total))
        extent = starts.shape[0] + 1  # without rows, one iteration zeroes all values
        whole = _number("whole")
        kernel = (
            Part(low, high, extent),
            Assign(self.stop, self.total),
            Branch(Apply("lt", (high, rows), "bool"), (stop,)),
            *self._whole(low, _least(high, rows), whole),
            For(self.row, low, whole, 1, self._in_order()),
            For(self.row, whole, high, 1, body),
        )
        return rows_call(self.arrays, [self.out], kernel, self.scalars, extent)

    # ---- rows in order

    def _whole(self, low: Scalar, high: Scalar, whole: Local) -> Body:
        """Returns the statements that find the end of the rows that are in order in all arrays,
        follow each other in the result, and have room behind them for whole vectors.

        The last row is not one of them: the values behind it may be between rows.
        """
        row, signs, starts = LoopVariable("each", "int64"), _number("signs"), self.operands[-1]
        after, begin = _next(row), self._entry(starts, row)
        last = _most(_previous(whole), low)  # read before the test of the loop
        gap, numbers = calculate("sub", self._entry(starts, after), begin), list[Scalar]()
        room = [self._lacks_room(self._entry(starts, whole), self.stop)]
        for values, firsts, limits in self.runs:
            first, limit = self._entry(firsts, row), self._entry(limits, row)
            total = self.scalars.index(values.shape[0])
            length = calculate("sub", limit, first)
            gap = calculate("sub", gap, length)
            numbers += [first, length, calculate("sub", total, limit)]
            numbers.append(calculate("sub", self._entry(firsts, after), limit))
            room.append(self._lacks_room(self._entry(limits, last), total))
        numbers += [begin, *_both_signs(gap)]
        is_ordered = Apply("ge", (signs, integer(0)), "bool")
        head = _both_signs(self._entry(starts, low))
        has_rows = Apply("lt", (low, whole), "bool")
        is_first = Apply("eq", (low, integer(0)), "bool")
        fewer = While(
            Apply("and", (has_rows, reduce(_or, room)), "bool"), (Assign(whole, _previous(whole)),)
        )
        return (
            Assign(signs, integer(0)),
            Assign(whole, _most(calculate("sub", high, integer(1)), low)),
            Branch(
                Apply("and", (has_rows, is_first), "bool"), (Assign(signs, any_sign(signs, *head)),)
            ),
            For(row, low, whole, 1, (Assign(signs, any_sign(signs, *numbers)),)),
            Assign(whole, Apply("select", (is_ordered, whole, low), "int64")),
            Branch(has_rows, (fewer,)),
        )

    def _lacks_room(self, end: Scalar, total: Scalar) -> Scalar:
        """Returns whether a row has too few values behind it."""
        behind = calculate("add", self._scaled(end), integer(self.room))
        return Apply("gt", (behind, self._scaled(total)), "bool")

    def _in_order(self) -> Body:
        """Returns the copy of a row in whole vectors: later ones overwrite what is behind it."""
        body = list[KernelStatement]()
        for run, is_twice in self._pairs():
            body += self._vectors(run, 1 + is_twice)
        return (Assign(self.at, self._entry(self.operands[-1], self.row)), *body)

    def _vectors(self, run: Run, times: int) -> Body:
        """Returns one or two copies of an operand in whole vectors.

        The vectors of a short row need no loop, whose end the processor would mispredict. Those of
        a longer one end where the row ends: two copies can be written at once.
        """
        values, firsts, limits = run
        source, length, elements = map(_number, ("source", "length", "elements"))
        targets = [_number(name) for name in ("target", "second")[:times]]
        first, limit = self._entry(firsts, self.row), self._entry(limits, self.row)
        short = list[KernelStatement]()
        for target in targets:
            for k in range(SHORT):
                short.append(self._vector(values, source, target, integer(k * self.lanes)))
        start, behind = self._variable(), calculate("sub", elements, integer(self.chunk))
        chunks, last = list[KernelStatement](), list[KernelStatement]()
        for target in targets:
            chunks.append(self._vector(values, source, target, start, self.chunk))
            last.append(self._vector(values, source, target, behind, self.chunk))
        long = (For(start, integer(0), behind, self.chunk, tuple(chunks)), *last)
        is_short = Apply("le", (elements, integer(SHORT * self.lanes)), "bool")
        following = [Assign(t, calculate("add", targets[0], elements)) for t in targets[1:]]
        return (
            Assign(length, calculate("sub", limit, first)),
            Assign(elements, self._scaled(length)),
            Assign(source, self._scaled(first)),
            Assign(targets[0], self._scaled(self.at)),
            *following,
            Branch(is_short, tuple(short), long),
            Assign(self.at, calculate("add", self.at, calculate("mul", length, integer(times)))),
        )

    def _vector(
        self, values: Buffer, source: Scalar, target: Scalar, offset: Scalar, count: int = 0
    ) -> For:
        """Returns the copy of some elements, by default those of a vector."""
        lane = self._variable()
        index = calculate("add", offset, lane)
        place = self._flat(self.out, calculate("add", target, index))
        copy = Assign(place, self._flat(values, calculate("add", source, index)))
        return For(lane, integer(0), integer(count or self.lanes), 1, (copy,), kind=VECTOR)

    # ---- rows in any order

    def _zeros(self, first: Scalar, stop: Scalar) -> For:
        """Returns the loop that zeroes the values between two rows."""
        dtype = self.out.dtype
        zero = Literal(False if dtype == "bool" else 0.0 if is_float(dtype) else 0, dtype)
        at = self._variable()
        low, high = self._scaled(first), self._scaled(_least(stop, self.total))
        return For(at, low, high, 1, (Assign(self._flat(self.out, at), zero),))

    def _ends(self, run: Run) -> tuple[Local, Local, Body]:
        """Returns the start of a row and its size, and the statements that compute them."""
        values, starts, limits = run
        total = self.scalars.index(values.shape[0])
        first, size = _number("first"), _number("size")
        length = calculate("sub", _least(self._entry(limits, self.row), total), first)
        head = (
            Assign(first, _most(self._entry(starts, self.row), integer(0))),
            Assign(size, _most(length, integer(0))),
        )
        return first, size, head

    def _room(self, *used: Scalar) -> Scalar:
        """Returns the number of values of the result from the row on, but for the used ones."""
        room: Scalar = self.total
        for count in (self.at, *used):
            room = calculate("sub", room, count)
        return _most(room, integer(0))

    def _copy(self, run: Run) -> Body:
        """Returns the copy of a row: in whole chunks where what follows may be overwritten."""
        first, size, head = self._ends(run)
        count, source, target, end = map(_number, ("count", "source", "target", "end"))
        total = self.scalars.index(run[0].shape[0])
        behind = _least(
            calculate("sub", self.stop, self.at),
            calculate("sub", total, first),
        )
        up = Apply(
            "bitand",
            (calculate("add", count, integer(self.chunk - 1)), integer(-self.chunk)),
            "int64",
        )
        return (
            *head,
            Assign(size, _least(size, self._room())),
            Assign(count, self._scaled(size)),
            Assign(source, self._scaled(first)),
            Assign(target, self._scaled(self.at)),
            Assign(end, up),
            Branch(Apply("gt", (end, self._scaled(behind)), "bool"), (Assign(end, count),)),
            *self._run(run[0], source, (target,), end, (self.chunk,)),
            Assign(self.at, calculate("add", self.at, size)),
        )

    def _copy_twice(self, run: Run) -> Body:
        """Returns the copy of a row to two addresses; the second may have less room."""
        first, size, head = self._ends(run)
        again, source, target, second = map(_number, ("again", "source", "target", "second"))
        length = _number("length")
        both, rest = _number("both"), _number("rest")
        steps = (self.chunk, self.chunk // VECTORS)
        return (
            *head,
            Assign(length, size),
            Assign(size, _least(length, self._room())),
            Assign(again, _least(length, self._room(size))),
            Assign(both, self._scaled(again)),
            Assign(source, self._scaled(first)),
            Assign(target, self._scaled(self.at)),
            Assign(second, calculate("add", target, self._scaled(size))),
            *self._run(run[0], source, (target, second), both, steps),
            Assign(rest, calculate("sub", self._scaled(size), both)),
            Assign(source, calculate("add", source, both)),
            Assign(target, calculate("add", target, both)),
            *self._run(run[0], source, (target,), rest, ()),
            Assign(self.at, calculate("add", self.at, calculate("add", size, again))),
        )

    def _run(
        self, values: Buffer, source: Scalar, targets: Sequence[Scalar], count: Scalar, steps: Steps
    ) -> Body:
        """Returns the loops that copy a number of elements: in chunks of each size, then the
        rest."""

        def moved(target: Scalar, *offsets: Scalar) -> Assign:
            to, of = target, source
            for offset in offsets:
                to, of = calculate("add", to, offset), calculate("add", of, offset)
            return Assign(self._flat(self.out, to), self._flat(values, of))

        def chunk(first: Scalar, step: int) -> Body:
            # a second store in one loop would need a test that the two targets do not overlap
            lanes = [(target, self._variable()) for target in targets]
            return tuple(
                [
                    For(k, integer(0), integer(step), 1, (moved(to, first, k),), kind=VECTOR)
                    for to, k in lanes
                ]
            )

        loops: list[KernelStatement] = []
        done: Scalar = integer(0)
        for step in steps:
            first, whole = self._variable(), Apply("bitand", (count, integer(-step)), "int64")
            loops.append(For(first, done, whole, step, chunk(first, step)))
            done = whole
        single = self._variable()
        last = For(single, done, count, 1, tuple([moved(to, single) for to in targets]))
        if not steps:
            return (last,)
        # the last elements are copied with some before them
        width = integer(steps[-1])
        behind = chunk(calculate("sub", count, width), steps[-1])
        tail = Branch(Apply("ge", (count, width), "bool"), behind, (last,))
        return (*loops, Branch(Apply("lt", (done, count), "bool"), (tail,)))

    # ---- scalars

    def _variable(self) -> LoopVariable:
        self.loops += 1
        return LoopVariable(f"k{self.loops}", "int64")

    def _scaled(self, count: Scalar) -> Scalar:
        return calculate("mul", count, self.inner)

    def _entry(self, table: Buffer, row: Scalar) -> Scalar:
        is_view = len(table.root.shape) != 1
        element = Element(self.arrays[table.root], (row,), table.dtype, flat=is_view)
        return element if table.dtype == "int64" else Apply("cast", (element,), "int64")

    def _flat(self, buffer: Buffer, index: Scalar) -> Element:
        return Element(self.arrays[buffer.root], (index,), buffer.dtype, flat=True)
