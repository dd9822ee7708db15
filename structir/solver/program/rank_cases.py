"""Case analysis over unknown ranks: one scheme for each index signature that an op can have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import attrs

from structir.ir.expr import Call, Var
from structir.ir.struct_info import StructInfo, TensorStructInfo
from structir.lazy import provided_module
from structir.solver.constraints.constraint import RankLe
from structir.solver.constraints.scheme import Scheme
from structir.solver.domains.ranks import max_rank, min_rank
from structir.solver.domains.reasons import NO_REASON
from structir.solver.domains.terms import row_vars
from structir.solver.program.rank_lifting import lift
from structir.solver.solver import ConstraintSolver, Value

schemes = provided_module("constraint schemes")

OPEN = 6  # this rank and all greater ones, if the index signature is the same from 5 on
MEMO_SIZE = 4096
Ranks = tuple[int, ...]
_MEMO: dict[Any, Sequence[Any]] = {}


def possible_ranks(solver: ConstraintSolver, value: Value) -> Ranks:
    """Returns the ranks that a value can have; `OPEN` last, for all greater ones."""
    store = solver.store
    store.begin(NO_REASON)
    row = store.row(solver.row(value))
    low, high = min_rank(store, row), max_rank(store, row)
    if low >= OPEN:
        return ()
    return tuple(range(low, OPEN + 1 if high is None else min(high, OPEN) + 1))


def greatest_rank(solver: ConstraintSolver, value: Value) -> int | None:
    """Returns the greatest rank that a value can have; None for no limit."""
    solver.store.begin(NO_REASON)
    return max_rank(solver.store, solver.store.row(solver.row(value)))


def rank_case_schemes(
    call: Call,
    infos: Sequence[StructInfo | None],
    ranks_of: Mapping[int, Ranks],
    results: int,
    max_result_rank: int | None = None,
) -> Sequence[Any]:
    """Returns the schemes of a call for these ranks of its arguments; empty if they are too many.

    `max_result_rank` is the greatest rank of the first result, if known.
    """
    if not 0 < len(ranks_of) <= 2 or any(not ranks for ranks in ranks_of.values()):
        return ()
    if not all(isinstance(arg, Var) for arg in call.args):
        return _case_schemes(call, infos, ranks_of, results, max_result_rank)
    key = call.op, tuple(infos), tuple(ranks_of.items()), tuple(call.attrs.items()), max_result_rank
    memoized = _MEMO.get(key)
    if memoized is None:
        if len(_MEMO) >= MEMO_SIZE:
            _MEMO.clear()
        memoized = _MEMO[key] = _case_schemes(call, infos, ranks_of, results, max_result_rank)
    return memoized


def _case_schemes(
    call: Call,
    infos: Sequence[StructInfo | None],
    ranks_of: Mapping[int, Ranks],
    results: int,
    max_result_rank: int | None,
) -> Sequence[Any]:
    cases = [
        (combination, op_scheme)
        for ranks in product(*ranks_of.values())
        for combination in [dict(zip(ranks_of, ranks, strict=True))]
        for op_scheme in [_at_ranks(call, infos, combination)]
        if op_scheme is not None
    ]
    lifted = _lift(cases, results) if len(ranks_of) == 1 else ()
    if lifted:
        return lifted
    combinations_of: dict[Any, list[dict[int, int]]] = {}
    op_schemes: dict[Any, Any] = {}
    for combination, op_scheme in cases:
        combinations_of.setdefault(op_scheme.index_signature, []).append(combination)
        op_schemes[op_scheme.index_signature] = op_scheme
    if any(len(op_scheme.scheme.results) != results for op_scheme in op_schemes.values()):
        return ()
    if not all(
        _same_for_great_ranks(combinations_of, index)
        for index, ranks in ranks_of.items()
        if OPEN in ranks
    ):
        if max_result_rank is None or not _exceeds_max_rank(
            combinations_of, op_schemes, ranks_of, max_result_rank
        ):
            return ()
        for combinations in combinations_of.values():
            combinations[:] = [c for c in combinations if OPEN not in c.values()]
        combinations_of = {
            signature: combinations
            for signature, combinations in combinations_of.items()
            if combinations
        }
    return tuple(
        [
            _limit_ranks(op_schemes[signature], combinations, ranks_of)
            for signature, combinations in combinations_of.items()
        ]
    )


def _lift(cases: Sequence[tuple[Mapping[int, int], Any]], results: int) -> Sequence[Any]:
    """Returns one scheme for all great ranks of an argument, and one for each smaller rank.

    Empty if the schemes of great ranks have no common form.
    """
    scheme_at = {rank: case for ranks, case in cases for rank in ranks.values()}
    paths = {case.paths for case in scheme_at.values()}
    index = next((k for ranks, _ in cases for k in ranks), None)
    if OPEN not in scheme_at or len(paths) != 1:
        return ()
    operands = [k for k, path in enumerate(paths.pop()) if path == (index, None)]
    if len(operands) != 1 or any(len(case.scheme.results) != results for _, case in cases):
        return ()
    lifted = lift({rank: case.scheme for rank, case in scheme_at.items()}, operands[0])
    if lifted is None:
        return ()
    general = attrs.evolve(scheme_at[OPEN], scheme=lifted.scheme)
    return (*[scheme_at[rank] for rank in scheme_at if rank < lifted.least], general)


def _at_ranks(call: Call, infos: Sequence[StructInfo | None], ranks: Mapping[int, int]) -> Any:
    """Returns the scheme of a call with arguments of these ranks; None if they do not fit."""
    infos_at_ranks: list[StructInfo | None] = list(infos)
    for index, rank in ranks.items():
        info = infos_at_ranks[index]
        dtype = info.dtype if isinstance(info, TensorStructInfo) else None
        infos_at_ranks[index] = TensorStructInfo(None, dtype, rank)
    try:
        return schemes.scheme_of(call, infos_at_ranks)
    except schemes.InvalidCall:
        return None


def _same_for_great_ranks(combinations_of: Mapping[Any, list[dict[int, int]]], index: int) -> bool:
    """Returns whether the index signature is the same for every great rank of an argument."""
    return all(
        {**combination, index: OPEN - 1} in combinations
        for combinations in combinations_of.values()
        for combination in combinations
        if combination[index] == OPEN
    )


def _exceeds_max_rank(
    combinations_of: Mapping[Any, list[dict[int, int]]],
    op_schemes: Mapping[Any, Any],
    ranks_of: Mapping[int, Ranks],
    max_result_rank: int,
) -> bool:
    """Returns whether the result has too many axes if the one open argument has `OPEN` or more.

    Each axis of the argument must add one to the result.
    """
    if len(ranks_of) != 1:
        return False
    ranks = {
        rank: len(op_schemes[signature].scheme.results[0])
        for signature, combinations in combinations_of.items()
        for combination in combinations
        for rank in combination.values()
        if not row_vars(op_schemes[signature].scheme.results[0])
    }
    last = [ranks.get(OPEN - 2), ranks.get(OPEN - 1), ranks.get(OPEN)]
    if None in last:
        return False
    third, second, first = (rank or 0 for rank in last)
    return first == second + 1 == third + 2 and max_result_rank < first


def _limit_ranks(
    op_scheme: Any, combinations: list[dict[int, int]], ranks_of: Mapping[int, Ranks]
) -> Any:
    """Restricts a scheme to these ranks, unless they are all that are possible."""
    scheme: Scheme = op_scheme.scheme
    limits: list[RankLe] = []
    for row, (index, _) in zip(scheme.operands, op_scheme.paths, strict=True):
        ranks = {combination[index] for combination in combinations if index in combination}
        if not ranks or ranks == set(ranks_of[index]):
            continue
        limits.append(RankLe((1,) * min(ranks), row))
        if max(ranks) < OPEN:
            limits.append(RankLe(row, (1,) * max(ranks)))
    constraints = (*limits, *scheme.constraints)
    return attrs.evolve(
        op_scheme, scheme=Scheme(scheme.operands, scheme.results, constraints, scheme.shared)
    )
