"""Parses dtype variables in the position of an attribute: the op converts to that of a tensor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from structir.errors import Span
from structir.ir.expr import Call, Expr, Var
from structir.ir.op import Op, find_op
from structir.ir.struct_info import PrimStructInfo, TensorStructInfo
from structir.printer.parser.context import Context

LIKE = "like"  # the hook of an op with a dtype: the op that takes a tensor in place of the dtype


def call_like(
    context: Context, op: Op, args: Sequence[Any], keywords: Mapping[str, Any], span: Span | None
) -> Call | None:
    """Returns a call at the dtype of a tensor in scope, whose dtype is the variable; or None."""
    name = op.definition.hooks.get(LIKE)  # type: ignore[attr-defined]
    values = [*args, *keywords.values()]
    variables = [v for v in values if isinstance(v, str) and v.startswith("'")]
    if name is None or len(values) != 2 or len(variables) != 1:
        return None
    operand = next((v for v in values if isinstance(v, Expr)), None)
    tensor = _tensor_of(context, variables[0])
    like = find_op(name)
    if operand is None or tensor is None or like is None:
        return None
    call: Call = like.definition.bind((operand, tensor), {}, span)
    return call


def _tensor_of(context: Context, name: str) -> Var | None:
    """Returns a tensor or scalar in scope whose dtype is the variable of this name."""
    variable = context.names.get(name)
    for value in context.names.values():
        info = value.struct_info if isinstance(value, Var) else None
        known = info.dtype_var if isinstance(info, TensorStructInfo | PrimStructInfo) else None
        if known is not None and known == variable:
            return value  # type: ignore[no-any-return]
    return None
