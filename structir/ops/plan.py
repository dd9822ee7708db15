"""What is prepared of a line once its ranks are known: everything that does not depend on sizes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import attrs

from structir.ir.dims import Dim
from structir.ops.formula import Extent, Formula, Letter, leaves
from structir.ops.notation import Entry, Line, Relation, row_letters
from structir.ops.rows import Rejected, row_ranks
from structir.ops.spelling import relation_spelled, rows_known, spelled

Dims = tuple[Dim, ...]
Spelled = tuple[Entry, ...]


@attrs.frozen
class Equation:
    """A size formula that equals an axis of an operand, or another formula."""

    left: Formula
    right: Formula | None  # None: the axis at `operand`, `axis`
    operand: int | None
    axis: int | None
    text: str
    letters: frozenset[str]  # of both sides


@attrs.frozen(eq=False)
class Plan:
    """A line at given ranks: entries without rows, and what is to be done with the sizes.

    The lists are in the order of the work: `strict` places bind letters, `joins` bind letters that
    only stand loosely, `equations` bind the rest, `loose` places are checked against what was
    bound.
    """

    line: Line
    rows: Mapping[str, int | None]
    operands: tuple[Spelled | None, ...]
    results: tuple[Spelled | None, ...]
    strict: tuple[tuple[str, int, int], ...]
    joins: tuple[tuple[str, tuple[tuple[int, int], ...]], ...]
    equations: tuple[Equation, ...]
    loose: tuple[tuple[str, int, int], ...]
    comparisons: tuple[Relation, ...]
    on: tuple[Relation, ...]
    attribute_rows: tuple[tuple[str, tuple[str, ...]], ...]
    read_off: Mapping[Formula, tuple[int, int]]  # a size that stands at an operand's axis


@lru_cache(8192)
def plan_of(
    line: Line,
    ranks: tuple[int | None, ...],
    present: tuple[bool, ...],
    axes: tuple[tuple[str, int], ...],
    stated: tuple[tuple[str, int | None], ...],
) -> Plan:
    """Everything about a line that does not depend on sizes.

    `ranks` and `present` follow the operands of the line; `axes` places letters; `stated` are the
    rows that shape attributes stand for, and their ranks.
    """
    here = [k for k, there in enumerate(present) if there]
    try:
        rows = row_ranks(
            [line.operands[k] for k in here], [ranks[k] for k in here], dict(axes), dict(stated)
        )
    except Rejected as error:
        facts = tuple([(t, None if k is None else here[k], a) for t, k, a in error.facts])
        raise Rejected(error.message, facts, error.hint, error.code) from None
    operands = tuple(
        [
            spelled(access, rows, rank) if there and (rank is not None or not access.rows) else None
            for access, rank, there in zip(line.operands, ranks, present, strict=True)
        ]
    )
    results = tuple([_strictly(spelled(access, rows)) for access in line.results])
    known = _known_rows(rows)
    return _planned(line, rows, operands, results, dict(stated), known)


def _known_rows(rows: Mapping[str, int | None]) -> dict[str, int | None]:
    return {name: rank for name, rank in rows.items() if rank is not None}


def _strictly(entries: Spelled | None) -> Spelled | None:
    """Result entries: a result's axis is never loose."""
    if entries is None:
        return None
    return tuple([attrs.evolve(e, loose=False) if e.loose else e for e in entries])


def _planned(
    line: Line,
    rows: Mapping[str, int | None],
    operands: tuple[Spelled | None, ...],
    results: tuple[Spelled | None, ...],
    stated: Mapping[str, int | None],
    known: Mapping[str, int | None],
) -> Plan:
    strict: list[tuple[str, int, int]] = []
    loose: list[tuple[str, int, int]] = []
    equations: list[Equation] = []
    read_off: dict[Formula, tuple[int, int]] = {}
    for k, entries in enumerate(operands):
        for axis, entry in enumerate(entries or ()):
            size = entry.size
            if entry.loose and isinstance(entry.index, Letter):
                loose.append((entry.index.name, k, axis))
                if size == Extent(entry.index.name):
                    continue
            if size is None:
                continue
            if isinstance(size, Extent):
                strict.append((size.name, k, axis))
                continue
            read_off.setdefault(size, (k, axis))
            text = line.operands[k].text
            equations.append(Equation(size, None, k, axis, text, _letters(size)))
    where = [relation_spelled(r, known, size=True) for r in line.where if rows_known(r, known)]
    for relation in where:
        if relation.op == "eq":
            letters = _letters(relation.left) | _letters(relation.right)
            equations.append(
                Equation(relation.left, relation.right, None, None, relation.text, letters)
            )
    attribute_rows = tuple(
        [(row, row_letters(row, rank)) for row, rank in stated.items() if rank is not None]
    )
    fixed = {letter for letter, _, _ in strict}
    fixed |= {letter for equation in equations for letter in equation.letters}
    fixed |= {letter for _, letters in attribute_rows for letter in letters}
    places: dict[str, list[tuple[int, int]]] = {}
    for letter, k, axis in loose:
        if letter not in fixed:
            places.setdefault(letter, []).append((k, axis))
    return Plan(
        line,
        rows,
        operands,
        results,
        tuple(strict),
        tuple([(letter, tuple(found)) for letter, found in places.items()]),
        tuple(equations),
        tuple([place for place in loose if place[0] in fixed]),
        tuple([r for r in where if r.op != "eq"]),
        tuple([relation_spelled(r, known, size=False) for r in line.on if rows_known(r, known)]),
        attribute_rows,
        read_off,
    )


def _letters(formula: Formula) -> frozenset[str]:
    return frozenset(leaf.name for leaf in leaves(formula) if isinstance(leaf, Extent))
