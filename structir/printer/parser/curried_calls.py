"""Parses calls in two steps, `R.name(function, option=...)(x, y)`, of ops that are written so."""

from __future__ import annotations

import ast
from typing import Any

from structir.ir.op import Op, find_op
from structir.printer.parser.context import Context
from structir.printer.parser.values import path_of

CURRIED = "curried"  # the hook of such an op: the number of operands of the first step


def curried_op(node: ast.Call) -> Op | None:
    """Returns the op of a call `R.name(...)(...)`, or None."""
    head = node.func
    path = path_of(head.func) if isinstance(head, ast.Call) else None
    op = find_op(path[2:]) if path is not None and path.startswith("R.") else None
    is_curried = op is not None and CURRIED in getattr(op.definition, "hooks", ())
    return op if is_curried else None


def joined_call(context: Context, node: ast.Call) -> ast.Call:
    """Returns a call in two steps as one call."""
    head: Any = node.func
    if node.keywords:
        message = f"expected operands by position, found {ast.unparse(node.keywords[0])}"
        hint = f"write options in the first call: `{ast.unparse(head)}`"
        raise context.error(node.keywords[0], message, hint, "E0225")
    call = ast.Call(head.func, [*head.args, *node.args], head.keywords)
    return ast.copy_location(call, node)
