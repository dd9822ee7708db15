"""The points of a clause at which some of its accesses fall into given boxes, as products of letter
sets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

import attrs

from structir.ir import dims
from structir.ir.dims import Dim, Sym
from structir.projections.boxes import MAX_BOXES, Box
from structir.projections.forms import Form, form_of, narrow, values
from structir.projections.indices import Indices
from structir.projections.spec import Clause, Condition, Entry

Sizes = Mapping[Sym, int]


@attrs.frozen
class Axis:
    """An entry at concrete sizes. Without a form any position may be meant: a whole axis, or an
    index that is read from data (then the access is not `exact`)."""

    size: int
    form: Form | None
    inside: bool
    exact: bool = True

    @cached_property
    def letter(self) -> int | None:
        """The letter that the index is, when it is nothing more."""
        return None if self.form is None else self.form.alone

    def positions(self, sets: Sequence[Indices]) -> Indices:
        """Where the entry may stand, the points outside the axis left out."""
        if self.form is None:
            return Indices(0, self.size, 0, self.exact)
        found = values(self.form, sets)
        return found if self.inside else found.clipped(0, self.size)


@attrs.frozen(eq=False)
class Access:
    """A read or a write at concrete sizes."""

    axes: tuple[Axis, ...]

    @cached_property
    def letters(self) -> tuple[int, ...]:
        """The letters of all entries, as often as they stand there."""
        return tuple([k for a in self.axes if a.form is not None for k in a.form.letters])

    @cached_property
    def coupled(self) -> bool:
        """Whether a letter stands in it twice, so that its positions are no product."""
        return len(set(self.letters)) < len(self.letters)

    @cached_property
    def overhangs(self) -> bool:
        """Whether some points may leave the tensor."""
        return any(not a.inside for a in self.axes)


@attrs.frozen(eq=False)
class Points:
    """A product of letter sets: points of a clause. Each of `ties` is a group of letters of which
    not every combination is meant."""

    sets: tuple[Indices, ...]
    exact: bool = True
    ties: tuple[frozenset[int], ...] = ()
    absent: tuple[tuple[Access, frozenset[int]], ...] = ()  # who overhangs, and by which letters

    def box(self, access: Access) -> Box | None:
        """What an access meets at these points; None if nothing."""
        axes = tuple([a.positions(self.sets) for a in access.axes])
        if not all(axes):
            return None
        return Box(axes, self.is_exact(access) and all([s.exact for s in axes]))

    def is_exact(self, access: Access) -> bool:
        """Whether an access meets the full product of its entries' positions, and nothing less."""
        if not self.exact:
            return False
        if not (access.coupled or self.ties or self.absent):
            return True
        moving = [k for k in access.letters if self.sets[k].size > 1]
        if len(set(moving)) < len(moving):
            return False
        if any(other is not access and not letters.isdisjoint(moving) for other, letters in self.absent):
            return False
        tied = [group for group in self.ties if not group.isdisjoint(moving)]
        once = len(tied) < 2 or not frozenset.intersection(*tied)
        return once and all(len(group.intersection(moving)) < 2 for group in tied)


@attrs.frozen(eq=False)
class Loops:
    """A clause at concrete sizes."""

    full: tuple[Indices, ...]  # every position of each letter
    reads: Mapping[str, Access]
    writes: tuple[Access, ...]
    conditions: tuple[tuple[Form, Indices | None], ...]  # and what they must fall into; None: any

    def points(self, access: Access, box: Box) -> Iterator[Points]:
        """The points at which an access falls into a box: disjoint products."""
        sets = list(self.full)
        if not all(sets):
            return
        mixed = self._narrowed(access, box, sets)
        if mixed is None:
            return
        products, ties = _split(mixed, sets)
        for product in products:
            found = self._conditioned(list(product), list(ties))
            if found is not None:
                yield Points(tuple(found[0]), box.exact, tuple(found[1]), self._absent(found[0]))

    def _narrowed(
        self, access: Access, box: Box, sets: list[Indices]
    ) -> list[tuple[Form, Indices]] | None:
        """Narrow the letters of an access; gives the entries that tie several together."""
        mixed: list[tuple[Form, Indices]] = []
        for axis, target in zip(access.axes, box.axes, strict=True):
            letter, form = axis.letter, axis.form
            if letter is not None:
                sets[letter] = sets[letter].common(target)
                if not sets[letter]:
                    return None
            elif form is not None:
                if not narrow(form, target, sets):
                    return None
                mixed.append((form, target))
        return [(f, t) for f, t in mixed if _ties(f, t, sets)]

    def _conditioned(
        self, sets: list[Indices], ties: list[frozenset[int]]
    ) -> tuple[list[Indices], list[frozenset[int]]] | None:
        """Narrow by the conditions, twice since each may narrow what another looks at."""
        for _ in range(min(2, len(self.conditions))):
            for form, target in self.conditions:
                if target is not None and not narrow(form, target, sets):
                    return None
        for form, target in self.conditions:
            tie = _moving(form, sets)
            if len(tie) > 1 and (target is None or not values(form, sets).within(target)):
                ties.append(tie)
        return sets, ties

    def _absent(self, sets: list[Indices]) -> tuple[tuple[Access, frozenset[int]], ...]:
        """The reads that overhang at these points."""
        found = []
        for access in self.reads.values():
            if access.overhangs:
                letters = [k for a in access.axes for k in _cut_letters(a, sets)]
                if letters:
                    found.append((access, frozenset(letters)))
        return tuple(found)


def _cut_letters(axis: Axis, sets: list[Indices]) -> frozenset[int]:
    if axis.inside or axis.form is None:
        return frozenset()
    reach = values(axis.form, sets)
    cut = reach.start < 0 or reach.stop > axis.size
    return frozenset(axis.form.letters) if cut else frozenset()


def _moving(form: Form, sets: Sequence[Indices]) -> frozenset[int]:
    return frozenset([k for k in form.letters if sets[k].size > 1])


def _ties(form: Form, target: Indices, sets: list[Indices]) -> bool:
    """Whether only some combinations of a form's letters fall into the target."""
    return len(_moving(form, sets)) > 1 and not values(form, sets).within(target)


def _split(
    mixed: list[tuple[Form, Indices]], sets: list[Indices]
) -> tuple[list[list[Indices]], list[frozenset[int]]]:
    """Products that together are the points at which mixed forms fall into their targets, and the
    ties that remain."""
    products, ties = [sets], []
    for form, target in mixed:
        parts = [part for product in products for part in _parts(form, target, product) or [None]]
        found = [part for part in parts if part is not None]
        if len(found) < len(parts) or len(found) > MAX_BOXES:
            ties.append(_moving(form, sets))
        else:
            products = found
    return products, ties


def _parts(form: Form, target: Indices, sets: list[Indices]) -> list[list[Indices]] | None:
    """The products at which a row-major number falls into a target; None where the form is no such
    number, or the pieces are too many."""
    terms = [(factor, node) for factor, node in reversed(form.terms) if isinstance(node, int)]
    if len(terms) < len(form.terms) or len({node for _, node in terms}) < len(terms):
        return None
    if any(factor < 0 or sets[node].mask for factor, node in terms):
        return None
    runs = list(target.runs())
    if len(runs) > MAX_BOXES:
        return None
    found: list[list[Indices]] = []
    for start, stop in runs:
        pieces = _rows(terms, start - form.offset, stop - form.offset, sets)
        if pieces is None:
            return None
        found += pieces
    return found


def _rows(
    terms: list[tuple[int, int]], start: int, stop: int, sets: list[Indices]
) -> list[list[Indices]] | None:
    """The products at which a mixed-radix number lies in an interval: a first row in part, the full
    rows, a last row in part."""
    if not terms:
        return [sets] if start <= 0 < stop else []
    (factor, letter), rest = terms[0], terms[1:]
    least = sum(f * sets[k].start for f, k in rest)
    greatest = sum(f * (sets[k].stop - 1) for f, k in rest)
    if greatest - least >= factor:
        return None
    own = sets[letter].clipped(-((greatest - start) // factor), (stop - 1 - least) // factor + 1)
    full = own.clipped(-((least - start) // factor), (stop - 1 - greatest) // factor + 1)
    found = [_with(sets, letter, full)] if full else []
    for row in own.without(full).elements():
        inner = _with(sets, letter, Indices(row, row + 1))
        pieces = _rows(rest, start - row * factor, stop - row * factor, inner)
        if pieces is None:
            return None
        found += pieces
    return found


def _with(sets: list[Indices], letter: int, own: Indices) -> list[Indices]:
    return [own if k == letter else s for k, s in enumerate(sets)]


# Clauses at concrete sizes.

BOUNDS = {"lt": (None, 0), "le": (None, 1), "gt": (1, None), "ge": (0, None), "eq": (0, 1)}


@attrs.frozen(eq=False)
class LoopMaker:
    """Brings a clause to concrete sizes."""

    extents: Mapping[Sym, Dim]
    sizes: Sizes
    numbers: Mapping[Sym, int]

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
            return Axis(size, Form(0, ()), True)
        if entry.whole or entry.data is not None:
            return Axis(size, None, True, entry.whole)
        return Axis(size, self.form(entry.index), entry.inside)  # type: ignore[arg-type]

    def form(self, dim: Dim) -> Form:
        """An index over the numbered letters."""
        return form_of(dims.substitute(dim, self.sizes), self.numbers)  # type: ignore[arg-type]

    def condition(self, condition: Condition, full: Sequence[Indices]) -> tuple[Form, Indices | None]:
        """A comparison, as a difference that must fall into a set."""
        difference = self.form(condition.left - condition.right)
        if condition.op not in BOUNDS or not all(full):
            return difference, None
        low, high = BOUNDS[condition.op]
        reach = values(difference, full)
        start = reach.start if low is None else low
        stop = reach.stop if high is None else high
        return difference, Indices(start, max(start, stop))


def loops_of(clause: Clause, extents: Mapping[Sym, Dim], sizes: Sizes) -> Loops:
    """A clause at concrete sizes."""
    letters = (*clause.parallel, *clause.reduce, *clause.whole)
    numbers = {letter: k for k, letter in enumerate(letters)}
    return LoopMaker(extents, sizes, numbers).loops(clause)
