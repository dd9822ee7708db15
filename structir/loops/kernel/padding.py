"""The kernel of a copy with a border: along the last axis the part that exists, and the fill value
around it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import accumulate
from operator import mul

from structir.ir import dims
from structir.ir.dims import Sym
from structir.ir.kernel import (
    Apply,
    Assign,
    Branch,
    KernelStatement,
    Literal,
    LoopVariable,
    Scalar,
)
from structir.loops.fusion.group import Group
from structir.loops.kernel.as_kernel import ShownKernel
from structir.loops.kernel.library_nodes import LibraryNodeWriter
from structir.loops.kernel.transposes import TURNED
from structir.loops.lower.as_scalar import stated
from structir.loops.program.access import address_of
from structir.loops.program.expression import Expression, Load
from structir.loops.program.stage import Guard, Stage
from structir.targets.cpu.products import has_own_products

ZERO = Literal(0, "int64")
FEWEST = 8  # planes or lines that threads share


def padding_nodes(group: Group, name: str) -> ShownKernel:
    """Returns the nodes of one copy with a border."""
    return _PaddingWriter(group, name).kernel()


class BorderWriter(LibraryNodeWriter):
    """Writes copies with a border."""

    def write_copy(self, stage: Stage, axes: Sequence[Sym], into: list[KernelStatement]) -> None:
        """Writes the loops over some axes of a copy, of which the last one is a line."""
        self.stage = stage
        self.turned = _turned(stage, axes)
        *outer, last = (axes[:-1] if self.turned else axes) or (None,)
        self._loops(stage, outer, into, lambda body: self._line(stage, last, body))

    def _line(self, stage: Stage, last: Sym | None, into: list[KernelStatement]) -> None:
        """Writes one line: if it exists, the fill value before and after the part that exists."""
        extent = Literal(1, "int64") if last is None else self.scalars.index(stage.extents[last])
        bounds = [g for g in stage.guards if last in dims.syms(g.value)]
        tests = [g for g in stage.guards if g not in bounds]
        assert stage.otherwise is not None
        inside: list[KernelStatement] = []
        if not bounds:
            self._along(last, ZERO, extent, stage.body, inside)
        else:
            low, high = self._part_inside(bounds, last, extent, inside)
            self._along(last, ZERO, low, stage.otherwise, inside)
            self._along(last, low, high, stage.body, inside)
            self._along(last, high, extent, stage.otherwise, inside)
        if not tests:
            into += inside
            return
        outside: list[KernelStatement] = []
        self._along(last, ZERO, extent, stage.otherwise, outside)
        exists = [Apply("ge", (self.scalars.index(g.value), ZERO), "bool") for g in tests]
        test: Scalar = reduce(lambda a, b: Apply("and", (a, b), "bool"), exists)
        into.append(Branch(test, tuple(inside), tuple(outside)))

    def _part_inside(
        self,
        bounds: Sequence[Guard],
        last: Sym | None,
        extent: Scalar,
        into: list[KernelStatement],
    ) -> tuple[Scalar, Scalar]:
        """Returns the ends of the part of a line that exists."""
        lows, highs = list[Scalar](), list[Scalar]()
        for guard in bounds:
            linear = None if last is None else dims.linear(guard.value, last)
            assert linear is not None and isinstance(linear[0], int)
            step, rest = linear[0], linear[1]
            if step > 0:
                lows.append(self.scalars.index(dims.ceildiv(-rest, step)))
            else:
                highs.append(self.scalars.index(dims.floordiv(rest, -step) + 1))
        low, high = self.scalars.local("low", "int64"), self.scalars.local("high", "int64")
        start: Scalar = ZERO
        for bound in lows:
            start = _greater(start, bound)
        into.append(Assign(low, _smaller(start, extent) if lows else stated(start)))
        end = _greater(low, reduce(_smaller, highs, extent)) if highs else extent
        into.append(Assign(high, end))
        return low, high

    def _along(
        self,
        last: Sym | None,
        low: Scalar,
        high: Scalar,
        body: Expression,
        into: list[KernelStatement],
    ) -> None:
        """Writes a value along a line."""
        stage = self.stage

        def point(inner: list[KernelStatement]) -> None:
            self._keep(stage, self.scalars.value(self._stored(stage, body), inner), inner)

        if last is None:
            point(into)
            return
        if self.turned is not None and body is stage.body:
            into.append(self._transpose(self.turned, last, low, high))
            return
        variable, inner = LoopVariable(self.unused("j"), "int64"), list[KernelStatement]()
        self.scalars.axes[last] = variable
        across = [] if self.turned is None else [stage.parallel[-1]]
        self._loops(stage, across, inner, point, "c")
        del self.scalars.axes[last]
        into.append(self.loop_over(variable, low, high, inner))

    def _transpose(self, read: Load, line: Sym, low: Scalar, high: Scalar) -> KernelStatement:
        """Returns the transpose of the part of a line that exists."""
        stage, last = self.stage, self.stage.parallel[-1]
        self.scalars.axes[line] = low
        places = [
            self.first_element(buffer, entries, (last,))
            for buffer, entries in ((stage.out, stage.write), (read.buffer, read.entries))
        ]
        del self.scalars.axes[line]
        written = address_of(stage.out, stage.write, stage.axes).coefficient(line)
        apart = address_of(read.buffer, read.entries, stage.axes).coefficient(last)
        sizes = self.integers(stage.extents[last], written, apart)
        return self.call("transpose", places, [Apply("sub", (high, low), "int64"), *sizes])


class _PaddingWriter(BorderWriter):
    """Writes a copy whose range is its planes, or its lines if planes are few."""

    def write_group(self, into: list[KernelStatement]) -> None:
        stage = self.stage
        if len(stage.parallel) < 2:
            self.write_copy(stage, stage.parallel, into)
            return
        lead = self._lead(stage)
        low, high = self.part(self.extent(lead), into)
        point, body = LoopVariable("i", "int64"), list[KernelStatement]()
        self.decode(point, [(axis,) for axis in lead], body)
        self.write_copy(stage, stage.parallel[len(lead) :], body)
        into.append(self.loop_over(point, low, high, body))

    def _lead(self, stage: Stage) -> tuple[Sym, ...]:
        """Returns the first axes, as many as have enough points for threads: a batch of unknown
        size may be 1."""
        *axes, _ = stage.parallel
        known = [size if isinstance(size := stage.extents[axis], int) else 1 for axis in axes]
        counts = list(accumulate(known, mul))
        enough = [k for k, count in enumerate(counts, 1) if count >= FEWEST]
        return tuple(axes[: min(enough, default=len(axes))])


def _turned(stage: Stage, axes: Sequence[Sym]) -> Load | None:
    """Returns the read of a copy that is contiguous along the axis before the last one, for a
    transpose in registers of the part that exists; None of any other copy."""
    read = stage.body
    if len(axes) < 2 or not isinstance(read, Load) or read.buffer.dtype != stage.out.dtype:
        return None
    if stage.out.dtype not in TURNED or not has_own_products(stage.out.dtype):
        return None
    line, last = axes[-2:]
    if any(last in dims.syms(guard.value) for guard in stage.guards):
        return None
    written = address_of(stage.out, stage.write, stage.axes)
    source = address_of(read.buffer, read.entries, stage.axes)
    if source.data or {line, last} & (source.pinned(stage.axes) | written.pinned(stage.axes)):
        return None
    is_turned = source.coefficient(line) == 1 == written.coefficient(last)
    return read if is_turned and source.coefficient(last) not in (0, 1) else None


def _greater(left: Scalar, right: Scalar) -> Scalar:
    return Apply("max", (left, right), "int64")


def _smaller(left: Scalar, right: Scalar) -> Scalar:
    return Apply("min", (left, right), "int64")
