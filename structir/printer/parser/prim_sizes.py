"""Names the value of an `R.Prim` variable that is used as a size.

The shape of the result then refers to that symbolic dim.
"""

from __future__ import annotations

import ast
from typing import Any

import attrs

from structir.errors import DiagnosticError
from structir.ir.dims import Dim, Poly, as_sym, sym
from structir.ir.dtype import is_int
from structir.ir.expr import Call, DataflowVar, Expr, PrimValue, Var
from structir.ir.node import replace
from structir.ir.op import Op
from structir.ir.struct_info import PrimStructInfo, StructInfo, TensorStructInfo
from structir.printer.parser.context import Context

WRONG_ARGUMENT = "E0107"  # the code of an argument of another kind than its parameter


def bind_prim_sizes(context: Context, value: Any) -> Any:
    """Rewrites a call whose lengths are scalar variables; returns any other value unchanged.

    `y = R.f(x)` becomes `m = T.int64()`, `R.match_cast(x, R.Prim(value=m))`, `y = R.f(m)`.
    Only sizes of the result are named: other arguments, such as a start index, may be negative.
    """
    if type(value) is not Call or type(value.op) is not Op:
        return value
    lengths: dict[Expr, Poly] = {}
    for position in getattr(value.op.definition, "length_positions", ()):
        arg = value.args[position] if position < len(value.args) else None
        if arg is not None and _is_unknown(arg):
            lengths.setdefault(arg, sym(arg.name))
    refined = _refine_call(value, lengths) if lengths else None
    if refined is None:
        return value
    for arg, length in lengths.items():
        assert isinstance(arg.struct_info, PrimStructInfo)
        info = PrimStructInfo(arg.struct_info.dtype, length)
        context.emit_cast(arg, info, value.span)
    return refined


def _is_unknown(arg: Expr) -> bool:
    info = arg.struct_info
    plain = type(arg) in (Var, DataflowVar) and type(info) is PrimStructInfo
    return plain and info.value is None and is_int(info.dtype)


def _refine_call(call: Call, lengths: dict[Expr, Poly]) -> Call | None:
    """Returns the call over symbolic lengths, if each is the size of an axis of the result."""
    args = tuple([PrimValue(lengths[arg]) if arg in lengths else arg for arg in call.args])
    refined = replace(call, args=args, struct_info=None)
    try:
        info = call.op.definition.deduce(refined)  # type: ignore[attr-defined]
    except DiagnosticError:
        return None
    result_dims = {as_sym(d) for d in _sizes(info)}
    are_sizes = all(as_sym(length) in result_dims for length in lengths.values())
    return replace(refined, struct_info=info) if are_sizes else None


def _sizes(info: StructInfo) -> tuple[Dim, ...]:
    has_dims = isinstance(info, TensorStructInfo) and isinstance(info.dims, tuple)
    return info.dims if has_dims else ()  # type: ignore[attr-defined]


def bound_call(
    context: Context, op: Op, args: tuple[Any, ...], keywords: dict[str, Any], node: ast.AST
) -> Call:
    """Returns the call of an op; a scalar of known value, `h: R.Prim("int64") = 8`, is a size."""
    span, definition = context.source_map.span(node), op.definition
    try:
        call: Call = definition.bind(args, keywords, span)
    except DiagnosticError as error:
        values = (*args, *keywords.values())
        if any([with_known_sizes(context, value) is not value for value in values]):
            known = {name: with_known_sizes(context, value) for name, value in keywords.items()}
            sized = with_known_sizes(context, args)
            return definition.bind(sized, known, span)
        if error.diagnostics[0].code != WRONG_ARGUMENT:
            raise
        hints = [hint for value in values if (hint := hint_of_size(value)) is not None]
        first = attrs.evolve(error.diagnostics[0], hint=[*hints, error.diagnostics[0].hint][0])
        raise type(error)([first, *error.diagnostics[1:]]) from None
    return call


def with_known_sizes(context: Context, value: Any) -> Any:
    """Returns a tuple whose scalar variables of known value are replaced by the values."""
    if type(value) is tuple:
        items = [with_known_sizes(context, item) for item in value]
        same = all([item is before for item, before in zip(items, value, strict=True)])
        return value if same else tuple(items)
    return context.known_scalars.get(value, value) if isinstance(value, Var) else value


def hint_of_size(value: Any) -> str | None:
    """Returns the edit for a variable in the position of a size; None for other values."""
    items = value if type(value) is tuple else ()
    variable = next((item for item in items if isinstance(item, Var)), None)
    if variable is None:
        return None
    name = variable.name
    if not _is_unknown(variable):
        return f"write a number or a dim; a number may have a name: `{name} = 8`"
    edit = f'as a parameter, `{name}: R.Prim("int64", value="{name}")`; as another value, '
    return f"{edit}`n = T.int64()` and `R.match_cast({name}, R.Prim(value=n))`: the size is `n`"
