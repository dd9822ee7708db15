"""Renames the operands of index specs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from structir.projections.scalar_expr import OperandElement, ScalarExpr, substitute
from structir.projections.spec import AccessIndex, IndexSpec, Read, Statement, Write


def rename_reads(spec: IndexSpec, names: Mapping[str, str]) -> IndexSpec:
    """Returns the same spec with operands and reads renamed."""
    exprs: dict[ScalarExpr, ScalarExpr] = {
        OperandElement(old): OperandElement(new) for old, new in names.items()
    }
    operands = [attrs.evolve(o, name=names.get(o.name, o.name)) for o in spec.operands]
    statements = [_rename_statement(statement, names, exprs) for statement in spec.statements]
    return attrs.evolve(spec, operands=tuple(operands), statements=tuple(statements))


def _rename_statement(
    statement: Statement, names: Mapping[str, str], exprs: Mapping[ScalarExpr, ScalarExpr]
) -> Statement:
    reads = [
        Read(names.get(r.name, r.name), r.operand, _rename_entries(r.entries, exprs))
        for r in statement.reads
    ]
    writes = [
        Write(w.result, _rename_entries(w.entries, exprs), _rename_value(w.value, exprs), w.unique)
        for w in statement.writes
    ]
    return attrs.evolve(statement, reads=tuple(reads), writes=tuple(writes))


def _rename_entries(
    entries: tuple[AccessIndex, ...], exprs: Mapping[ScalarExpr, ScalarExpr]
) -> tuple[AccessIndex, ...]:
    return tuple([attrs.evolve(e, index=_rename_value(e.index, exprs)) for e in entries])


def _rename_value(value: Any, exprs: Mapping[ScalarExpr, ScalarExpr]) -> Any:
    return substitute(value, exprs) if isinstance(value, ScalarExpr) else value
