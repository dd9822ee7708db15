"""Reductions of ragged tensors: over rows, over the axes after the ragged one, and over all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from structir.ir.dims import Dim
from structir.ir.dtype import is_float
from structir.ir.expr import Call, Expr, ShapeExpr
from structir.ir.node import replace
from structir.ops.broadcast import divide
from structir.ops.elementwise import astype
from structir.ops.reshape import reshape
from structir.ops.segments import SEGMENT_OPS, segment_sum
from structir.projections.scalar_expr import OperandElement
from structir.projections.spec import Statement
from structir.ragged.flattening import DenseForm
from structir.ragged.parts import PartsScope, Rows

Rule = Callable[[Expr, Rows, PartsScope], Expr]


def reduced(form: DenseForm, scope: PartsScope) -> Expr | None:
    """Returns a reduction over the ragged axis as one of the values and one of each row.

    Returns None for a call that is no reduction of a single ragged operand.
    """
    spec = form.spec
    if len(spec.statements) != 1 or len(spec.operands) != 1 or not form.call.struct_info:
        return None
    (statement,) = spec.statements
    group = form.group(statement)
    if group is None or not _is_reduction(form, statement) or group[-1] not in statement.reduce:
        return None
    symbols = [next(iter(e.index_vars)) for e in statement.reads[0].entries]
    axes = [k for k, symbol in enumerate(symbols) if symbol in statement.reduce]
    rows = [k for k in axes if k < form.group_size - 1]
    inner = tuple([k - form.group_size + 1 for k in axes if k >= form.group_size])
    (parts,) = form.ragged.values()
    sizes = form.result_dims()
    if len(rows) == form.group_size - 1:
        if statement.monoid in POSITIONS:
            return None
        return _shaped(_again(form.call, parts.values, (0, *inner), scope), sizes, scope)
    rule = RULES.get(statement.monoid or "")
    if rule is None or (statement.monoid in (*POSITIONS, "mean") and rows):
        return None
    values = _again(form.call, parts.values, inner, scope) if inner else parts.values
    by_row = rule(values, form.rows, scope)
    dims: Any = by_row.struct_info.dims
    if rows:
        by_row = _shaped(by_row, (*form.rows.leading, *dims[1:]), scope)
        by_row = _again(form.call, by_row, tuple(rows), scope)
    return _shaped(by_row, sizes, scope)


def _is_reduction(form: DenseForm, statement: Statement) -> bool:
    """Whether a statement combines the elements of its operand, each of them once."""
    if len(statement.reads) != 1 or len(statement.writes) != 1 or statement.conditions:
        return False
    (read,) = statement.reads
    plain = all([e.data is None and len(e.index_vars) == 1 and e.inside for e in read.entries])
    names = [p.name for p in form.call.op.definition.signature.parameters]  # type: ignore[attr-defined]
    value = statement.writes[0].value
    return plain and isinstance(value, OperandElement) and {"axis", "keepdims"} <= {*names}


def _again(call: Call, x: Expr, axes: tuple[int, ...], scope: PartsScope) -> Expr:
    """Returns the same reduction of another tensor, over other axes."""
    attributes = {**call.attrs, "axis": axes}
    attributes.pop("keepdims", None)
    return scope.emit(replace(call, args=(x,), attrs=attributes, struct_info=None))


def _shaped(x: Expr, sizes: tuple[Dim, ...], scope: PartsScope) -> Expr:
    info: Any = x.struct_info
    return x if info.dims == sizes else scope.emit(reshape(x, ShapeExpr(sizes)))


def _of_segments(reduction: str) -> Rule:
    def rule(values: Expr, rows: Rows, scope: PartsScope) -> Expr:
        return scope.emit(SEGMENT_OPS[reduction](values, *scope.flat_rows(rows)))

    return rule


def _mean(values: Expr, rows: Rows, scope: PartsScope) -> Expr:
    """Returns the sum of each row, divided by its length."""
    info: Any = values.struct_info
    exact = info.dtype if is_float(info.dtype) else "float64"
    terms = values if exact == info.dtype else scope.emit(astype(values, exact))
    total = scope.emit(segment_sum(terms, *scope.flat_rows(rows)))
    lengths = scope.emit(astype(scope.lengths(rows), exact))
    lengths = scope.emit(reshape(lengths, ShapeExpr((rows.count, *[1] * (info.ndim - 1)))))
    mean = scope.emit(divide(total, lengths))
    return mean if exact == info.dtype else scope.emit(astype(mean, info.dtype))


POSITIONS = ("argmax", "argmin")
RULES: dict[str, Rule] = {
    **{name: _of_segments(name) for name in SEGMENT_OPS},
    "any": _of_segments("max"),
    "all": _of_segments("min"),
    "mean": _mean,
}
