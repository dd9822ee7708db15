"""Computes the points of a statement whose accesses fall into given boxes, as index sets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import attrs

from structir.projections.affine_forms import AffineForm, moving_index_vars, values
from structir.projections.boxes import MAX_BOXES, Box
from structir.projections.position_sets import PositionSet
from structir.projections.preimage import Constraint, enumerate_preimage, narrow
from structir.projections.row_major import split
from structir.system.locks import cached_property

ROUNDS = 8  # limit of narrowing; without a fixed point the result is a superset


@attrs.frozen
class ConcreteIndex:
    """An index expression at concrete sizes.

    Without a form any position is possible: a whole axis, or an index read from data (then the
    access is not `exact`).
    """

    size: int
    form: AffineForm | None
    inside: bool
    exact: bool = True

    @cached_property
    def index_var(self) -> int | None:
        """The index variable that this index equals; None if there is none."""
        return None if self.form is None else self.form.as_index_var

    def positions(self, sets: Sequence[PositionSet]) -> PositionSet:
        """Returns the possible positions of the index within its axis."""
        if self.form is None:
            return PositionSet(0, self.size, 0, self.exact)
        positions = values(self.form, sets)
        return positions if self.inside and positions.exact else positions.clipped(0, self.size)


@attrs.frozen(eq=False)
class ConcreteAccess:
    """A read or a write at concrete sizes."""

    axes: tuple[ConcreteIndex, ...]

    @cached_property
    def index_vars(self) -> tuple[int, ...]:
        """The index variables of all index expressions, with repetitions."""
        return tuple([k for a in self.axes if a.form is not None for k in a.form.index_vars])

    @cached_property
    def coupled(self) -> bool:
        """Whether an index variable occurs twice, so that the positions are not a product."""
        return len(set(self.index_vars)) < len(self.index_vars)


@attrs.frozen(eq=False)
class IterationPoints:
    """A product of index sets: iteration points of a statement.

    Each of `ties` is a group of index variables of which only some combinations are points. The set
    is `exact` if every position of every index variable belongs to some point.
    """

    sets: tuple[PositionSet, ...]
    exact: bool = True
    ties: tuple[frozenset[int], ...] = ()
    absent: tuple[
        tuple[ConcreteAccess, frozenset[int]], ...
    ] = ()  # accesses out of bounds, and the index variables concerned
    reached: bool = True  # whether every position of these index variables has existing points

    def box(self, access: ConcreteAccess) -> Box | None:
        """Returns the elements that an access reaches at these points; None if there are none."""
        axes = tuple([a.positions(self.sets) for a in access.axes])
        if not all(axes):
            return None
        return Box(axes, self.is_exact(access) and all([s.exact for s in axes]))

    def boxes(self, access: ConcreteAccess) -> Iterator[Box]:
        """Yields boxes of the elements that an access reaches.

        A short diagonal, on which an index variable occurs twice, is a box per position.
        """
        repeated = self._diagonal(access) if access.coupled else None
        positions = [None] if repeated is None else list(self.sets[repeated].elements())
        for position in positions:
            sets = list(self.sets)
            if repeated is not None and position is not None:
                sets[repeated] = PositionSet(position, position + 1, 0, sets[repeated].exact)
            box = attrs.evolve(self, sets=tuple(sets)).box(access)
            if box is not None:
                yield box

    def _diagonal(self, access: ConcreteAccess) -> int | None:
        """Returns the only index variable that occurs twice, if it has few positions."""
        moving = [k for k in access.index_vars if self.sets[k].size > 1]
        repeated = {k for k in moving if moving.count(k) > 1}
        if len(repeated) != 1 or self.absent:
            return None
        (index_var,) = repeated
        if any(index_var in tie for tie in self.ties):  # some positions may have no point
            return None
        return index_var if self.sets[index_var].size <= MAX_BOXES else None

    def is_exact(self, access: ConcreteAccess) -> bool:
        """Whether an access reaches exactly the product of the positions of its entries."""
        if not self.exact:
            return False
        if not (access.coupled or self.ties or self.absent):
            return True
        moving = [k for k in access.index_vars if self.sets[k].size > 1]
        if len(set(moving)) < len(moving):
            return False
        outside = [index_vars for other, index_vars in self.absent if other is not access]
        shared_limit = 1 if self.reached else 0
        if not all([s and len(s.intersection(moving)) <= shared_limit for s in outside]):
            return False
        return all([len(tie.intersection(moving)) < 2 for tie in self.ties])


@attrs.frozen(eq=False)
class LoopNest:
    """A statement at concrete sizes."""

    full: tuple[PositionSet, ...]  # all positions of each index variable
    reads: Mapping[str, ConcreteAccess]
    writes: tuple[ConcreteAccess, ...]
    conditions: tuple[Constraint, ...]
    exact: bool = True  # whether the reads of every point matter

    def points(self, access: ConcreteAccess, box: Box) -> Iterator[IterationPoints]:
        """Returns the points at which an access falls into a box, as disjoint products."""
        sets = list(self.full)
        constraints = list(self.conditions)
        for axis, target in zip(access.axes, box.axes, strict=True):
            index_var = axis.index_var
            if index_var is not None:
                sets[index_var] = sets[index_var].common(target)
            elif axis.form is not None:
                constraints.append((axis.form, target))
        if not all(sets):
            return
        if not constraints:
            yield self._iteration_points(sets, box.exact and self.exact, ())
            return
        targets_exact = (
            box.exact and self.exact and all([target.exact for _, target in constraints])
        )
        for product in split(constraints, sets):
            if _narrow_all(constraints, product):
                narrowed, exact, ties = _make_consistent(constraints, product)
                if all(narrowed):
                    yield self._iteration_points(narrowed, targets_exact and exact, ties)

    def _iteration_points(
        self, sets: list[PositionSet], exact: bool, ties: tuple[frozenset[int], ...]
    ) -> IterationPoints:
        if not self.out_of_bounds:
            return IterationPoints(tuple(sets), exact, ties)
        out_of_bounds = [(a, s) for a, each in self.out_of_bounds for s in _ties([each], sets)]
        if not out_of_bounds:
            return IterationPoints(tuple(sets), exact, ties)
        existing = list(sets)
        constraints = [each for _, each in self.out_of_bounds]
        nonempty = _narrow_all(constraints, existing)
        remaining_ties = tuple(_ties(constraints, existing))
        disjoint = frozenset().union(*ties).isdisjoint(k for _, s in out_of_bounds for k in s)
        if not (nonempty and disjoint and _consistent(existing, remaining_ties)):
            out_of_bounds = [(a, frozenset()) for a, _ in out_of_bounds]
        return IterationPoints(tuple(sets), exact, ties, tuple(out_of_bounds), existing == sets)

    @cached_property
    def out_of_bounds(self) -> list[tuple[ConcreteAccess, Constraint]]:
        """The read indices that leave their axis at some points, with their constraints."""
        return [
            (read, (axis.form, PositionSet(0, axis.size)))
            for read in self.reads.values()
            for axis in read.axes
            if axis.form is not None and not axis.inside
        ]


def _narrow_all(constraints: list[Constraint], sets: list[PositionSet]) -> bool:
    """Narrows index sets to a fixed point. Returns False if no point remains."""
    for _ in range(ROUNDS):
        before = list(sets)
        for form, target in constraints:
            if not (values(form, sets).within(target) or narrow(form, target, sets)):
                return False
        if sets == before:
            return True
    sets[:] = [s.with_exactness(False) for s in sets]
    return True


def _make_consistent(
    constraints: list[Constraint], sets: list[PositionSet]
) -> tuple[list[PositionSet], bool, tuple[frozenset[int], ...]]:
    """Returns narrowed index sets, whether they are exact, and their ties.

    Constraints that share index variables are solved by enumeration if the points are few.
    """
    ties = tuple(_ties(constraints, sets))
    if _consistent(sets, ties):
        return sets, True, ties
    enumerated = enumerate_preimage(constraints, sets)
    if enumerated is None:
        return sets, False, ties
    return enumerated, all([s.exact for s in enumerated]), (frozenset().union(*ties),)


def _ties(constraints: list[Constraint], sets: list[PositionSet]) -> Iterator[frozenset[int]]:
    """Yields for each constraint the index variables of which some combinations violate it."""
    for form, target in constraints:
        if not values(form, sets).within(target):
            yield moving_index_vars(form, sets)


def _consistent(sets: list[PositionSet], ties: tuple[frozenset[int], ...]) -> bool:
    """Whether every remaining position of an index variable belongs to some point.

    This holds for narrowed sets if no two constraints share an index variable.
    """
    index_vars = [k for tie in ties for k in tie]
    single = any(len(tie) < 2 for tie in ties)
    return not single and len(set(index_vars)) == len(index_vars) and all([s.exact for s in sets])
