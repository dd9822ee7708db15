"""Definite initialisation: whether a kernel is proved to write every element of a result before it
reads any."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import permutations
from math import prod
from typing import Any

import attrs

from structir.ir import dims
from structir.ir.dims import Dim
from structir.ir.expr import Var
from structir.ir.kernel import (
    Apply,
    Assign,
    Branch,
    Break,
    Continue,
    Element,
    For,
    Kernel,
    KernelStatement,
    Literal,
    Local,
    Part,
    Scalar,
    nodes_of,
)
from structir.loops.emit.index_proofs import IndexRanges

MOST_AXES = 5  # loops whose order is searched


def surely_filled(kernel: Kernel, result: Var, ranges: IndexRanges) -> bool:
    """Whether loops over all axes of a result, with nothing else around, write each element, and
    nothing before reads it. The parts of a kernel together are the whole range."""
    assigns = [n for n in nodes_of(kernel) if isinstance(n, Assign)]
    counts = Counter([n.target for n in assigns])
    once = {n.target: n.value for n in assigns if counts[n.target] == 1}
    part = kernel.part
    if part is not None and (counts[part.low] or counts[part.high]):
        part = None
    coverage = _Coverage(result, ranges, once, part)
    for statement in kernel.body:
        nodes = list(nodes_of(statement))
        elements = [n for n in nodes if isinstance(n, Element) and n.array is result]
        stores = [n for n in nodes if isinstance(n, Assign) and not n.symbol]
        if len(elements) > len([store for store in stores if store.target in elements]):
            return False  # it reads an element, or a library function has one
        if coverage.statement(statement, ()):
            return True
    return False


@attrs.frozen
class _Axis:
    """A loop over a whole range: its variable and its number of iterations. A loop over the starts
    of blocks has a `step`, and one inside of it covers the same range."""

    variable: Local
    extent: Dim
    stop: Scalar
    step: int = 1


@attrs.frozen(eq=False)
class _Coverage:
    """The search for statements that write a result at every index."""

    result: Var
    ranges: IndexRanges
    once: Mapping[Any, Scalar]  # values of the variables that are assigned once
    part: Part | None

    def statements(self, statements: Sequence[KernelStatement], axes: tuple[_Axis, ...]) -> bool:
        """Whether statements inside of loops write the result at every index."""
        return any(self.statement(s, axes) for s in statements)

    def statement(self, statement: KernelStatement, axes: tuple[_Axis, ...]) -> bool:
        """Whether one statement does."""
        match statement:
            case Assign(target=Element() as target) if target.array is self.result:
                return self.covers(target, axes)
            case Branch():
                sides = (statement.then, statement.otherwise)
                return all(self.statements(side, axes) for side in sides)
            case For() if not _jumps(statement.body):
                axis = self.axis(statement, axes)
                return axis is not None and self.statements(statement.body, (*axes, axis))
        return False

    def axis(self, loop: For, axes: tuple[_Axis, ...]) -> _Axis | None:
        """Returns a loop over a whole range, which all blocks of an outer loop may make up."""
        for outer in axes:
            if outer.step > 1 and loop.start is outer.variable and loop.step == 1:
                return (
                    _Axis(loop.variable, outer.extent, loop.stop)
                    if self.ends(loop, outer)
                    else None
                )
        extent = self.extent(loop)
        return None if extent is None else _Axis(loop.variable, extent, loop.stop, abs(loop.step))

    def extent(self, loop: For) -> Dim | None:
        """Returns the number of iterations of a loop over a whole range, in either direction, or
        all of a part."""
        if loop.step == -1 and isinstance(loop.stop, Literal) and loop.stop.value == -1:
            last = self.ranges.value(loop.start)
            return None if last is None else last + 1
        if loop.step < 1:
            return None
        part = self.part
        if part is not None and loop.start is part.low and loop.stop is part.high:
            return part.extent
        from_start = isinstance(loop.start, Literal) and loop.start.value == 0
        return self.ranges.value(loop.stop) if from_start else None

    def ends(self, loop: For, outer: _Axis) -> bool:
        """Whether a loop from the start of a block ends where the next block starts, or at the end
        of the range."""
        match self.once.get(loop.stop, loop.stop):
            case Apply("min", (Apply("add", (start, Literal(step))), stop)):
                return start is outer.variable and step == outer.step and stop is outer.stop
        return False

    def covers(self, target: Element, axes: tuple[_Axis, ...]) -> bool:
        """Whether the index of an element takes every value in loops: it is that of a row-major
        array whose axes are these loops."""
        axes = tuple([axis for axis in axes if axis.step == 1])
        shape = self.ranges.shapes[self.result]
        if len(axes) > MOST_AXES or prod([axis.extent for axis in axes]) != prod(shape):
            return False
        symbols = {axis.variable: dims.sym(axis.variable.name) for axis in axes}
        if len(symbols) < len(axes):
            return False
        position = self.position(target, shape, symbols)
        return position is not None and any(
            position == _row_major([symbols[a.variable] for a in order], [a.extent for a in order])
            for order in permutations(axes)
        )

    def position(
        self, target: Element, shape: Sequence[Dim], symbols: Mapping[Local, Dim]
    ) -> Dim | None:
        """Returns the position of an element in terms of the variables of loops."""
        if not target.flat and set(target.indices) != symbols.keys():
            return None  # other positions may be equal outside of an axis
        values = self.ranges.values
        outer = {local: values.get(local) for local in symbols}
        values.update(symbols)
        indices = [self.ranges.value(index) for index in target.indices]
        for local, value in outer.items():
            values.pop(local)
            if value is not None:
                values[local] = value
        if any(index is None for index in indices):
            return None
        return indices[0] if target.flat else _row_major(indices, shape)  # type: ignore[arg-type]


def _row_major(indices: Sequence[Dim], shape: Sequence[Dim]) -> Dim:
    """Returns the position of an element of an array."""
    position: Dim = 0
    for index, size in zip(indices, shape, strict=True):
        position = position * size + index
    return position


def _jumps(statements: Sequence[KernelStatement]) -> bool:
    """Whether a loop with this body may end early or skip an iteration."""
    return any(
        isinstance(s, Break | Continue)
        or (isinstance(s, Branch) and (_jumps(s.then) or _jumps(s.otherwise)))
        for s in statements
    )
