"""Parses calls of external functions, with their results and index signatures."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

import attrs

from structir.analysis.deduction import deduce
from structir.errors import ParseError, Span, StructInfoError
from structir.ir.expr import NO_ATTRS, Call, DataTypeImm, Expr, ExternFunc, ShapeExpr, StringImm
from structir.ir.struct_info import (
    OBJECT,
    FuncStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from structir.lazy import lazy_module
from structir.printer.parser.context import Context
from structir.printer.parser.forms import info_of, is_info
from structir.printer.parser.static_values import static_value
from structir.printer.parser.values import argument, path_of
from structir.printer.syntax import CALL_PURE_PACKED

extern_projection = lazy_module("structir.opdef.extern_projection")

OUT_INFOS = ("out_sinfo", "out_ty")
CALL_DPS = "structir.call_dps"  # see interpret/extern.py
ATTRS_TYPE_KEY = "attrs_type_key"  # TVM prints it for calls with attributes
EXTERN_OPTIONS = {"index": str, "cost": int | float | dict}
NAME_EXPECTED = "expected the name of an external function"
SINFO_ARGS = ("sinfo_args", "ty_args")  # the second as TVM 0.27 prints it


def read_packed_call(context: Context, node: ast.Call) -> Call:
    """Parses `R.call_packed("name", *args, sinfo_args=...)` and `R.call_pure_packed`."""
    values = [_extern_name(context, node, item) for item in node.args[:1]]
    values += [argument(context, item) for item in node.args[1:]]
    example = 'R.call_packed("name", x, sinfo_args=R.Tensor((4,), "float32"))'
    if not values or not isinstance(values[0], str):
        first = ast.unparse(node.args[0]) if node.args else "no arguments"
        message = f"{path_of(node.func)}: {NAME_EXPECTED}, found {first}"
        raise context.error(node, message, f"`{example}`", "E0106")
    declared: Any = ()
    options: dict[str, Any] = {}
    for keyword in node.keywords:
        if keyword.arg == ATTRS_TYPE_KEY:
            continue
        if keyword.arg in EXTERN_OPTIONS:
            options[keyword.arg] = _extern_option(context, keyword)
            continue
        if keyword.arg not in SINFO_ARGS:
            message = f"unexpected keyword argument `{keyword.arg}`: expected `sinfo_args`"
            raise context.error(keyword, message, f"`{example}`", "E0106")
        declared = info_of(context, keyword.value) if is_info(context, keyword.value) else None
        if declared is None:
            items = getattr(keyword.value, "elts", None)
            if items is None:
                text = ast.unparse(keyword.value)
                message = f"sinfo_args: expected the StructInfo of the result, found {text}"
                raise context.error(keyword.value, message, f"`{example}`", "E0106")
            declared = tuple([info_of(context, item) for item in items])
    pure = isinstance(node.func, ast.Attribute) and node.func.attr == CALL_PURE_PACKED
    pairs = zip(values[1:], node.args[1:], strict=True)
    args = tuple([context.expr(value, item) for value, item in pairs])
    infos = (declared,) if isinstance(declared, StructInfo) else declared
    span = context.source_map.span(node)
    return _declared_call(
        context, node, lambda: packed_call(values[0], args, infos, pure, span, options)
    )


def _extern_name(context: Context, node: ast.Call, item: ast.expr) -> Any:
    """Returns the first argument, which is a string; a name without quotes is an error."""
    try:
        return argument(context, item)
    except ParseError as error:
        if not isinstance(item, ast.Name) or error.code != "E0102":
            raise
        message = f"{path_of(node.func)}: {NAME_EXPECTED}, found {item.id}"
        raise context.error(item, message, f'quote the name: `"{item.id}"`', "E0106") from None


def _declared_call(context: Context, node: ast.Call, build: Callable[[], Call]) -> Call:
    """Builds a call of an external function; errors of its options are located at them."""
    try:
        return build()
    except StructInfoError as error:
        option = next((k for k in node.keywords if k.arg == "index"), None)
        if option is None or error.code != extern_projection.CODE:
            raise
        span = context.source_map.span(option.value)
        diagnostics = [attrs.evolve(d, span=span) for d in error.diagnostics]
        raise StructInfoError(diagnostics) from None


def _extern_option(context: Context, node: ast.keyword) -> Any:
    """Parses `index="x[i] -> y[i]"` or `cost=2` of a call of an external function."""
    try:
        value = ast.literal_eval(node.value)
    except ValueError:
        value = static_value(context, node.value)
    if not isinstance(value, EXTERN_OPTIONS[str(node.arg)]):
        message = f"{node.arg}: expected a literal, found {ast.unparse(node.value)}"
        hint = 'write `index="x[i, k], w[k, j] -> y[i, j]"` and `cost=2`'
        raise context.error(node.value, message, hint, "E0106")
    return value


def read_dps_call(context: Context, node: ast.Call) -> Call:
    """Parses `R.call_dps_packed("name", args, out_sinfo)`: the function writes to its results."""
    named = {k.arg: k.value for k in node.keywords}
    options = {
        str(k.arg): _extern_option(context, k) for k in node.keywords if k.arg in EXTERN_OPTIONS
    }
    out = next((named[name] for name in OUT_INFOS if name in named), None)
    out = node.args[2] if out is None and len(node.args) == 3 else out
    name = getattr(node.args[0], "value", None) if node.args else None
    example = 'R.call_dps_packed("name", (x,), out_sinfo=R.Tensor((4,), "float32"))'
    if out is None or len(node.args) < 2 or not isinstance(name, str):
        message = (
            f"expected a name, operands and the StructInfo of results: found `{ast.unparse(node)}`"
        )
        raise context.error(node, message, f"`{example}`", "E0106")
    operands = context.expr(argument(context, node.args[1]), node.args[1])
    infos = tuple([info_of(context, item) for item in getattr(out, "elts", [out])])
    results: list[Expr] = []
    for info in infos:
        if not isinstance(info, TensorStructInfo) or type(info.dims) is not tuple or not info.dtype:
            message = f"expected results of known sizes and dtype, found {info}"
            raise context.error(out, message, f"`{example}`", "E0214")
        results += [ShapeExpr(info.dims), DataTypeImm(info.dtype)]
    declared = infos[0] if len(infos) == 1 else TupleStructInfo(infos)
    args = (StringImm(name), operands, *results)
    span = context.source_map.span(node)
    return _declared_call(
        context, node, lambda: packed_call(CALL_DPS, args, (declared,), True, span, options)
    )


def packed_call(
    name: str,
    args: tuple[Expr, ...],
    declared: tuple[StructInfo, ...],
    pure: bool,
    span: Span | None = None,
    options: dict[str, Any] | None = None,
) -> Call:
    """Returns a call of an external function; it has effects unless `pure` is set.

    `options` may have its index signature, `index`, and its `cost`. Raises StructInfoError where
    they do not fit the operands and the results.
    """
    info = FuncStructInfo(None, OBJECT, True) if pure else None
    callee = ExternFunc(name, info, span)
    call = Call(callee, args, options or NO_ATTRS, declared, span=span)
    call = Call(callee, args, call.attrs, declared, deduce(call), span)
    if options:
        extern_projection.check_declaration(call)
    return call
