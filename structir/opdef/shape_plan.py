"""Shape plans: the part of shape inference that depends on ranks, not on dims."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import attrs

from structir.ir.dims import Dim
from structir.opdef.axis_packs import InvalidCall, infer_pack_ranks
from structir.opdef.desugar import desugar, desugar_condition, has_known_packs
from structir.opdef.index_expr import IndexExpr, IndexExtent, IndexVar, leaves
from structir.opdef.notation import AxisIndex, IndexSignature, SideCondition, pack_index_vars

Dims = tuple[Dim, ...]
Spelled = tuple[AxisIndex, ...]


@attrs.frozen
class SizeEquation:
    """A size expression that equals an axis of an operand, or another expression."""

    left: IndexExpr
    right: IndexExpr | None  # None: the axis at `operand`, `axis`
    operand: int | None
    axis: int | None
    text: str
    index_vars: frozenset[str]  # of both sides


@attrs.frozen(eq=False)
class ShapePlan:
    """An index signature at given ranks: packs expanded, and the work left for dims.

    In order of work: `strict` axes bind index variables, `joins` bind those that only broadcast,
    `equations` bind the rest, and `loose` axes are checked against the bound extents.
    """

    index_signature: IndexSignature
    pack_ranks: Mapping[str, int | None]
    operands: tuple[Spelled | None, ...]
    results: tuple[Spelled | None, ...]
    strict: tuple[tuple[str, int, int], ...]
    joins: tuple[tuple[str, tuple[tuple[int, int], ...]], ...]
    equations: tuple[SizeEquation, ...]
    loose: tuple[tuple[str, int, int], ...]
    comparisons: tuple[SideCondition, ...]
    on: tuple[SideCondition, ...]
    attribute_packs: tuple[tuple[str, tuple[str, ...]], ...]
    read_off: Mapping[IndexExpr, tuple[int, int]]  # a size that is at an operand's axis


@lru_cache(8192)
def shape_plan(
    line: IndexSignature,
    ranks: tuple[int | None, ...],
    present: tuple[bool, ...],
    axes: tuple[tuple[str, int], ...],
    stated: tuple[tuple[str, int | None], ...],
) -> ShapePlan:
    """Plans shape inference for an index signature.

    `ranks` and `present` are per operand; `axes` maps index variables to axis numbers; `stated` has
    the ranks of shape attributes that are axis packs.
    """
    here = [k for k, there in enumerate(present) if there]
    try:
        rows = infer_pack_ranks(
            [line.operands[k] for k in here], [ranks[k] for k in here], dict(axes), dict(stated)
        )
    except InvalidCall as error:
        facts = tuple([(t, None if k is None else here[k], a) for t, k, a in error.facts])
        raise InvalidCall(error.message, facts, error.hint, error.code) from None
    operands = tuple(
        [
            desugar(access, rows, rank)
            if there and (rank is not None or not access.packs)
            else None
            for access, rank, there in zip(line.operands, ranks, present, strict=True)
        ]
    )
    results = tuple([_strictly(desugar(access, rows)) for access in line.results])
    known = _known_rows(rows)
    return _build_plan(line, rows, operands, results, dict(stated), known)


def _known_rows(rows: Mapping[str, int | None]) -> dict[str, int | None]:
    return {name: rank for name, rank in rows.items() if rank is not None}


def _strictly(entries: Spelled | None) -> Spelled | None:
    """Returns result axes without broadcasting."""
    if entries is None:
        return None
    return tuple([attrs.evolve(e, loose=False) if e.loose else e for e in entries])


def _build_plan(
    line: IndexSignature,
    rows: Mapping[str, int | None],
    operands: tuple[Spelled | None, ...],
    results: tuple[Spelled | None, ...],
    stated: Mapping[str, int | None],
    known: Mapping[str, int | None],
) -> ShapePlan:
    strict: list[tuple[str, int, int]] = []
    loose: list[tuple[str, int, int]] = []
    equations: list[SizeEquation] = []
    read_off: dict[IndexExpr, tuple[int, int]] = {}
    for k, entries in enumerate(operands):
        for axis, entry in enumerate(entries or ()):
            size = entry.size
            if entry.loose and isinstance(entry.index, IndexVar):
                loose.append((entry.index.name, k, axis))
                if size == IndexExtent(entry.index.name):
                    continue
            if size is None:
                continue
            if isinstance(size, IndexExtent):
                strict.append((size.name, k, axis))
                continue
            read_off.setdefault(size, (k, axis))
            text = line.operands[k].text
            equations.append(SizeEquation(size, None, k, axis, text, _letters(size)))
    where = [
        desugar_condition(r, known, size=True) for r in line.where if has_known_packs(r, known)
    ]
    for relation in where:
        if relation.op == "eq":
            letters = _letters(relation.left) | _letters(relation.right)
            equations.append(
                SizeEquation(relation.left, relation.right, None, None, relation.text, letters)
            )
    attribute_rows = tuple(
        [(row, pack_index_vars(row, rank)) for row, rank in stated.items() if rank is not None]
    )
    fixed = {letter for letter, _, _ in strict}
    fixed |= {letter for equation in equations for letter in equation.index_vars}
    fixed |= {letter for _, letters in attribute_rows for letter in letters}
    places: dict[str, list[tuple[int, int]]] = {}
    for letter, k, axis in loose:
        if letter not in fixed:
            places.setdefault(letter, []).append((k, axis))
    return ShapePlan(
        line,
        rows,
        operands,
        results,
        tuple(strict),
        tuple([(letter, tuple(found)) for letter, found in places.items()]),
        tuple(equations),
        tuple([place for place in loose if place[0] in fixed]),
        tuple([r for r in where if r.op != "eq"]),
        tuple(
            [desugar_condition(r, known, size=False) for r in line.on if has_known_packs(r, known)]
        ),
        attribute_rows,
        read_off,
    )


def _letters(formula: IndexExpr) -> frozenset[str]:
    return frozenset(leaf.name for leaf in leaves(formula) if isinstance(leaf, IndexExtent))
