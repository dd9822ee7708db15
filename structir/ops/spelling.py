"""Op lines laid open: list operands written out, rows as letters, groups multiplied out."""

from __future__ import annotations

from collections.abc import Container, Mapping

import attrs

from structir.ops.formula import (
    Apply,
    Extent,
    Flat,
    Formula,
    Letter,
    Row,
    leaves,
    product,
    replaced,
    unfolded,
)
from structir.ops.notation import Access, Entry, Line, Relation, joined, row_letters


def with_members(line: Line, counts: Mapping[str, int]) -> Line:
    """The line with every list operand written out, one access for each member.

    The letters of `join(*i)` get one copy per member: `i_0`, `i_1`, ...
    """
    stars = {e.starred for a in (*line.operands, *line.results) for e in a.entries if e.starred}
    lists = {a.name for a in line.operands if a.many}
    if not lists:
        return line
    count = max((counts[name] for name in lists), default=0)
    operands: list[Access] = []
    for access in line.operands:
        if access.name not in lists:
            operands.append(access)
            continue
        operands += [_member(access, k, stars) for k in range(counts[access.name])]
    results = tuple([_with_joins(a, count) for a in line.results])
    where: list[Relation] = []
    for relation in line.where:
        copies = [_relation_of(relation, k, stars) for k in range(count)]
        where += [relation] if copies[:1] == [relation] else copies
    return attrs.evolve(line, operands=tuple(operands), results=results, where=tuple(where))


def _copy_of(formula: Formula, k: int, stars: set[str]) -> Formula:
    def leaf(part: Formula) -> Formula:
        if isinstance(part, Letter | Extent) and part.name in stars:
            return type(part)(f"{part.name}_{k}")
        return part

    return replaced(formula, leaf)


def _relation_of(relation: Relation, k: int, stars: set[str]) -> Relation:
    left, right = _copy_of(relation.left, k, stars), _copy_of(relation.right, k, stars)
    return attrs.evolve(relation, left=left, right=right)


def _member(access: Access, k: int, stars: set[str]) -> Access:
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


def _with_joins(access: Access, count: int) -> Access:
    entries = tuple(
        [joined(row_letters(e.starred, count)) if e.starred else e for e in access.entries]
    )
    return attrs.evolve(access, entries=entries)


def spelled(
    access: Access, rows: Mapping[str, int | None], rank: int | None = None
) -> tuple[Entry, ...] | None:
    """The entries of an access, rows as letters; None where the rank of a row is not known.

    A loose row may be shorter in one operand than in the whole (`rank` says how many axes the
    operand has): it is then the row's last axes.
    """
    found: list[Entry] = []
    letters = {name: row_letters(name, n) for name, n in rows.items() if n is not None}
    for entry in access.entries:
        if entry.row is None:
            found.append(_opened(entry, letters))
            continue
        names = letters.get(entry.row)
        if names is None:
            return None
        if entry.loose and rank is not None:
            others = sum(rows[r] or 0 for r in access.rows if r != entry.row)
            own = rank - access.fixed - others
            names = names[len(names) - own :]
        found += [Entry(Letter(n), Extent(n), loose=entry.loose) for n in names]
    return tuple(found)


def _opened(entry: Entry, letters: Mapping[str, tuple[str, ...]]) -> Entry:
    if not rows_known(entry, letters):
        return Entry(None, None)
    index = None if entry.index is None else unfolded(entry.index, letters)
    size = None if entry.size is None else _size_of(entry.size, letters)
    return attrs.evolve(entry, index=index, size=size)


def rows_known(entry: Entry | Relation, rows: Container[str]) -> bool:
    """Whether the rank of every row in the groups of an entry or relation is known."""
    sides = (entry.left, entry.right) if isinstance(entry, Relation) else (entry.index, entry.size)
    found = [leaf for side in sides if side is not None for leaf in leaves(side)]
    return all(leaf.name in rows for leaf in found if isinstance(leaf, Row))


def _size_of(size: Formula, letters: Mapping[str, tuple[str, ...]]) -> Formula:
    """A size without groups: the product of the extents."""
    match size:
        case Flat(parts):
            return product(tuple([e for part in parts for e in _extents_of(part, letters)]))
        case Apply(fn, args):
            return Apply(fn, tuple([_size_of(part, letters) for part in args]))
    return size


def _extents_of(part: Formula, letters: Mapping[str, tuple[str, ...]]) -> list[Formula]:
    match part:
        case Row(name):
            return [Extent(letter) for letter in letters[name]]
        case Flat(parts):
            return [e for inner in parts for e in _extents_of(inner, letters)]
    return [part]


def relation_spelled(relation: Relation, rows: Mapping[str, int | None], *, size: bool) -> Relation:
    """A side condition with rows as letters."""
    letters = {name: row_letters(name, n) for name, n in rows.items() if n is not None}
    sides = [
        _size_of(side, letters) if size else unfolded(side, letters)
        for side in (relation.left, relation.right)
    ]
    return Relation(relation.op, sides[0], sides[1], relation.text)
