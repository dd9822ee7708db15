"""Literals for the values of Python that a function of TVM's TIR names."""

from __future__ import annotations

import ast
import copy
from typing import Any

from structir.printer.parser.captured import PLAIN
from structir.printer.parser.context import Context
from structir.printer.parser.static_values import LANGUAGE


def with_captured(context: Context, node: ast.FunctionDef) -> ast.FunctionDef:
    """Returns a function whose names of Python's values are replaced by the values."""
    if context.module is None or not context.module.python_values:
        return node
    bound = {a.arg for a in node.args.args} | {
        n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
    }
    copied = copy.deepcopy(node)
    copied.body = [_Captured(context, bound).visit(item) for item in copied.body]
    for arg in copied.args.args:
        if arg.annotation is not None:
            arg.annotation = _Captured(context, bound).visit(arg.annotation)
    return copied


class _Captured(ast.NodeTransformer):
    """Replaces names, items and fields of values of Python by literals."""

    def __init__(self, context: Context, bound: set[str]) -> None:
        self.context, self.bound = context, bound

    def replaced(self, node: Any) -> ast.expr:
        base = node
        while isinstance(base, ast.Attribute | ast.Subscript):
            base = base.value
        if not isinstance(base, ast.Name) or base.id in {*self.bound, *LANGUAGE}:
            return self.generic_visit(node)  # type: ignore[return-value]
        literal = _literal(self.context.captured(node))
        if literal is not None:
            return located(literal, node)  # type: ignore[no-any-return]
        return self.generic_visit(node)  # type: ignore[return-value]

    visit_Name = visit_Attribute = visit_Subscript = replaced


def _literal(value: Any) -> ast.expr | None:
    """Returns the literal of a plain value or of a tuple of them; None for any other."""
    if type(value) in PLAIN:
        sign = type(value) in (int, float) and value < 0
        return ast.UnaryOp(ast.USub(), ast.Constant(-value)) if sign else ast.Constant(value)
    if type(value) is not tuple:
        return None
    items = [_literal(item) for item in value]
    known = [item for item in items if item is not None]
    return ast.Tuple(known, ast.Load()) if len(known) == len(items) else None


def located(node: Any, source: ast.AST) -> Any:
    """Gives the location of the source to nodes without one."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.expr | ast.stmt | ast.arg) and not hasattr(inner, "lineno"):
            ast.copy_location(inner, source)
    return node
