"""Desugars index signatures: list operands, axis packs and flattened indices are expanded."""

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
    joined,
    pack_index_vars,
)


def expand_lists(line: IndexSignature, counts: Mapping[str, int]) -> IndexSignature:
    """Expands every list operand to one access per member.

    Index variables of `join(*i)` get one copy per member: `i_0`, `i_1`, ...
    """
    stars = {e.starred for a in (*line.operands, *line.results) for e in a.entries if e.starred}
    lists = {a.name for a in line.operands if a.many}
    if not lists:
        return line
    count = max((counts[name] for name in lists), default=0)
    operands: list[OperandAccess] = []
    for access in line.operands:
        if access.name not in lists:
            operands.append(access)
            continue
        operands += [_member(access, k, stars) for k in range(counts[access.name])]
    results = tuple([_with_joins(a, count) for a in line.results])
    where: list[SideCondition] = []
    for relation in line.where:
        copies = [_relation_of(relation, k, stars) for k in range(count)]
        where += [relation] if copies[:1] == [relation] else copies
    return attrs.evolve(line, operands=tuple(operands), results=results, where=tuple(where))


def _copy_of(formula: IndexExpr, k: int, stars: set[str]) -> IndexExpr:
    def leaf(part: IndexExpr) -> IndexExpr:
        if isinstance(part, IndexVar | IndexExtent) and part.name in stars:
            return type(part)(f"{part.name}_{k}")
        return part

    return replace_leaves(formula, leaf)


def _relation_of(relation: SideCondition, k: int, stars: set[str]) -> SideCondition:
    left, right = _copy_of(relation.left, k, stars), _copy_of(relation.right, k, stars)
    return attrs.evolve(relation, left=left, right=right)


def _member(access: OperandAccess, k: int, stars: set[str]) -> OperandAccess:
    entries = tuple(
        [
            attrs.evolve(
                e,
                index=None if e.index is None else _copy_of(e.index, k, stars),
                size=None if e.size is None else _copy_of(e.size, k, stars),
            )
            for e in access.entries
        ]
    )
    return attrs.evolve(access, name=f"{access.name}_{k}", entries=entries)


def _with_joins(access: OperandAccess, count: int) -> OperandAccess:
    entries = tuple(
        [joined(pack_index_vars(e.starred, count)) if e.starred else e for e in access.entries]
    )
    return attrs.evolve(access, entries=entries)


def desugar(
    access: OperandAccess, rows: Mapping[str, int | None], rank: int | None = None
) -> tuple[AxisIndex, ...] | None:
    """Returns the axes of an access with packs expanded; None where a pack has unknown rank.

    A broadcasting pack may have fewer axes in an operand of rank `rank`: its last ones.
    """
    found: list[AxisIndex] = []
    letters = {name: pack_index_vars(name, n) for name, n in rows.items() if n is not None}
    for entry in access.entries:
        if entry.pack is None:
            found.append(_expand(entry, letters))
            continue
        names = letters.get(entry.pack)
        if names is None:
            return None
        if entry.loose and rank is not None:
            others = sum(rows[r] or 0 for r in access.packs if r != entry.pack)
            own = rank - access.fixed - others
            names = names[len(names) - own :]
        found += [AxisIndex(IndexVar(n), IndexExtent(n), loose=entry.loose) for n in names]
    return tuple(found)


def _expand(entry: AxisIndex, letters: Mapping[str, tuple[str, ...]]) -> AxisIndex:
    if not has_known_packs(entry, letters):
        return AxisIndex(None, None)
    index = None if entry.index is None else unfold(entry.index, letters)
    size = None if entry.size is None else _size_of(entry.size, letters)
    return attrs.evolve(entry, index=index, size=size)


def has_known_packs(entry: AxisIndex | SideCondition, rows: Container[str]) -> bool:
    """Returns whether the rank of every axis pack of an axis or condition is known."""
    sides = (
        (entry.left, entry.right) if isinstance(entry, SideCondition) else (entry.index, entry.size)
    )
    found = [leaf for side in sides if side is not None for leaf in leaves(side)]
    return all(leaf.name in rows for leaf in found if isinstance(leaf, AxisPack))


def _size_of(size: IndexExpr, letters: Mapping[str, tuple[str, ...]]) -> IndexExpr:
    """Returns a size without flattened indices, as a product of extents."""
    match size:
        case FlattenedIndex(parts):
            return product(tuple([e for part in parts for e in _extents_of(part, letters)]))
        case IndexOp(fn, args):
            return IndexOp(fn, tuple([_size_of(part, letters) for part in args]))
    return size


def _extents_of(part: IndexExpr, letters: Mapping[str, tuple[str, ...]]) -> list[IndexExpr]:
    match part:
        case AxisPack(name):
            return [IndexExtent(letter) for letter in letters[name]]
        case FlattenedIndex(parts):
            return [e for inner in parts for e in _extents_of(inner, letters)]
    return [part]


def desugar_condition(
    relation: SideCondition, rows: Mapping[str, int | None], *, size: bool
) -> SideCondition:
    """Returns a side condition with axis packs expanded."""
    letters = {name: pack_index_vars(name, n) for name, n in rows.items() if n is not None}
    sides = [
        _size_of(side, letters) if size else unfold(side, letters)
        for side in (relation.left, relation.right)
    ]
    return SideCondition(relation.op, sides[0], sides[1], relation.text)
