"""Index specs under other names of their operands."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from structir.projections.scalar_expr import OperandElement, ScalarExpr, substitute
from structir.projections.spec import AccessIndex, IndexSpec, Read, Statement, Write


def rename_reads(spec: IndexSpec, names: Mapping[str, str]) -> IndexSpec:
    """The same spec, what it reads under some names read under others."""
    points: dict[ScalarExpr, ScalarExpr] = {
        OperandElement(old): OperandElement(new) for old, new in names.items()
    }
    operands = [attrs.evolve(o, name=names.get(o.name, o.name)) for o in spec.operands]
    statements = [_clause(statement, names, points) for statement in spec.statements]
    return attrs.evolve(spec, operands=tuple(operands), statements=tuple(statements))


def _clause(
    statement: Statement, names: Mapping[str, str], points: Mapping[ScalarExpr, ScalarExpr]
) -> Statement:
    reads = [
        Read(names.get(r.name, r.name), r.operand, _entries(r.entries, points))
        for r in statement.reads
    ]
    writes = [
        Write(w.result, _entries(w.entries, points), _value(w.value, points), w.unique)
        for w in statement.writes
    ]
    return attrs.evolve(statement, reads=tuple(reads), writes=tuple(writes))


def _entries(
    entries: tuple[AccessIndex, ...], points: Mapping[ScalarExpr, ScalarExpr]
) -> tuple[AccessIndex, ...]:
    return tuple([attrs.evolve(e, index=_value(e.index, points)) for e in entries])


def _value(value: Any, points: Mapping[ScalarExpr, ScalarExpr]) -> Any:
    return substitute(value, points) if isinstance(value, ScalarExpr) else value
