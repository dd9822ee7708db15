"""The kernel of an in-register transpose: elements are read along one axis and written along
another, in tiles of equal sides."""

from __future__ import annotations

from math import prod

import attrs

from structir.ir.kernel import Apply, Assign, KernelStatement, Literal, LoopVariable, Scalar
from structir.loops.fusion.group import Group
from structir.loops.kernel.as_kernel import ShownKernel
from structir.loops.kernel.library_nodes import Axes, LibraryNodeWriter
from structir.loops.program.access import Address, address_of, joined_axes
from structir.loops.program.expression import Load
from structir.targets.cpu.products import has_own_products

ZERO = Literal(0, "int64")
TURNED = frozenset({"float32", "float64"})


@attrs.frozen
class Transpose:
    """A copy that reads along `turned` and writes along `last`; `others` are further axes."""

    copy: Load
    read: Address
    written: Address
    others: list[Axes]
    turned: Axes
    last: Axes


def transpose_of(group: Group) -> Transpose | None:
    """Returns the transpose that a group is; None for any other group."""
    stage = group.stages[0]
    copy = stage.body
    if len(group.stages) > 1 or not stage.direct or stage.reduce or not isinstance(copy, Load):
        return None
    if copy.buffer.dtype != stage.out.dtype or stage.out.dtype not in TURNED:
        return None
    read = address_of(copy.buffer, copy.entries, stage.axes)
    written = address_of(stage.out, stage.write, stage.axes)
    if read.data or read.pinned(stage.axes):
        return None
    *outer, last = joined_axes(stage.parallel, stage.extents, [read, written]) or [()]
    turned = [g for g in outer if read.coefficient(g[-1]) == 1]
    steps = [read.coefficient(last[-1]), written.coefficient(last[-1])] if last else [0, 0]
    if not turned or steps[1] != 1 or steps[0] in (0, 1) or not has_own_products(stage.out.dtype):
        return None
    others = [g for g in outer if g is not turned[0]]
    return Transpose(copy, read, written, others, turned[0], last)


def transpose_kernel(group: Group, transpose: Transpose, name: str) -> ShownKernel:
    """Returns the kernel of a transpose: with each call, as many neighbours along the transposed
    axis as the range has."""
    return _TransposeWriter(group, transpose, name).kernel()


class _TransposeWriter(LibraryNodeWriter):
    def __init__(self, group: Group, transpose: Transpose, name: str) -> None:
        super().__init__(group, name)
        self.transpose = transpose

    def write_group(self, into: list[KernelStatement]) -> None:
        transposition = self.transpose
        lines = prod(self.extent(axes) for axes in transposition.others)
        length = self.extent(transposition.turned)
        low, high = self.part(lines * length, into)
        if not transposition.others:
            into.append(self._call(low, Apply("sub", (high, low), "int64")))
            return
        divisor, line = self.divisor(length), LoopVariable("g", "int64")
        ends = [Apply("floordiv", (end, divisor), "int64") for end in (low, high)]
        start = Apply("max", (ends[0], ZERO), "int64")
        after = Apply("add", (ends[1], Literal(1, "int64")), "int64")
        stop = Apply("min", (after, *self.integers(lines)), "int64")
        body: list[KernelStatement] = []
        self.decode(line, transposition.others, body)
        (size,) = self.integers(length)
        before = Apply("mul", (line, size), "int64")
        first, count = self.scalars.local("first", "int64"), self.scalars.local("count", "int64")
        begin, end = [Apply("sub", (bound, before), "int64") for bound in (low, high)]
        body.append(Assign(first, Apply("max", (begin, ZERO), "int64")))
        cut = Apply("min", (end, size), "int64")
        body.append(Assign(count, Apply("sub", (cut, first), "int64")))
        body.append(self._call(first, count))
        into.append(self.loop_over(line, start, stop, body))

    def _call(self, first: Scalar, count: Scalar) -> KernelStatement:
        """Returns the call for some neighbours along the transposed axis."""
        transposition = self.transpose
        self.scalars.axes[transposition.turned[-1]] = first
        groups = [*transposition.others, transposition.turned]
        places = [
            self.flat_element(buffer, self.first_index(address, groups))
            for buffer, address in (
                (self.stage.out, transposition.written),
                (transposition.copy.buffer, transposition.read),
            )
        ]
        steps = (
            transposition.written.coefficient(transposition.turned[-1]),
            transposition.read.coefficient(transposition.last[-1]),
        )
        return self.call(
            "transpose", places, [count, *self.integers(self.extent(transposition.last), *steps)]
        )
