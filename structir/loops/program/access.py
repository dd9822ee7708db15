"""Addresses of accesses: affine functions of the axes. Classes of axes that are iterated together,
and reductions along slow axes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import attrs

from structir.ir import dims
from structir.ir.dims import Atom, Dim, Poly, Sym
from structir.ir.polynomial import of_terms
from structir.loops.program.buffer import Buffer
from structir.loops.program.expression import Entry, Expression, Load, axis_dim, substituted
from structir.loops.program.stage import Guard, Stage


@attrs.frozen
class Address:
    """sum(coefficient * axis) + rest + sum(stride * index loaded from data), in elements.

    The coefficients are free of axes. `rest` is the offset and everything that is not affine.
    """

    coefficients: Mapping[Sym, Dim]
    rest: Dim
    data: tuple[tuple[Dim, Expression], ...] = ()  # stride, index

    def coefficient(self, axis: Sym) -> Dim:
        """Returns the stride of an axis."""
        return self.coefficients.get(axis, 0)

    def pinned(self, axes: Iterable[Sym]) -> frozenset[Sym]:
        """The axes that `rest` depends on."""
        return dims.syms(self.rest) & frozenset(axes)


def split(index: Dim, axes: tuple[Sym, ...]) -> tuple[dict[Sym, Dim], Dim]:
    """Splits an index into the coefficients of the axes that it is affine in, and the rest."""
    if type(index) is not Poly:
        return {}, index
    own = frozenset(axes)
    plain = _split_plain(index, own)
    if plain is not None:
        steps, rest = plain
        return {axis: steps[axis] for axis in axes if axis in steps}, rest
    coefficients: dict[Sym, Dim] = {}
    rest = index
    occurring = dims.syms(index)
    for axis in axes:
        if axis in occurring:
            linear = dims.linear(rest, axis)
            if linear is not None and not dims.syms(linear[0]) & own:
                coefficients[axis], rest = linear
    return {axis: c for axis, c in coefficients.items() if c != 0}, rest


def _split_plain(index: Poly, axes: frozenset[Sym]) -> tuple[dict[Sym, int], Dim] | None:
    """Splits an index without functions, and without products of which an axis is a factor."""
    steps: dict[Sym, int] = {}
    rest: dict[tuple[Atom, ...], int] = {}
    for monomial, factor in index.terms.items():
        atom = monomial[0]
        if len(monomial) == 1 and type(atom) is Sym and atom in axes:
            steps[atom] = factor
        elif any([type(a) is not Sym or a in axes for a in monomial]):
            return None
        else:
            rest[monomial] = factor
    return steps, of_terms(rest, index.constant)


def address_of(buffer: Buffer, entries: tuple[Entry, ...], axes: tuple[Sym, ...]) -> Address:
    """Returns the address of an access, over these axes."""
    index: Dim = 0
    data = []
    for entry, stride in zip(entries, buffer.strides, strict=True):
        if isinstance(entry, Expression):
            data.append((stride, entry))
        else:
            index = index + entry * stride
    return Address(*split(index, axes), tuple(data))


def leaves(read: Load, axes: tuple[Sym, ...], extents: Mapping[Sym, Dim]) -> bool:
    """Whether a read is proved to be outside of its buffer at some point."""
    for entry, size in zip(read.entries, read.buffer.shape, strict=True):
        if isinstance(entry, Expression):
            continue
        steps, first = split(entry, axes)
        last = first
        for axis, step in steps.items():
            if not isinstance(step, int):
                break
            reach = (extents[axis] - 1) * step
            first, last = (first, last + reach) if step > 0 else (first + reach, last)
        else:
            if dims.at_least(first, 0) is False or dims.at_least(size - 1, last) is False:
                return True
    return False


def joined_axes(
    axes: Iterable[Sym],
    extents: Mapping[Sym, Dim],
    addresses: Iterable[Address],
    pinned: frozenset[Sym] = frozenset(),
) -> list[tuple[Sym, ...]]:
    """Collapses neighbouring axes that every access traverses as one.

    Two axes a, b collapse if a step along a equals all steps along b in every access; an access
    that depends on neither does not count. The last axis of a group represents it.
    """
    ordered, collapsed = tuple(axes), list(addresses)
    fixed = pinned.union(*(a.pinned(ordered) for a in collapsed)) if collapsed else pinned
    groups: list[tuple[Sym, ...]] = []
    for axis in ordered:
        last = groups[-1][-1] if groups else None
        if (
            last is not None
            and not {axis, last} & fixed
            and _continues(last, axis, extents, collapsed)
        ):
            groups[-1] = (*groups[-1], axis)
        else:
            groups.append((axis,))
    return groups


def _continues(
    outer: Sym, inner: Sym, extents: Mapping[Sym, Dim], addresses: list[Address]
) -> bool:
    return all(
        address.coefficient(outer) == address.coefficient(inner) * extents[inner]
        for address in addresses
    )


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
