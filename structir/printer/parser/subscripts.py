"""Parses subscripts of tensors: `x[0, ...]`, `x[1:, ::2]`, `x[..., None]`."""

from __future__ import annotations

import ast
from typing import Any

from structir.ir.dims import Poly
from structir.ir.expr import Expr
from structir.ir.op import registered_ops
from structir.ir.operators import OPERATORS
from structir.printer.parser.context import Context
from structir.printer.parser.edit_checks import tensor_info
from structir.printer.parser.values import value_of

SUBSCRIPT = "[]"  # the key of the function that builds the calls
NEW_AXIS, REST = None, Ellipsis


def tensor_subscript(context: Context, node: ast.Subscript, tensor: Expr) -> Expr:
    """Parses a subscript of integers, sizes, slices, None and `...` to calls of ops."""
    elements = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    items = [_item(context, node, element) for element in elements]
    registered_ops()  # loading all ops fills the table
    build: Any = OPERATORS[SUBSCRIPT]
    span = context.source_map.span(node)
    value: Expr = build(tensor, items, lambda call: context.atom(call, node), span)
    return value


def _item(context: Context, node: ast.Subscript, element: ast.expr) -> Any:
    if isinstance(element, ast.Constant) and element.value in (NEW_AXIS, REST):
        return element.value
    if isinstance(element, ast.Slice):
        parts = (element.lower, element.upper, element.step)
        return slice(*[None if p is None else _number(context, node, p) for p in parts])
    return _number(context, node, element)


def _number(context: Context, node: ast.Subscript, element: ast.expr) -> Any:
    """Parses an integer that is known at parse time, or a size."""
    value = value_of(context, element)
    if value is None or type(value) in (int, Poly):
        return value
    name, text = ast.unparse(node.value), ast.unparse(element)
    hint = "write an integer, a size or a slice: `x[0, ...]`, `x[1:n - 1]`"
    if isinstance(value, Expr):
        hint = f"read at indices in a tensor: `R.take({name}, {text}, axis=0)`"
        if getattr(value.struct_info, "dtype", None) == "bool":
            rows = f"R.squeeze(R.nonzero({text}), axis=0)"
            info = tensor_info(context, node.value)
            zero = False if info is not None and info.dtype == "bool" else 0
            hint = f"keep the shape: `R.where({text}, {name}, {zero})`; "
            hint += f"of a mask with one axis, read its rows: `R.take({name}, {rows}, axis=0)`"
    message = f"expected a constant integer as the index, found {text}"
    raise context.error(element, message, hint, "E0114")
