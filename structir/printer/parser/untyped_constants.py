"""Dtypes of integer constants that state none, `R.const(3)`, and of numbers that do."""

from __future__ import annotations

import ast
from typing import Any

from structir.analysis.deduction import deduce
from structir.ir.dtype import is_float, is_int
from structir.ir.expr import Call, Expr, PrimValue
from structir.ir.op import find_op
from structir.ir.struct_info import PrimStructInfo, StructInfo, TensorStructInfo
from structir.printer import constants
from structir.printer.parser.context import Context
from structir.printer.parser.tvm_spellings import CONVERSION, dtype_of_numbers
from structir.printer.parser.values import path_of
from structir.printer.syntax import CONST


def adapt_constants(args: list[Any], nodes: list[ast.expr]) -> list[Any]:
    """Gives `R.const(3)`, an integer without a dtype, the dtype of another operand of integers."""
    weak = [k for k, node in enumerate(nodes) if _is_untyped(node) and _is_integer(args[k])]
    if not weak:
        return args
    others = [a.struct_info.dtype for a in args if isinstance(a, Expr) and _is_integer(a)]
    if len(others) == len(weak):
        return args
    strong = [arg for k, arg in enumerate(args) if k not in weak]
    dtype = next(a.struct_info.dtype for a in strong if isinstance(a, Expr) and _is_integer(a))
    converted = {k: constants.inline_constant(args[k].data, dtype) for k in weak}
    fits = all((constant.data == args[k].data).all() for k, constant in converted.items())
    return [converted.get(k, arg) for k, arg in enumerate(args)] if fits else args


def convert_to_typed(context: Context, call: Call, node: ast.Call) -> Call:
    """Returns a call with the number `T.float32(1)` in the dtype of the number."""
    dtype = dtype_of_numbers(node)
    if dtype in (None, "int64", getattr(deduce(call), "dtype", None)):
        return call
    operands = (context.atom(call, node), dtype)
    conversion: Any = find_op(CONVERSION)
    converted: Call = conversion.definition.bind(operands, {}, context.source_map.span(node))
    return converted


def typed_number(value: Expr, info: StructInfo | None) -> Expr:
    """Returns a float in the dtype of an annotation or a parameter: `R.Prim("float64")`."""
    if not isinstance(value, PrimValue) or not isinstance(info, PrimStructInfo):
        return value
    if type(value.value) is not float or not is_float(str(info.dtype)):
        return value
    return PrimValue(value.value, PrimStructInfo(info.dtype), value.span)


def _is_untyped(node: ast.expr) -> bool:
    has_one = isinstance(node, ast.Call) and len(node.args) == 1 and not node.keywords
    return has_one and path_of(node.func) == f"R.{CONST}"  # type: ignore[attr-defined]


def _is_integer(value: Any) -> bool:
    info = value.struct_info if isinstance(value, Expr) else None
    return isinstance(info, TensorStructInfo) and info.dtype is not None and is_int(info.dtype)
