"""The axes of stages: equivalence classes of axes that are iterated together, and reductions along
slow axes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import attrs

from structir.backend.loops.access import Address, address_of
from structir.backend.loops.expression import Expression, axis_dim, substituted
from structir.backend.loops.stage import Guard, Stage
from structir.ir import dims
from structir.ir.dims import Dim, Sym


class AxisClasses:
    """Classes of axes. Joining axes of different extents has no effect."""

    def __init__(self, extents: Mapping[Sym, Dim]) -> None:
        self.extents = extents
        self.parents: dict[Sym, Sym] = {}  # in the order of joins

    def back_to(self, count: int) -> None:
        """Undoes all joins after the first `count`."""
        while len(self.parents) > count:
            self.parents.popitem()

    def of(self, axis: Sym) -> Sym:
        """Returns the representative of an axis."""
        while axis in self.parents:
            axis = self.parents[axis]
        return axis

    def of_all(self, axes: Iterable[Sym]) -> list[Sym]:
        """Returns the representatives of several axes."""
        parents = self.parents
        return [self.of(axis) if axis in parents else axis for axis in axes]

    def join(self, first: Sym, second: Sym) -> None:
        """Joins two axes, if they have the same extent."""
        a, b = self.of(first), self.of(second)
        known = a in self.extents and b in self.extents
        if a is not b and known and self.extents[a] == self.extents[b]:
            self.parents[b] = a

    def renamed(self, stage: Stage) -> Stage:
        """Returns the stage over the representatives of its axes."""
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


def reduces_slow_axes(stage: Stage) -> bool:
    """Whether a reduction is along slow axes: some parallel axis is contiguous.

    A reduced axis may be contiguous in reads that are constant along the last parallel axis, such
    as `x[i, k]` in `sum over k of x[i, k] * w[k, j]`.
    """
    if not stage.reduce:
        return False
    addresses = [address_of(r.buffer, r.entries, stage.axes) for r in stage.loads]
    reduced = set(stage.reduce)
    along_reduced = [a for a in addresses if _fast_axes(a) & reduced]
    fast = {axis for a in addresses for axis in _fast_axes(a)} & set(stage.parallel)
    if not along_reduced:
        return bool(fast)
    last = stage.parallel[-1] if stage.parallel else None
    return last in fast and not any(
        last in a.coefficients or a.data or last in a.pinned(stage.axes) for a in along_reduced
    )


def _fast_axes(address: Address) -> set[Sym]:
    return {axis for axis, step in address.coefficients.items() if step == 1}
