"""Clauses brought to concrete sizes: letters numbered, entries as forms, conditions as targets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

import attrs

from structir.ir import dims
from structir.ir.dims import Dim, Sym
from structir.projections.forms import Form, form_of, values
from structir.projections.indices import EMPTY, Indices, only
from structir.projections.letter_sets import Access, Axis, Loops
from structir.projections.narrowing import Constraint
from structir.projections.point import Point
from structir.projections.spec import Clause, Condition, Entry

Sizes = Mapping[Sym, int]

BOUNDS = {
    "lt": (None, 0),
    "le": (None, 1),
    "gt": (1, None),
    "ge": (0, None),
    "eq": (0, 1),
    "ne": (None, None),
}


@attrs.frozen(eq=False)
class LoopMaker:
    """Brings a clause to concrete sizes."""

    extents: Mapping[Sym, Dim]
    sizes: Sizes
    numbers: Mapping[Sym, int]

    @cached_property
    def known(self) -> dict[Sym, Dim]:
        """The sizes, and the letters that have only one position."""
        still = {s: 0 for s in self.numbers if self.number(self.extents[s]) == 1}
        return {**self.sizes, **still}

    def loops(self, clause: Clause) -> Loops:
        """The clause, its letters numbered."""
        full = tuple([Indices(0, self.number(self.extents[s])) for s in self.numbers])
        return Loops(
            full,
            {r.name: self.access(r.entries) for r in clause.reads},
            tuple([self.access(w.entries) for w in clause.writes]),
            tuple([self.condition(c, full) for c in clause.conditions]),
        )

    def number(self, dim: Dim) -> int:
        """A size as a number."""
        return dim if isinstance(dim, int) else dims.evaluate(dim, dict(self.sizes))

    def access(self, entries: tuple[Entry, ...]) -> Access:
        """A read or a write."""
        return Access(tuple([self.axis(entry) for entry in entries]))

    def axis(self, entry: Entry) -> Axis:
        """An entry."""
        size = self.number(entry.size)
        if entry.loose and size == 1:
            return Axis(size, form_of(0, self.numbers), True)
        if entry.whole or isinstance(entry.index, Point):
            return Axis(size, None, True, entry.whole)
        return Axis(size, self.form(entry.index), entry.inside)

    def form(self, dim: Dim) -> Form:
        """An index over the numbered letters."""
        return form_of(dims.substitute(dim, self.known), self.numbers)

    def condition(self, condition: Condition, full: Sequence[Indices]) -> Constraint:
        """A comparison, as a difference that must fall into a set."""
        difference = self.form(condition.left - condition.right)
        if not all(full):
            return difference, EMPTY
        low, high = BOUNDS[condition.op]
        reach = values(difference, full)
        start = reach.start if low is None else low
        stop = reach.stop if high is None else high
        target = Indices(start, stop) if start < stop else EMPTY
        return difference, target.without(only(0)) if condition.op == "ne" else target


def loops_of(clause: Clause, extents: Mapping[Sym, Dim], sizes: Sizes) -> Loops:
    """A clause at concrete sizes."""
    letters = (*clause.parallel, *clause.reduce, *clause.whole)
    numbers = {letter: k for k, letter in enumerate(letters)}
    return LoopMaker(extents, sizes, numbers).loops(clause)
