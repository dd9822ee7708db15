"""Loops over rows, over blocks of neighbouring columns, and over the terms of each column."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from structir.ir import dims
from structir.ir.dims import Dim
from structir.ir.expr import Var
from structir.ir.kernel import (
    VECTOR,
    Apply,
    Assign,
    Branch,
    KernelStatement,
    Local,
    LoopVariable,
    Scalar,
    Scratch,
)
from structir.ir.struct_info import TensorStructInfo
from structir.loops.kernel.library_nodes import Axes, FlatNodeWriter
from structir.loops.schedule.edits import calculate, integer

Statements = list[KernelStatement]
ZERO = integer(0)


class ColumnBlockWriter(FlatNodeWriter):
    """Writes a kernel whose range is its rows, or without rows the columns."""

    block: int  # the most columns of a block

    def set_axes(self, rows: Sequence[Axes], vector: Axes, terms: Sequence[Axes]) -> None:
        """Sets the collapsed axes: of rows, of columns, which may be absent, and of terms."""
        self.rows, self.vector, self.terms = rows, vector, terms
        self.flat_axes = self.stage.axes
        self.collapsed = frozenset([a for axes in (*rows, vector, *terms) for a in axes[:-1]])
        width = self.extent(vector)
        # the columns of the only block, if there is no other
        self.width = width if rows and dims.at_least(self.block, width) is True else None
        self.bounds: tuple[Scalar, Scalar] = ZERO, ZERO  # of the block

    def columns_array(self, name: str, dtype: str) -> Var:
        """Allocates an array with an element for each column of a block."""
        size: Dim = self.block if self.width is None else self.width
        self.scratch.append(Scratch(Var(name, TensorStructInfo((size,), dtype)), zeros=False))
        return self.scratch[-1].array  # type: ignore[attr-defined, no-any-return]

    def write_block(self, into: Statements) -> None:
        """Writes the results of a block of columns, or of a row without columns; subclasses do."""

    def write_group(self, into: Statements) -> None:
        body: Statements = []
        if self.rows:
            low, high = self.part(prod(self.extent(axes) for axes in self.rows), into)
            row = LoopVariable("r", "int64")
            self.decode(row, self.rows, body)
            self._row(body)
            into.append(self.loop_over(row, low, high, body))
        elif self.vector:
            self._blocks(*self.part(self.extent(self.vector), into), into)
        else:
            low, high = self.part(1, into)
            self.write_block(body)
            into.append(Branch(Apply("lt", (low, high), "bool"), tuple(body)))

    def _row(self, into: Statements) -> None:
        (width,) = self.integers(self.extent(self.vector))
        if self.vector and self.width is None:
            self._blocks(ZERO, width, into)
        else:
            self.bounds = ZERO, width
            self.write_block(into)

    def _blocks(self, low: Scalar, high: Scalar, into: Statements) -> None:
        start, stop = LoopVariable("j0", "int64"), Local("j1", "int64")
        self.bounds = start, stop
        end = Apply("min", (calculate("add", start, integer(self.block)), high), "int64")
        body: Statements = [Assign(stop, end)]
        self.write_block(body)
        into.append(self.loop_over(start, low, high, body, self.block))

    def over_columns(self, into: Statements, point: Callable[[Scalar, Statements], None]) -> None:
        """Writes a loop over the columns of the block; `point` receives the index of each in it."""
        column, body = LoopVariable(self.unused("j"), "int64"), list[KernelStatement]()
        self.scalars.axes[self.vector[-1]] = column
        point(calculate("sub", column, self.bounds[0]), body)
        into.append(self.loop_over(column, *self.bounds, body, kind=VECTOR))

    def over_axes(
        self, axes: Sequence[Axes], into: Statements, inner: Callable[[Statements], None]
    ) -> None:
        """Writes loops over some axes of terms."""
        if not axes:
            inner(into)
            return
        (size,) = self.integers(self.extent(axes[0]))
        self.over_axis(
            axes[0], (ZERO, size), into, lambda body: self.over_axes(axes[1:], body, inner)
        )

    def over_axis(
        self,
        axes: Axes,
        bounds: tuple[Scalar, Scalar],
        into: Statements,
        inner: Callable[[Statements], None],
        step: int = 1,
    ) -> None:
        """Writes a loop over an axis of terms."""
        variable, body = LoopVariable(self.unused("u"), "int64"), list[KernelStatement]()
        self.scalars.axes[axes[-1]] = variable
        inner(body)
        into.append(self.loop_over(variable, *bounds, body, step))
