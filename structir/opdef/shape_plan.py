"""Plans shape inference at fixed ranks, before dims are known."""

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
ExpandedAxes = tuple[AxisIndex, ...]


@attrs.frozen
class SizeEquation:
    """An equation between a size expression and an operand axis or another expression."""

    left: IndexExpr
    right: IndexExpr | None  # None: the axis at `operand`, `axis`
    operand: int | None
    axis: int | None
    text: str
    index_vars: frozenset[str]  # in both sides


@attrs.frozen(eq=False)
class ShapePlan:
    """An index signature at fixed ranks, with packs expanded and the checks of dims in order.

    Evaluation order: `strict` axes bind index variables, `joins` bind those that only broadcast,
    `equations` bind the rest, and `loose` axes are checked against the bound extents.
    """

    index_signature: IndexSignature
    pack_ranks: Mapping[str, int | None]
    operands: tuple[ExpandedAxes | None, ...]
    results: tuple[ExpandedAxes | None, ...]
    strict: tuple[tuple[str, int, int], ...]
    joins: tuple[tuple[str, tuple[tuple[int, int], ...]], ...]
    equations: tuple[SizeEquation, ...]
    loose: tuple[tuple[str, int, int], ...]
    comparisons: tuple[SideCondition, ...]
    on: tuple[SideCondition, ...]
    attribute_packs: tuple[tuple[str, tuple[str, ...]], ...]
    size_sources: Mapping[
        IndexExpr, tuple[int, int]
    ]  # sizes that are equal to an axis of an operand


@lru_cache(8192)
def shape_plan(
    signature: IndexSignature,
    ranks: tuple[int | None, ...],
    present: tuple[bool, ...],
    axes: tuple[tuple[str, int], ...],
    attribute_ranks: tuple[tuple[str, int | None], ...],
) -> ShapePlan:
    """Plans shape inference for an index signature.

    `ranks` and `present` are per operand; `axes` maps index variables to axis numbers;
    `attribute_ranks` has the ranks of shape attributes that are axis packs.
    """
    present_operands = [k for k, is_present in enumerate(present) if is_present]
    try:
        pack_ranks = infer_pack_ranks(
            [signature.operands[k] for k in present_operands],
            [ranks[k] for k in present_operands],
            dict(axes),
            dict(attribute_ranks),
        )
    except InvalidCall as error:
        facts = tuple(
            [(t, None if k is None else present_operands[k], a) for t, k, a in error.facts]
        )
        raise InvalidCall(error.message, facts, error.hint, error.code) from None
    triples = zip(signature.operands, ranks, present, strict=True)
    operands = tuple(
        [
            desugar(access, pack_ranks, rank)
            if is_present and (rank is not None or not access.packs)
            else None
            for access, rank, is_present in triples
        ]
    )
    expanded = [desugar(access, pack_ranks) for access in signature.results]
    results = tuple([_without_broadcasting(axes) for axes in expanded])
    known = _known_ranks(pack_ranks)
    return _build_plan(signature, pack_ranks, operands, results, dict(attribute_ranks), known)


def _known_ranks(pack_ranks: Mapping[str, int | None]) -> dict[str, int | None]:
    return {name: rank for name, rank in pack_ranks.items() if rank is not None}


def _without_broadcasting(entries: ExpandedAxes | None) -> ExpandedAxes | None:
    """Returns result axes without broadcasting."""
    if entries is None:
        return None
    return tuple([attrs.evolve(e, loose=False) if e.loose else e for e in entries])


def _build_plan(
    signature: IndexSignature,
    pack_ranks: Mapping[str, int | None],
    operands: tuple[ExpandedAxes | None, ...],
    results: tuple[ExpandedAxes | None, ...],
    attribute_ranks: Mapping[str, int | None],
    known: Mapping[str, int | None],
) -> ShapePlan:
    strict: list[tuple[str, int, int]] = []
    loose: list[tuple[str, int, int]] = []
    equations: list[SizeEquation] = []
    size_sources: dict[IndexExpr, tuple[int, int]] = {}
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
            size_sources.setdefault(size, (k, axis))
            text = signature.operands[k].text
            equations.append(SizeEquation(size, None, k, axis, text, _extent_names(size)))
    where = _desugar_conditions(signature.where, known, size=True)
    equations += [_condition_equation(c) for c in where if c.op == "eq"]
    ranked = [(pack, rank) for pack, rank in attribute_ranks.items() if rank is not None]
    attribute_packs = tuple([(pack, pack_index_vars(pack, rank)) for pack, rank in ranked])
    fixed = {var for var, _, _ in strict}
    fixed |= {var for equation in equations for var in equation.index_vars}
    fixed |= {var for _, index_vars in attribute_packs for var in index_vars}
    joins: dict[str, list[tuple[int, int]]] = {}
    for var, k, axis in loose:
        if var not in fixed:
            joins.setdefault(var, []).append((k, axis))
    return ShapePlan(
        signature,
        pack_ranks,
        operands,
        results,
        tuple(strict),
        tuple([(var, tuple(locations)) for var, locations in joins.items()]),
        tuple(equations),
        tuple([check for check in loose if check[0] in fixed]),
        tuple([c for c in where if c.op != "eq"]),
        _desugar_conditions(signature.on, known, size=False),
        attribute_packs,
        size_sources,
    )


def _desugar_conditions(
    conditions: tuple[SideCondition, ...], known: Mapping[str, int | None], *, size: bool
) -> tuple[SideCondition, ...]:
    """Returns the conditions over packs of known rank, with packs expanded."""
    ranked = [c for c in conditions if has_known_packs(c, known)]
    return tuple([desugar_condition(c, known, size=size) for c in ranked])


def _condition_equation(condition: SideCondition) -> SizeEquation:
    lhs, rhs = condition.left, condition.right
    index_vars = _extent_names(lhs) | _extent_names(rhs)
    return SizeEquation(lhs, rhs, None, None, condition.text, index_vars)


def _extent_names(expr: IndexExpr) -> frozenset[str]:
    return frozenset(leaf.name for leaf in leaves(expr) if isinstance(leaf, IndexExtent))
