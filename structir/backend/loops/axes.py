"""Classes of axes that walk together: a union-find over the axes of all stages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import attrs

from structir.backend.loops.expression import Expression, axis_dim, substituted
from structir.backend.loops.stage import Guard, Stage
from structir.ir import dims
from structir.ir.dims import Dim, Sym


class AxisClasses:
    """Which axes have become one. Joining asks for equal extents and quietly does nothing else."""

    def __init__(self, extents: Mapping[Sym, Dim]) -> None:
        self.extents = extents
        self.parents: dict[Sym, Sym] = {}  # in the order in which they were joined

    def back_to(self, count: int) -> None:
        """Undo what was joined after so many."""
        while len(self.parents) > count:
            self.parents.popitem()

    def of(self, axis: Sym) -> Sym:
        """The axis that stands for the class of this one."""
        while axis in self.parents:
            axis = self.parents[axis]
        return axis

    def of_all(self, axes: Iterable[Sym]) -> list[Sym]:
        """The classes of several axes."""
        parents = self.parents
        return [self.of(axis) if axis in parents else axis for axis in axes]

    def join(self, first: Sym, second: Sym) -> None:
        """Make two axes one, if they have one extent."""
        a, b = self.of(first), self.of(second)
        known = a in self.extents and b in self.extents
        if a is not b and known and self.extents[a] == self.extents[b]:
            self.parents[b] = a

    def renamed(self, stage: Stage) -> Stage:
        """The stage over the axes that stand for its own."""
        change: dict[Sym, Dim] = {
            axis: axis_dim(self.of(axis)) for axis in stage.axes if self.of(axis) is not axis
        }
        if not change:
            return stage
        body = substituted(stage.body, change)
        return attrs.evolve(
            stage,
            parallel=tuple(self.of_all(stage.parallel)),
            reduce=tuple(self.of_all(stage.reduce)),
            extents={self.of(axis): extent for axis, extent in stage.extents.items()},
            body=body or stage.body,
            write=tuple(
                e if isinstance(e, Expression) else dims.substitute(e, change) for e in stage.write
            ),
            guards=tuple([Guard(dims.substitute(g.value, change)) for g in stage.guards]),
        )
