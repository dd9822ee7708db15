"""Broadcasting of sizes: an order, and its exact joins."""

from __future__ import annotations

from collections.abc import Sequence

from structir.ir.polynomial import Dim
from structir.solver.constraints.constraint import DimJoin, DimLe
from structir.solver.domains.intervals import differ, proves_not_one
from structir.solver.domains.terms import symbol_of
from structir.solver.propagation.arithmetic import cap, equate, fresh
from structir.solver.propagation.row_unification import unify_axes
from structir.solver.propagation.store import ConstraintStore, rule


def broadcasts_to(store: ConstraintStore, inner: Dim, outer: Dim) -> None:
    """A size broadcasts to another: conclude what follows, and keep the rest as a constraint."""
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
    """Whether the larger size is known to broadcast to the smaller one too."""
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
    """The broadcast of sizes: one of them where that can be told, otherwise a new size."""
    open_operands = _open_operands(store, inners)
    if len(open_operands) < 2:
        return open_operands[0][0] if open_operands else 1
    for chosen, known in open_operands:
        if proves_not_one(store, known):
            for inner, _ in open_operands:
                if inner is not chosen:
                    broadcasts_to(store, inner, chosen)
            return chosen
    return _new_join(store, open_operands)


def _open_operands(store: ConstraintStore, inners: Sequence[Dim]) -> list[tuple[Dim, Dim]]:
    """The operands that may be other than 1, each once: as written, and as known."""
    found: list[tuple[Dim, Dim]] = []
    for inner in inners:
        known = store.dim(inner)
        if known == 1:
            continue
        for same, other in found:
            if known == other:
                if store.labelled:
                    unify_axes(store, same, inner)
                break
        else:
            found.append((inner, known))
    return _drop_absorbed(store, found) if len(found) > 1 and store.parts else found


def _drop_absorbed(store: ConstraintStore, found: list[tuple[Dim, Dim]]) -> list[tuple[Dim, Dim]]:
    """Without the operands that another operand is a join of already."""
    for _, known in found:
        symbol = symbol_of(known)
        if symbol in store.parts:
            parts, why = store.parts[symbol]
            kept = [pair for pair in found if pair[0] not in parts]
            if len(kept) < len(found):
                store.used.append(why)
                return kept
    return found


def _new_join(store: ConstraintStore, open_operands: list[tuple[Dim, Dim]]) -> Dim:
    key = frozenset([known for _, known in open_operands])
    met = store.joins.get(key)
    if met is not None:
        store.used.append(met[1])
        return met[0]
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
    for chosen, known in open_operands:
        if proves_not_one(store, known):
            unify_axes(store, constraint.outer, chosen)
            for inner, _ in open_operands:
                if inner is not chosen:
                    broadcasts_to(store, inner, chosen)
            return True
    if outer == 1:
        for _, known in open_operands:
            equate(store, known, 1)
        return True
    return _propagate_join(store, constraint, outer, open_operands)


def _propagate_join(
    store: ConstraintStore, constraint: DimJoin, outer: Dim, open_operands: list[tuple[Dim, Dim]]
) -> bool:
    """Each operand is 1 or the result, and one of them is the result."""
    key = frozenset([known for _, known in open_operands])
    met = store.joins.get(key)
    if met is None:
        store.set(store.joins, key, (constraint.outer, store.reason()))
    elif met[0] is not constraint.outer:
        mark = len(store.used)
        store.used.append(met[1])
        unify_axes(store, met[0], constraint.outer)
        del store.used[mark:]
    wide = proves_not_one(store, outer)
    symbol = symbol_of(outer)
    ceiling = outer if symbol is None else store.ceilings.get(symbol)
    left: list[Dim] = []
    for inner, known in open_operands:
        if wide and differ(store, known, outer):
            equate(store, known, 1)
        else:
            left.append(inner)
            if type(ceiling) is int and ceiling != 1:
                if symbol is not None:
                    store.used.append(store.bound_reasons["ceiling", symbol])
                cap(store, known, ceiling)
    if wide and len(left) == 1:
        unify_axes(store, constraint.outer, left[0])
        return True
    return False
