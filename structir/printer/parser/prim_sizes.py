"""Scalars of a program as sizes: where a text takes the length of an axis from an `R.Prim`
variable, its value gets a symbolic name, so that the result's shape can speak of it."""

from __future__ import annotations

from typing import Any

from structir.errors import DiagnosticError
from structir.ir.dims import Dim, Poly, as_sym, sym
from structir.ir.dtype import is_int
from structir.ir.expr import Call, DataflowVar, Expr, PrimValue, Var
from structir.ir.node import replace
from structir.ir.op import Op
from structir.ir.struct_info import PrimStructInfo, StructInfo, TensorStructInfo
from structir.printer.parser.context import Context


def bind_prim_sizes(context: Context, value: Any) -> Any:
    """A call of an op over symbolic lengths, bound by a match_cast of each scalar that is one; any
    other value as it is.

    `y = R.f(x)` is read as `m = T.int64()`, `R.match_cast(x, R.Prim(value=m))`, `y = R.f(m)`.
    Only sizes of the result are: what may be negative, such as a place to start from, is not."""
    if type(value) is not Call or type(value.op) is not Op:
        return value
    lengths: dict[Expr, Poly] = {}
    flags = getattr(value.op.definition, "lengths", ())
    for arg, is_length in zip(value.args, flags, strict=False):
        if is_length and _is_unknown(arg):
            lengths.setdefault(arg, sym(arg.name))  # type: ignore[attr-defined]
    sharper = _refine_call(value, lengths)
    if sharper is None:
        return value
    for arg, length in lengths.items():
        assert isinstance(arg.struct_info, PrimStructInfo)
        info = PrimStructInfo(arg.struct_info.dtype, length)
        context.emit_cast(arg, info, value.span)
    return sharper


def _is_unknown(arg: Expr) -> bool:
    info = arg.struct_info
    plain = type(arg) in (Var, DataflowVar) and type(info) is PrimStructInfo
    return plain and info.value is None and is_int(info.dtype)


def _refine_call(call: Call, lengths: dict[Expr, Poly]) -> Call | None:
    """The call over symbolic lengths, if each of them is the size of an axis of its result."""
    if not lengths:
        return None
    args = tuple([PrimValue(lengths[arg]) if arg in lengths else arg for arg in call.args])
    result = replace(call, args=args, struct_info=None)
    try:
        info = call.op.definition.deduce(result)  # type: ignore[attr-defined]
    except DiagnosticError:
        return None
    own = {as_sym(d) for d in _sizes(info)}
    named = all(as_sym(length) in own for length in lengths.values())
    return replace(result, struct_info=info) if named else None


def _sizes(info: StructInfo) -> tuple[Dim, ...]:
    known = isinstance(info, TensorStructInfo) and isinstance(info.dims, tuple)
    return info.dims if known else ()  # type: ignore[attr-defined]
