"""Evaluates the edits of help lines, so that only valid ones are shown."""

from __future__ import annotations

import ast

from structir.errors import DiagnosticError
from structir.ir.expr import Expr
from structir.ir.struct_info import StructInfo, TensorStructInfo
from structir.printer.parser.context import Context
from structir.printer.parser.values import value_of


def tensor_info(context: Context, node: ast.expr) -> TensorStructInfo | None:
    """Returns the StructInfo of an operand in a rejected line; None if it is no valid tensor."""
    info = _info(context, node)
    return info if isinstance(info, TensorStructInfo) else None


def is_valid(context: Context, edit: str) -> bool:
    """Returns whether an edit is a valid expression where the rejected line is."""
    return _info(context, ast.parse(edit, mode="eval").body) is not None


def _info(context: Context, node: ast.expr) -> StructInfo | None:
    try:
        value = value_of(context, node)
    except DiagnosticError:
        return None
    return value.struct_info if isinstance(value, Expr) else None
