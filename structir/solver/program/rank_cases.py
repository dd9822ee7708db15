"""What an op says of operands of unknown rank: one scheme for each line that it can have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import attrs

from structir.ir.expr import Call, Var
from structir.ir.struct_info import StructInfo, TensorStructInfo
from structir.lazy import lazy_module
from structir.solver.constraints.constraint import RankLe
from structir.solver.constraints.scheme import Scheme
from structir.solver.domains.ranks import rank_high, rank_low
from structir.solver.domains.reasons import NO_REASON
from structir.solver.domains.terms import row_vars
from structir.solver.solver import Solver, Value

schemes = lazy_module("structir.opdef.constraint_schemes")

OPEN = 6  # stands for this rank and all greater ones, where the line is the same from 5 on
MEMO_SIZE = 4096
Ranks = tuple[int, ...]
_MEMO: dict[Any, Sequence[Any]] = {}


def possible_ranks(solver: Solver, value: Value) -> Ranks:
    """The ranks that a value can have; `OPEN` as the last for all others."""
    store = solver.store
    store.begin(NO_REASON)
    row = store.row(solver.row(value))
    low, high = rank_low(store, row), rank_high(store, row)
    if low >= OPEN:
        return ()
    return tuple(range(low, OPEN + 1 if high is None else min(high, OPEN) + 1))


def greatest_rank(solver: Solver, value: Value) -> int | None:
    """The greatest rank that a value can have; None where there is no limit."""
    solver.store.begin(NO_REASON)
    return rank_high(solver.store, solver.store.row(solver.row(value)))


def rank_case_schemes(
    call: Call,
    infos: Sequence[StructInfo | None],
    options: Mapping[int, Ranks],
    results: int,
    most: int | None = None,
) -> Sequence[Any]:
    """The schemes of a call for these ranks of its arguments; none where they are too many.

    `most` is the greatest rank that the first result can have, where that is known.
    """
    if not 0 < len(options) <= 2 or any(not ranks for ranks in options.values()):
        return ()
    if not all(isinstance(arg, Var) for arg in call.args):
        return _case_schemes(call, infos, options, results, most)
    key = call.op, tuple(infos), tuple(options.items()), tuple(call.attrs.items()), most
    known = _MEMO.get(key)
    if known is None:
        if len(_MEMO) >= MEMO_SIZE:
            _MEMO.clear()
        known = _MEMO[key] = _case_schemes(call, infos, options, results, most)
    return known


def _case_schemes(
    call: Call,
    infos: Sequence[StructInfo | None],
    options: Mapping[int, Ranks],
    results: int,
    most: int | None,
) -> Sequence[Any]:
    lines: dict[Any, list[dict[int, int]]] = {}
    told: dict[Any, Any] = {}
    for ranks in product(*options.values()):
        combination = dict(zip(options, ranks, strict=True))
        found = _at_ranks(call, infos, combination)
        if found is not None:
            lines.setdefault(found.line, []).append(combination)
            told[found.line] = found
    if any(len(found.scheme.results) != results for found in told.values()):
        return ()
    if not all(_closed(lines, place) for place, ranks in options.items() if OPEN in ranks):
        if most is None or not _outgrown(lines, told, options, most):
            return ()
        for combinations in lines.values():
            combinations[:] = [c for c in combinations if OPEN not in c.values()]
        lines = {line: combinations for line, combinations in lines.items() if combinations}
    return tuple([_limited(told[line], found, options) for line, found in lines.items()])


def _at_ranks(call: Call, infos: Sequence[StructInfo | None], ranks: Mapping[int, int]) -> Any:
    """The scheme of a call whose arguments have these ranks; None where they do not fit."""
    known: list[StructInfo | None] = list(infos)
    for place, rank in ranks.items():
        info = known[place]
        dtype = info.dtype if isinstance(info, TensorStructInfo) else None
        known[place] = TensorStructInfo(None, dtype, rank)
    try:
        return schemes.scheme_of(call, known)
    except schemes.InvalidCall:
        return None


def _closed(lines: Mapping[Any, list[dict[int, int]]], place: int) -> bool:
    """Whether the line is the same for every great rank of an argument."""
    return all(
        {**combination, place: OPEN - 1} in combinations
        for combinations in lines.values()
        for combination in combinations
        if combination[place] == OPEN
    )


def _outgrown(
    lines: Mapping[Any, list[dict[int, int]]],
    told: Mapping[Any, Any],
    options: Mapping[int, Ranks],
    most: int,
) -> bool:
    """Whether the result has too many axes where its one argument has `OPEN` or more: it gains one
    with each of the argument's."""
    if len(options) != 1:
        return False
    ranks = {
        rank: len(told[line].scheme.results[0])
        for line, combinations in lines.items()
        for combination in combinations
        for rank in combination.values()
        if not row_vars(told[line].scheme.results[0])
    }
    last = [ranks.get(OPEN - 2), ranks.get(OPEN - 1), ranks.get(OPEN)]
    if None in last:
        return False
    third, second, first = (rank or 0 for rank in last)
    return first == second + 1 == third + 2 and most < first


def _limited(told: Any, found: list[dict[int, int]], options: Mapping[int, Ranks]) -> Any:
    """A scheme that holds only for these ranks, where they are not all that there are."""
    scheme: Scheme = told.scheme
    limits: list[RankLe] = []
    for row, (place, _) in zip(scheme.operands, told.paths, strict=True):
        ranks = {combination[place] for combination in found if place in combination}
        if not ranks or ranks == set(options[place]):
            continue
        limits.append(RankLe((1,) * min(ranks), row))
        if max(ranks) < OPEN:
            limits.append(RankLe(row, (1,) * max(ranks)))
    constraints = (*limits, *scheme.constraints)
    return attrs.evolve(
        told, scheme=Scheme(scheme.operands, scheme.results, constraints, scheme.shared)
    )
