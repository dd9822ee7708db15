"""Solves broadcasting of sizes: `DimLe` (broadcasts to) and `DimJoin` (the broadcast of)."""

from __future__ import annotations

from collections.abc import Sequence

from structir.ir.polynomial import Dim
from structir.solver.constraints.constraint import DimJoin, DimLe
from structir.solver.domains.intervals import differ, proves_not_one
from structir.solver.domains.terms import symbol_of
from structir.solver.propagation.arithmetic import cap, equate, fresh
from structir.solver.propagation.row_unification import unify_axes
from structir.solver.propagation.store import ConstraintStore, rule


def require_broadcast(store: ConstraintStore, inner: Dim, outer: Dim) -> None:
    """Requires a size to broadcast to another: propagates, and posts the constraint if open."""
    if not _propagate_broadcast(store, inner, outer):
        store.post(DimLe(inner, outer))


@rule(DimLe)
def _(store: ConstraintStore, constraint: DimLe) -> bool:
    return _propagate_broadcast(store, constraint.inner, constraint.outer)


def _propagate_broadcast(store: ConstraintStore, inner: Dim, outer: Dim) -> bool:
    small, large = store.dim(inner), store.dim(outer)
    if small == 1:
        return True
    if small == large or proves_not_one(store, small):
        unify_axes(store, inner, outer)
        return True
    if large == 1 or differ(store, small, large):
        equate(store, small, 1)
        return True
    if _broadcast_mutually(store, small, large):
        unify_axes(store, inner, outer)
        return True
    symbol = symbol_of(large)
    ceiling = large if symbol is None else store.ceilings.get(symbol)
    if type(ceiling) is int:
        if symbol is not None:
            store.used.append(store.bound_reasons["ceiling", symbol])
        cap(store, small, ceiling)
    return False


def _broadcast_mutually(store: ConstraintStore, small: Dim, large: Dim) -> bool:
    """Returns whether the sizes provably broadcast to each other, which makes them equal."""
    symbol = symbol_of(small)
    if symbol in store.join_operands and large in store.join_operands[symbol][0]:
        store.used.append(store.join_operands[symbol][1])
        return True
    reason = store.broadcast_reasons.get((large, small))
    if reason is not None:
        store.used.append(reason)
        return True
    if (small, large) not in store.broadcast_reasons:
        store.set(store.broadcast_reasons, (small, large), store.reason())
    return False


def join_sizes(store: ConstraintStore, inners: Sequence[Dim]) -> Dim:
    """Returns the broadcast of sizes: one of them if it is decided, else a fresh size."""
    open_operands = _open_operands(store, inners)
    if len(open_operands) < 2:
        return open_operands[0][0] if open_operands else 1
    for result, resolved in open_operands:
        if proves_not_one(store, resolved):
            for inner, _ in open_operands:
                if inner is not result:
                    require_broadcast(store, inner, result)
            return result
    return _new_join(store, open_operands)


def _open_operands(store: ConstraintStore, inners: Sequence[Dim]) -> list[tuple[Dim, Dim]]:
    """Returns the distinct operands that may differ from 1, as written and as resolved."""
    operands: list[tuple[Dim, Dim]] = []
    for inner in inners:
        resolved = store.dim(inner)
        if resolved == 1:
            continue
        for earlier, earlier_resolved in operands:
            if resolved == earlier_resolved:
                if store.labelled:
                    unify_axes(store, earlier, inner)
                break
        else:
            operands.append((inner, resolved))
    return (
        _drop_absorbed(store, operands) if len(operands) > 1 and store.join_operands else operands
    )


def _drop_absorbed(
    store: ConstraintStore, operands: list[tuple[Dim, Dim]]
) -> list[tuple[Dim, Dim]]:
    """Drops the operands of which another operand is already a join."""
    for _, resolved in operands:
        symbol = symbol_of(resolved)
        if symbol in store.join_operands:
            join_operands, reason = store.join_operands[symbol]
            remaining = [pair for pair in operands if pair[0] not in join_operands]
            if len(remaining) < len(operands):
                store.used.append(reason)
                return remaining
    return operands


def _new_join(store: ConstraintStore, open_operands: list[tuple[Dim, Dim]]) -> Dim:
    key = frozenset([resolved for _, resolved in open_operands])
    existing_join = store.joins.get(key)
    if existing_join is not None:
        store.used.append(existing_join[1])
        return existing_join[0]
    outer, reason = fresh(), store.reason()
    store.set(store.joins, key, (outer, reason))
    join_operands = tuple([inner for inner, _ in open_operands])
    store.set(store.join_operands, symbol_of(outer), (join_operands, reason))
    store.post(DimJoin(outer, join_operands))
    return outer


@rule(DimJoin)
def _(store: ConstraintStore, constraint: DimJoin) -> bool:
    outer = store.dim(constraint.outer)
    open_operands = _open_operands(store, constraint.inners)
    if not open_operands:
        equate(store, outer, 1)
        return True
    if len(open_operands) == 1:
        unify_axes(store, constraint.outer, open_operands[0][0])
        return True
    for result, resolved in open_operands:
        if proves_not_one(store, resolved):
            unify_axes(store, constraint.outer, result)
            for inner, _ in open_operands:
                if inner is not result:
                    require_broadcast(store, inner, result)
            return True
    if outer == 1:
        for _, resolved in open_operands:
            equate(store, resolved, 1)
        return True
    return _propagate_join(store, constraint, outer, open_operands)


def _propagate_join(
    store: ConstraintStore, constraint: DimJoin, outer: Dim, open_operands: list[tuple[Dim, Dim]]
) -> bool:
    """Concludes that each operand is 1 or the result, and that one of them is the result."""
    key = frozenset([resolved for _, resolved in open_operands])
    existing_join = store.joins.get(key)
    if existing_join is None:
        store.set(store.joins, key, (constraint.outer, store.reason()))
    elif existing_join[0] is not constraint.outer:
        mark = len(store.used)
        store.used.append(existing_join[1])
        unify_axes(store, existing_join[0], constraint.outer)
        del store.used[mark:]
    is_not_one = proves_not_one(store, outer)
    symbol = symbol_of(outer)
    ceiling = outer if symbol is None else store.ceilings.get(symbol)
    remaining: list[Dim] = []
    for inner, resolved in open_operands:
        if is_not_one and differ(store, resolved, outer):
            equate(store, resolved, 1)
        else:
            remaining.append(inner)
            if type(ceiling) is int and ceiling != 1:
                if symbol is not None:
                    store.used.append(store.bound_reasons["ceiling", symbol])
                cap(store, resolved, ceiling)
    if is_not_one and len(remaining) == 1:
        unify_axes(store, constraint.outer, remaining[0])
        return True
    return False
