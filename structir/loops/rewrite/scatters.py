"""Scatter to gather: sums scattered over a grid become sums gathered for each of its points, as
windows.

A point `step * place + tap + start` of the result matches one tap in `step`. So there is one stage
for each position within a step, with the matching taps; their results are interleaved.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import permutations, product
from math import gcd

import attrs

from structir.ir import dims
from structir.ir.dims import Dim, Sym
from structir.loops.program.access import split
from structir.loops.program.expression import Entry, Expression, axis_dim, substituted
from structir.loops.program.stage import Guard, Stage

MOST_PARTS = 16  # stages into which one is split


@attrs.frozen
class Spread:
    """An index `step * place + apart * tap + start` of the result, which has `size` elements."""

    place: Sym
    tap: Sym
    step: int
    apart: int
    start: int
    taps: int
    places: Dim
    size: Dim


@attrs.frozen
class Gathered:
    """A scattered index from the side of the result: the results at `step * axis + within`, the
    matching taps, and place and tap in terms of these."""

    axis: Sym
    taps: Sym
    extents: dict[Sym, Dim]
    write: Dim
    substituted: dict[Sym, Dim]
    guards: tuple[Guard, ...]


def gathered(stage: Stage) -> list[Stage] | None:
    """Returns the stages that compute the whole result of a scattered sum; None if they are
    unknown."""
    plain = stage.monoid == "sum" and not stage.unique and stage.exists is None
    if not plain or stage.running is not None or stage.routine is not None:
        return None
    spreads = [_spread(stage, k, entry) for k, entry in enumerate(stage.write)]
    spread = {k: s for k, s in enumerate(spreads) if isinstance(s, Spread)}
    if not spread or None in spreads or not _only_bounded(stage, spread):
        return None
    ways = [list(_gathered(s)) for s in spread.values()]
    if not all(ways) or len(list(product(*ways))) > MOST_PARTS:
        return None
    parts = [_part(stage, dict(zip(spread, way, strict=True))) for way in product(*ways)]
    return None if None in parts else [part for part in parts if part is not None]


def _spread(stage: Stage, place: int, entry: Entry) -> Spread | bool | None:
    """Returns the form of an index of the result; True if it reaches every element once, None if
    unknown."""
    if isinstance(entry, Expression):
        return None
    others = [e for k, e in enumerate(stage.write) if k != place and not isinstance(e, Expression)]
    steps, start = split(entry, stage.axes)
    if dims.syms(start) & set(stage.axes) or any(dims.syms(e) & set(steps) for e in others):
        return None
    size = stage.out.shape[place]
    if len(steps) <= 1:
        axis = next(iter(steps), None)
        own, places = (0, 1) if axis is None else (axis_dim(axis), stage.extents[axis])
        return (entry == own and dims.equal(size, places) is True) or None
    if start == 0 and any(_is_whole(stage, size, steps, pair) for pair in permutations(steps, 2)):
        return True
    counts = {a: e for a in steps if isinstance(e := stage.extents[a], int)}
    known = all(isinstance(c, int) and c > 0 for c in steps.values()) and isinstance(start, int)
    if len(steps) != 2 or not counts or not known:
        return None
    tap = min(counts, key=lambda a: (counts[a], steps[a]))
    (other,) = [a for a in steps if a is not tap]
    step, apart = int(steps[other]), int(steps[tap])  # type: ignore[arg-type]
    if gcd(step, apart) > 1 or (step > 1 and apart > 1) or counts[tap] < step:
        return None
    places = stage.extents[other]
    return Spread(other, tap, step, apart, int(start), counts[tap], places, size)  # type: ignore[arg-type]


def _is_whole(stage: Stage, size: Dim, steps: dict[Sym, Dim], pair: tuple[Sym, ...]) -> bool:
    """Whether an index counts all elements in blocks, as channels in groups: no two points
    coincide, and no element is left out."""
    inner, outer = pair
    length, blocks = stage.extents[inner], stage.extents[outer]
    is_dense = steps[inner] == 1 and dims.equal(steps[outer], length) is True
    return len(steps) == 2 and is_dense and dims.equal(size, length * blocks) is True


def _only_bounded(stage: Stage, spread: dict[int, Spread]) -> bool:
    """Whether points are absent only where they would be outside of the result."""
    bounds = [
        bound
        for k, s in spread.items()
        if not isinstance(entry := stage.write[k], Expression)
        for bound in (entry, s.size - 1 - entry)
    ]
    return all(guard.value in bounds for guard in stage.guards)


def _gathered(spread: Spread) -> Iterator[Gathered]:
    for within in range(spread.step):
        first = (within - spread.start) % spread.step  # the first matching tap
        count = -(-(spread.taps - first) // spread.step)
        axis, tap = dims.sym("y"), dims.sym("q")
        last = count - 1 - tap  # the taps in reverse, so that places ascend
        offset = (within - first - spread.start) // spread.step
        place = axis + offset - last * spread.apart
        places = dims.as_sym(axis), dims.as_sym(tap)
        assert places[0] is not None and places[1] is not None
        extent = dims.ceildiv(spread.size - within, spread.step)
        yield Gathered(
            places[0],
            places[1],
            {places[0]: extent, places[1]: count},
            axis * spread.step + within,
            {spread.place: place, spread.tap: last * spread.step + first},
            (Guard(place), Guard(spread.places - 1 - place)),
        )


def _part(stage: Stage, ways: dict[int, Gathered]) -> Stage | None:
    """Returns the stage that computes the results at one position within each step."""
    gone = {axis for way in ways.values() for axis in way.substituted}
    fresh = {axis: dims.sym(axis.name) for axis in stage.axes if axis not in gone}
    mapping: dict[Sym, Dim] = {**fresh}
    extents: dict[Sym, Dim] = {s: stage.extents[a] for a, d in fresh.items() for s in _own(d)}
    for way in ways.values():
        mapping |= way.substituted
        extents |= way.extents
    body = substituted(stage.body, mapping)
    if body is None:
        return None
    write: list[Entry] = []
    parallel: list[Sym] = []
    for k, entry in enumerate(stage.write):
        own = ways[k].write if k in ways else dims.substitute(_dim(entry), mapping)
        write.append(own)
        parallel += [ways[k].axis] if k in ways else [a for a in extents if a in dims.syms(own)]
    reduce = [s for a in stage.reduce for s in _own(fresh[a])] + [w.taps for w in ways.values()]
    guards = tuple([g for way in ways.values() for g in way.guards])
    return attrs.evolve(
        stage,
        parallel=tuple(parallel),
        reduce=tuple(reduce),
        extents=extents,
        body=body,
        write=tuple(write),
        guards=guards,
        unique=True,
    )


def _own(dim: Dim) -> Sequence[Sym]:
    symbol = dims.as_sym(dim)
    return [symbol] if symbol is not None else []


def _dim(entry: Entry) -> Dim:
    if isinstance(entry, Expression):
        raise TypeError(f"{entry!r} is no index")
    return entry
