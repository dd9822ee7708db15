"""Expands list operands, axis packs and flattened indices of index signatures."""

from __future__ import annotations

from collections.abc import Container, Mapping

import attrs

from structir.opdef.index_expr import (
    AxisPack,
    FlattenedIndex,
    IndexExpr,
    IndexExtent,
    IndexOp,
    IndexVar,
    leaves,
    product,
    replace_leaves,
    unfold,
)
from structir.opdef.notation import (
    AxisIndex,
    IndexSignature,
    OperandAccess,
    SideCondition,
    concatenated_axis,
    pack_index_vars,
)


def expand_lists(signature: IndexSignature, counts: Mapping[str, int]) -> IndexSignature:
    """Expands every list operand to one access per member.

    Index variables of `join(*i)` get one copy per member: `i_0`, `i_1`, ...
    """
    starred = {
        e.starred for a in (*signature.operands, *signature.results) for e in a.entries if e.starred
    }
    lists = {a.name for a in signature.operands if a.many}
    if not lists:
        return signature
    count = max((counts[name] for name in lists), default=0)
    operands: list[OperandAccess] = []
    for access in signature.operands:
        if access.name not in lists:
            operands.append(access)
            continue
        operands += [_member(access, k, starred) for k in range(counts[access.name])]
    results = tuple([_with_joins(a, count) for a in signature.results])
    where: list[SideCondition] = []
    for condition in signature.where:
        copies = [_condition_of(condition, k, starred) for k in range(count)]
        where += [condition] if copies[:1] == [condition] else copies
    return attrs.evolve(signature, operands=tuple(operands), results=results, where=tuple(where))


def _copy_of(expr: IndexExpr, k: int, starred: set[str]) -> IndexExpr:
    def leaf(part: IndexExpr) -> IndexExpr:
        if isinstance(part, IndexVar | IndexExtent) and part.name in starred:
            return type(part)(f"{part.name}_{k}")
        return part

    return replace_leaves(expr, leaf)


def _condition_of(condition: SideCondition, k: int, starred: set[str]) -> SideCondition:
    lhs, rhs = _copy_of(condition.left, k, starred), _copy_of(condition.right, k, starred)
    return attrs.evolve(condition, left=lhs, right=rhs)


def _member(access: OperandAccess, k: int, starred: set[str]) -> OperandAccess:
    entries = tuple(
        [
            attrs.evolve(
                e,
                index=None if e.index is None else _copy_of(e.index, k, starred),
                size=None if e.size is None else _copy_of(e.size, k, starred),
            )
            for e in access.entries
        ]
    )
    return attrs.evolve(access, name=f"{access.name}_{k}", entries=entries)


def _with_joins(access: OperandAccess, count: int) -> OperandAccess:
    entries = tuple(
        [
            attrs.evolve(concatenated_axis(pack_index_vars(e.starred, count)), listed=True)
            if e.starred
            else e
            for e in access.entries
        ]
    )
    return attrs.evolve(access, entries=entries)


def desugar(
    access: OperandAccess, pack_ranks: Mapping[str, int | None], rank: int | None = None
) -> tuple[AxisIndex, ...] | None:
    """Returns the axes of an access with packs expanded; None where a pack has unknown rank.

    In an operand of rank `rank`, a broadcasting pack may have only its last axes.
    """
    axes: list[AxisIndex] = []
    pack_vars = {name: pack_index_vars(name, n) for name, n in pack_ranks.items() if n is not None}
    for entry in access.entries:
        if entry.pack is None:
            axes.append(_expand(entry, pack_vars))
            continue
        names = pack_vars.get(entry.pack)
        if names is None:
            return None
        if entry.loose and rank is not None:
            other_axes = sum(pack_ranks[r] or 0 for r in access.packs if r != entry.pack)
            count = rank - access.fixed - other_axes
            names = names[len(names) - count :]
        axes += [AxisIndex(IndexVar(n), IndexExtent(n), loose=entry.loose) for n in names]
    return tuple(axes)


def _expand(entry: AxisIndex, pack_vars: Mapping[str, tuple[str, ...]]) -> AxisIndex:
    if not has_known_packs(entry, pack_vars):
        return AxisIndex(None, None)
    index = None if entry.index is None else unfold(entry.index, pack_vars)
    size = None if entry.size is None else _size_of(entry.size, pack_vars)
    return attrs.evolve(entry, index=index, size=size)


def has_known_packs(entry: AxisIndex | SideCondition, known_packs: Container[str]) -> bool:
    """Returns whether the ranks of all axis packs in an axis or condition are known."""
    sides = (
        (entry.left, entry.right) if isinstance(entry, SideCondition) else (entry.index, entry.size)
    )
    all_leaves = [leaf for side in sides if side is not None for leaf in leaves(side)]
    return all(leaf.name in known_packs for leaf in all_leaves if isinstance(leaf, AxisPack))


def _size_of(size: IndexExpr, pack_vars: Mapping[str, tuple[str, ...]]) -> IndexExpr:
    """Returns a size without flattened indices, as a product of extents."""
    match size:
        case FlattenedIndex(parts):
            return product(tuple([e for part in parts for e in _extents_of(part, pack_vars)]))
        case IndexOp(fn, args):
            return IndexOp(fn, tuple([_size_of(part, pack_vars) for part in args]))
    return size


def _extents_of(part: IndexExpr, pack_vars: Mapping[str, tuple[str, ...]]) -> list[IndexExpr]:
    match part:
        case AxisPack(name):
            return [IndexExtent(index_var) for index_var in pack_vars[name]]
        case FlattenedIndex(parts):
            return [e for inner in parts for e in _extents_of(inner, pack_vars)]
    return [part]


def desugar_condition(
    condition: SideCondition, pack_ranks: Mapping[str, int | None], *, size: bool
) -> SideCondition:
    """Returns a side condition with axis packs expanded."""
    pack_vars = {name: pack_index_vars(name, n) for name, n in pack_ranks.items() if n is not None}
    sides = [
        _size_of(side, pack_vars) if size else unfold(side, pack_vars)
        for side in (condition.left, condition.right)
    ]
    return SideCondition(condition.op, sides[0], sides[1], condition.text)
