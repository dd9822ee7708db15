"""Solves the ranks of axis packs that share operands: `*a *b; *b *c; *a *c`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import attrs


@attrs.frozen
class RankEquation:
    """States that the ranks of `packs`, which may repeat, sum to `total`."""

    packs: tuple[str, ...]
    total: int


def determined_ranks(equations: Sequence[RankEquation]) -> dict[str, int] | None:
    """Returns the packs with one rank in all solutions, or None without a solution.

    The search ends as soon as two solutions differ in every pack.
    """
    packs = tuple(dict.fromkeys(pack for equation in equations for pack in equation.packs))
    solutions = rank_solutions(equations, packs)
    common = next(solutions, None)
    if common is None:
        return None
    for solution in solutions:
        common = {pack: rank for pack, rank in common.items() if solution[pack] == rank}
        if not common:
            break
    return common


def rank_solutions(
    equations: Sequence[RankEquation], packs: tuple[str, ...]
) -> Iterator[dict[str, int]]:
    """Yields every assignment of non-negative ranks that satisfies the equations."""
    if not packs:
        if all(equation.total == 0 for equation in equations):
            yield {}
        return
    pack, *others = packs
    for rank in _possible(equations, pack):
        reduced = [_substitute(equation, pack, rank) for equation in equations]
        for solution in rank_solutions(reduced, tuple(others)):
            yield {pack: rank, **solution}


def _possible(equations: Sequence[RankEquation], pack: str) -> Sequence[int]:
    """Returns the ranks of a pack that no single equation excludes."""
    low, high = 0, None
    for equation in equations:
        count = equation.packs.count(pack)
        if not count:
            continue
        limit, remainder = divmod(equation.total, count)
        high = limit if high is None else min(high, limit)
        if count == len(equation.packs):  # the equation has no other pack
            low = max(low, limit + (remainder > 0))
    return range(low, (high or 0) + 1)


def _substitute(equation: RankEquation, pack: str, rank: int) -> RankEquation:
    count = equation.packs.count(pack)
    remaining = tuple(p for p in equation.packs if p != pack)
    return RankEquation(remaining, equation.total - count * rank)
