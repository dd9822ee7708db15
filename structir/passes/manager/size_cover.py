"""Chooses sizes so that each comparison of two mentioned sizes is less, equal and greater.

A rewrite that is wrong at some sizes distinguishes them by a size that one of the programs
mentions: a dim, an expression such as `n * m`, or a number such as that of a tile.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations, product
from random import Random
from typing import Any

import numpy as np

from structir.errors import StructIRError
from structir.ir.dims import Dim, Opaque, as_atom, evaluate, syms
from structir.passes.manager.input_sizes import Sizes, SizeSpace

Table = Any  # a NumPy array: a row for each candidate, a column for each term

SMALL = tuple(range(1, 10))
MOST_BOUND = 1 << 13  # of numbers that sizes reach
RANDOM = 96  # random candidates
MOST_TERMS = 24
MOST_COVER_WORK = 1 << 22  # operations of a run at sizes that are only compared
MOST_MENTIONED_WORK = 1 << 27  # the same, where a rewritten program mentions sizes
FAR = 100
MOST_SOLVED = 32  # comparisons for which sizes are searched
MOST_SWEPT = 130
MOST_BEYOND = 4
NEAR = 24  # of the size at which a comparison changes
MOST_VIOLATIONS = 3  # of one condition
MOST_PAIRED = 24
MOST_NAMES = 3
VARIED = 160  # random candidates
VARIED_SIZES = (1, 1, 1, 2, 2, 3, 3, 4, 5, 6, 7, 8, 9, 17, 18, 19, 20, 33)
EQUAL_SHARE = 0.3  # of those candidates in which two dims are equal
UNKNOWN = np.nan


def covering_sizes(
    space: SizeSpace,
    exprs: Iterable[Dim],
    numbers: Iterable[int],
    tried: Sequence[Sizes],
    most: int,
    *,
    only_mentioned: bool = False,
    related: Iterable[Dim] = (),
) -> Iterator[Sizes]:
    """Yields at most `most` sizes for the comparisons whose outcomes `tried` does not show.

    The terms are the dims of the parameters, `exprs` over these, and `numbers`. With
    `only_mentioned`, two dims are not compared with each other. Comparisons with `related` come
    last.
    """
    dims = {sym.name: sym for sym in space.classes}
    known = [dim for dim in exprs if {s.name for s in syms(dim)} <= dims.keys()]
    bounds = [number for number in dict.fromkeys(numbers) if 3 < number <= MOST_BOUND]
    bounds += [number + number // 2 for number in bounds if number > FAR]  # well beyond it
    derived = [dim for dim in related if {s.name for s in syms(dim)} <= dims.keys()]
    terms: list[Any] = [*dims, *known, *bounds][: max(MOST_TERMS, len(dims))]
    count = len(terms)
    terms += derived[: max(MOST_TERMS - count, 0)]
    pairs = _pairs(terms, len(dims), only_mentioned)
    if not pairs or not tried:
        return
    most_work = MOST_MENTIONED_WORK if only_mentioned else MOST_COVER_WORK
    candidates = [*tried, *_candidates(space, bounds, tried[0], most_work)]
    outcomes = _outcomes(_table(terms, candidates), pairs)
    if only_mentioned:
        primary = [k for k, (_, b) in enumerate(pairs) if b < count]
        stated = [pairs[k] for k in primary]
        candidates += _solutions(space, terms, stated, outcomes[:, primary], tried[0], most_work)
        outcomes = _outcomes(_table(terms, candidates), pairs)
    weights = np.array([(3, 6, 3) if b < count else (1, 1, 1) for _, b in pairs])
    covered = np.zeros((len(pairs), 3), bool)
    for row in outcomes[: 0 if only_mentioned else len(tried)]:  # others had fewer values
        _cover(covered, row)
    for sizes in _beyond(space, bounds, tried[0]) if only_mentioned else ():
        if space.allows(sizes) and space.operations(sizes) <= most_work:
            yield sizes
    for _ in range(most):
        chosen = _best(covered, outcomes, weights)
        if chosen is None:
            return
        _cover(covered, outcomes[chosen])
        yield candidates[chosen]


def _beyond(space: SizeSpace, bounds: Sequence[int], start: Sizes) -> Iterator[Sizes]:
    """Yields different sizes that all exceed a number: a tile, or a position, in every dim."""
    for number in bounds[:MOST_BEYOND]:
        sizes = dict(start)
        for k, name in enumerate(start):
            sizes |= dict.fromkeys(_alike(space, name), number + 2 + 2 * k)
        yield space.completed(sizes)


def _solutions(
    space: SizeSpace,
    terms: Sequence[Any],
    pairs: list[tuple[int, int]],
    outcomes: Table,
    start: Sizes,
    most_work: int,
) -> list[Sizes]:
    """Returns sizes for comparisons with outcomes that no candidate has, by varying a few dims."""
    solutions: list[Sizes] = []
    unseen = [
        (pair, wanted)
        for k, pair in enumerate(pairs)
        for wanted in (1, 2, 0)
        if not (outcomes[:, k] == wanted).any()
    ]
    unseen.sort(key=lambda each: (each[1] != 1, type(terms[each[0][1]]) is not int, sum(each[0])))
    for pair, wanted in unseen[:MOST_SOLVED]:
        both = [terms[k] for k in pair]
        for proposal in _sweep(space, start, both, wanted == 1):
            sizes = space.completed(proposal)
            first, second = (_value(term, sizes) for term in both)
            is_wanted = np.sign(first - second) + 1 == wanted and (wanted != 1 or first > 1)
            if is_wanted and space.allows(sizes) and space.operations(sizes) <= most_work:
                solutions.append(sizes)
                break
    return solutions


def _sweep(space: SizeSpace, start: Sizes, terms: Sequence[Any], two: bool) -> Iterator[Sizes]:
    """Yields sizes with each dim of the terms varied, the others small or as they are; with `two`,
    also with two dims varied."""
    alike = {name: _alike(space, name) for term in terms for name in _names(term)}
    low = {name: min(size, SMALL[2]) for name, size in start.items()}
    for others in (low, start):
        for names in alike.values():
            for size in (*range(1, MOST_SWEPT), *_crossing(others, names, terms)):
                yield {**others, **dict.fromkeys(names, size)}
    for first, second in combinations(alike, 2) if two and len(alike) <= MOST_NAMES else ():
        for a, b in product(range(2, MOST_PAIRED), repeat=2):
            yield {**low, **dict.fromkeys(alike[first], a), **dict.fromkeys(alike[second], b)}


def _crossing(others: Sizes, names: Sequence[str], terms: Sequence[Any]) -> Iterator[int]:
    """Yields the larger values of a dim near which one term exceeds the other, if that grows with
    the dim."""

    def is_below(size: int) -> bool:
        first, second = (_value(each, {**others, **dict.fromkeys(names, size)}) for each in terms)
        return bool(first < second)

    low, high = MOST_SWEPT - 1, 2 * MOST_SWEPT
    while is_below(low) == is_below(high) and high <= MOST_BOUND:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if is_below(middle) == is_below(low) else (low, middle)
    if high <= MOST_BOUND:
        yield from range(max(high - NEAR, MOST_SWEPT), high + NEAR)


def _alike(space: SizeSpace, name: str) -> list[str]:
    """Returns the dims that must be equal to one."""
    first = next((v for s, v in space.classes.items() if s.name == name), None)
    return [sym.name for sym, each in space.classes.items() if each is first]


def _names(term: Any) -> list[str]:
    return [term] if type(term) is str else sorted(sym.name for sym in syms(term))


def varied_sizes(space: SizeSpace, start: Sizes, most: int) -> list[Sizes]:
    """Returns sizes with many combinations of kinds of sizes for each two dims, and of orders for
    each three."""
    firsts = {sym.name: first.name for sym, first in space.classes.items()}
    names = list(dict.fromkeys(firsts.values()))
    rng, seen, chosen = Random(len(start)), set[Any](), list[Sizes]()
    candidates: list[tuple[Sizes, set[Any]]] = []
    for _ in range(VARIED if len(names) > 1 else 0):
        proposal = {name: rng.choice(VARIED_SIZES) for name in names}
        if rng.random() < EQUAL_SHARE:
            first, second = rng.sample(names, 2)
            proposal[second] = proposal[first]
        sizes = {**start, **{each: proposal[first] for each, first in firsts.items()}}
        sizes = space.completed(sizes)
        candidates.append((sizes, _features(names, sizes)))
    while candidates and len(chosen) < most:
        new = [len(features - seen) for _, features in candidates]
        sizes, features = candidates.pop(new.index(max(new)))
        if not space.allows(sizes) or space.is_costly(sizes):
            continue
        if space.work(sizes) <= MOST_COVER_WORK:
            seen |= features
            chosen.append(sizes)
    return chosen


def _features(names: Sequence[str], sizes: Sizes) -> set[Any]:
    values = [sizes[name] for name in names]
    kinds = [value if value < 4 else 4 + (value > 16) for value in values]
    odd = [(name, value % 2) for name, value in zip(names, values, strict=True)]
    orders = [
        (i, j, k, *[(a > b) - (a < b) for a, b in ((x, y), (y, z), (x, z))])
        for (i, x), (j, y), (k, z) in combinations(enumerate(values), 3)
    ]
    equal = [
        (i, j, k, values[k] % 2)
        for (i, x), (j, y) in combinations(enumerate(values), 2)
        if x == y > 1
        for k in range(len(values))
    ]
    pairs = combinations(enumerate(kinds), 2)
    return {*orders, *equal, *pairs, *((k, each) for k in kinds for each in odd)}


def violating_sizes(space: SizeSpace, start: Sizes) -> Iterator[Sizes]:
    """Yields sizes that violate one condition of the program each, by as little as possible, and by
    a little more."""
    conditions: list[tuple[Any, ...]] = [*((each,) for each in space.conditions), *space.equal]
    best: dict[int, dict[float, Sizes]] = {}
    for sizes in (*_random_sizes(space, start), *_at_bounds(space, start)) if conditions else ():
        values = {sym: sizes[sym.name] for sym in space.classes}
        distances = [_distance(each, values) for each in conditions]
        broken = [k for k, distance in enumerate(distances) if distance]
        # equations follow from a condition that the program states
        broken = [k for k in broken if k < len(space.conditions)] or broken
        if len(broken) == 1:
            best.setdefault(broken[0], {}).setdefault(distances[broken[0]], sizes)
    for each in best.values():
        yield from (each[distance] for distance in sorted(each)[:MOST_VIOLATIONS])


def _at_bounds(space: SizeSpace, start: Sizes) -> Iterator[Sizes]:
    """Yields sizes in which a dim is at a number of a condition, or next to it."""
    for condition in space.conditions:
        bounds = {number + step for number in _numbers_of(condition) for step in (-1, 0, 1)}
        for sym in space.classes:
            for bound in sorted(bounds) if sym in syms(condition) else ():
                sizes = space.completed({**start, sym.name: bound})
                if 0 < bound <= MOST_BOUND and space.work(sizes) <= MOST_MENTIONED_WORK:
                    yield sizes


def _numbers_of(condition: Dim) -> Iterator[int]:
    atom = as_atom(condition)
    for side in atom.args if type(atom) is Opaque else ():
        yield abs(side if type(side) is int else getattr(side, "constant", 0))


def _distance(condition: tuple[Any, ...], values: Mapping[Any, int]) -> float:
    """Returns how far sizes are from meeting a condition; 0 if they do."""
    try:
        if len(condition) == 1:
            if evaluate(condition[0], values):
                return 0.0
            atom = as_atom(condition[0])
            condition = atom.args if type(atom) is Opaque else (0, 1)
            return max(0.5, abs(evaluate(condition[0], values) - evaluate(condition[1], values)))
        return abs(evaluate(condition[0], values) - evaluate(condition[1], values))
    except StructIRError:
        return float("inf")


def _pairs(terms: Sequence[Any], dims: int, only_mentioned: bool) -> list[tuple[int, int]]:
    return [
        (a, b)
        for a, b in combinations(range(len(terms)), 2)
        if type(terms[a]) is not int and not (only_mentioned and b < dims)
    ]


def _candidates(
    space: SizeSpace, numbers: Sequence[int], start: Sizes, most_work: int
) -> Iterator[Sizes]:
    """Yields possible sizes that the program may accept and that do not take long."""
    firsts = {sym.name: first.name for sym, first in space.classes.items()}
    operations = space.operations if most_work > MOST_COVER_WORK else space.work
    for proposal in _proposals(space, numbers, start):
        sizes = {name: proposal[firsts.get(name, name)] for name in proposal}
        sizes = space.completed(sizes)
        if space.allows(sizes) and operations(sizes) <= most_work and not space.is_costly(sizes):
            yield sizes


def _proposals(space: SizeSpace, numbers: Sequence[int], start: Sizes) -> Iterator[Sizes]:
    low = {name: min(size, SMALL[2]) for name, size in start.items()}  # so that a run is short
    for number in numbers:
        for size in (number, 2 * number + 1, number + 1, number - 1):
            yield dict.fromkeys(start, size)
            yield from ({**low, name: size} for name in start)
    for first, second in combinations(start, 2):
        for size in (3, 5, 17):
            yield {**start, first: size, second: size}
    yield from _random_sizes(space, start)


def _random_sizes(space: SizeSpace, start: Sizes) -> Iterator[Sizes]:
    rng = Random(len(start))
    for number in range(RANDOM):
        pool = SMALL if number % 3 else (*SMALL, *space.pool)
        yield {name: rng.choice(pool) for name in start}
    for name in start:
        yield from ({**start, name: max(start[name] + step, 1)} for step in (1, -1, 2, -2))


def _table(terms: Sequence[Any], candidates: Sequence[Sizes]) -> Table:
    return np.array([[_value(term, sizes) for term in terms] for sizes in candidates], np.float64)


def _value(term: Any, sizes: Sizes) -> float:
    if type(term) is str:
        return sizes[term]
    if type(term) is int:
        return term
    try:
        return evaluate(term, {sym: sizes[sym.name] for sym in syms(term)})
    except StructIRError:
        return UNKNOWN


def _outcomes(table: Table, pairs: list[tuple[int, int]]) -> Table:
    """Returns for each candidate and pair 0, 1 or 2 for less, equal or greater.

    It is -1 if it is unknown, and for equal sizes of at most 1, at which most programs agree.
    """
    first, second = np.array(pairs).T
    with np.errstate(invalid="ignore"):
        signs = np.sign(table[:, first] - table[:, second])
    unknown = np.isnan(signs) | ((signs == 0) & (table[:, first] <= 1))
    return np.where(unknown, -1, signs + 1).astype(np.int64)


def _cover(covered: Table, row: Table) -> None:
    known = np.flatnonzero(row >= 0)
    covered[known, row[known]] = True


def _best(covered: Table, outcomes: Table, weights: Table) -> int | None:
    """Returns the candidate that shows most new outcomes, by their weights."""
    columns = np.arange(covered.shape[0])
    new = ~covered[columns, outcomes] & (outcomes >= 0)
    counts = np.where(new, weights[columns, outcomes], 0).sum(axis=1)
    best = int(np.argmax(counts))
    return best if counts[best] else None
