"""Broadcasting of sizes: a partial order, and exact joins."""

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
    """Requires a size to broadcast to another: concludes what follows, and posts the rest."""
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
    """Returns whether the larger size is known to broadcast to the smaller one too."""
    symbol = symbol_of(small)
    if symbol in store.parts and large in store.parts[symbol][0]:
        store.used.append(store.parts[symbol][1])
        return True
    why = store.orders.get((large, small))
    if why is not None:
        store.used.append(why)
        return True
    if (small, large) not in store.orders:
        store.set(store.orders, (small, large), store.reason())
    return False


def join_sizes(store: ConstraintStore, inners: Sequence[Dim]) -> Dim:
    """Returns the broadcast of sizes: one of them if it is decided, else a fresh size."""
    open_operands = _open_operands(store, inners)
    if len(open_operands) < 2:
        return open_operands[0][0] if open_operands else 1
    for result, known in open_operands:
        if proves_not_one(store, known):
            for inner, _ in open_operands:
                if inner is not result:
                    require_broadcast(store, inner, result)
            return result
    return _new_join(store, open_operands)


def _open_operands(store: ConstraintStore, inners: Sequence[Dim]) -> list[tuple[Dim, Dim]]:
    """Returns the distinct operands that may differ from 1, as written and as resolved."""
    operands: list[tuple[Dim, Dim]] = []
    for inner in inners:
        known = store.dim(inner)
        if known == 1:
            continue
        for earlier, earlier_known in operands:
            if known == earlier_known:
                if store.labelled:
                    unify_axes(store, earlier, inner)
                break
        else:
            operands.append((inner, known))
    return _drop_absorbed(store, operands) if len(operands) > 1 and store.parts else operands


def _drop_absorbed(
    store: ConstraintStore, operands: list[tuple[Dim, Dim]]
) -> list[tuple[Dim, Dim]]:
    """Drops the operands of which another operand is already a join."""
    for _, known in operands:
        symbol = symbol_of(known)
        if symbol in store.parts:
            parts, why = store.parts[symbol]
            remaining = [pair for pair in operands if pair[0] not in parts]
            if len(remaining) < len(operands):
                store.used.append(why)
                return remaining
    return operands


def _new_join(store: ConstraintStore, open_operands: list[tuple[Dim, Dim]]) -> Dim:
    key = frozenset([known for _, known in open_operands])
    known_join = store.joins.get(key)
    if known_join is not None:
        store.used.append(known_join[1])
        return known_join[0]
    outer, why = fresh(), store.reason()
    store.set(store.joins, key, (outer, why))
    parts = tuple([inner for inner, _ in open_operands])
    store.set(store.parts, symbol_of(outer), (parts, why))
    store.post(DimJoin(outer, parts))
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
    for result, known in open_operands:
        if proves_not_one(store, known):
            unify_axes(store, constraint.outer, result)
            for inner, _ in open_operands:
                if inner is not result:
                    require_broadcast(store, inner, result)
            return True
    if outer == 1:
        for _, known in open_operands:
            equate(store, known, 1)
        return True
    return _propagate_join(store, constraint, outer, open_operands)


def _propagate_join(
    store: ConstraintStore, constraint: DimJoin, outer: Dim, open_operands: list[tuple[Dim, Dim]]
) -> bool:
    """Concludes from each operand being 1 or the result, and one of them being the result."""
    key = frozenset([known for _, known in open_operands])
    known_join = store.joins.get(key)
    if known_join is None:
        store.set(store.joins, key, (constraint.outer, store.reason()))
    elif known_join[0] is not constraint.outer:
        mark = len(store.used)
        store.used.append(known_join[1])
        unify_axes(store, known_join[0], constraint.outer)
        del store.used[mark:]
    is_not_one = proves_not_one(store, outer)
    symbol = symbol_of(outer)
    ceiling = outer if symbol is None else store.ceilings.get(symbol)
    remaining: list[Dim] = []
    for inner, known in open_operands:
        if is_not_one and differ(store, known, outer):
            equate(store, known, 1)
        else:
            remaining.append(inner)
            if type(ceiling) is int and ceiling != 1:
                if symbol is not None:
                    store.used.append(store.bound_reasons["ceiling", symbol])
                cap(store, known, ceiling)
    if is_not_one and len(remaining) == 1:
        unify_axes(store, constraint.outer, remaining[0])
        return True
    return False
