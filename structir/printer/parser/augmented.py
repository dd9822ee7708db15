"""Rewrites augmented assignments: `y += x` to `y = y + x`."""

from __future__ import annotations

import ast

from structir.printer.parser.context import Context
from structir.printer.parser.values import unsupported


def plain_assignment(context: Context, node: ast.AugAssign) -> ast.Assign:
    """Returns `y = y + x` for `y += x`."""
    if not isinstance(node.target, ast.Name):
        hint = (
            "tensors are values: bind a new one, such as `R.slice_scatter(...)` or `R.where(...)`"
        )
        raise unsupported(context, node, hint)
    current = ast.copy_location(ast.Name(node.target.id, ast.Load()), node.target)
    value = ast.copy_location(ast.BinOp(current, node.op, node.value), node)
    return ast.copy_location(ast.Assign([node.target], value), node)
