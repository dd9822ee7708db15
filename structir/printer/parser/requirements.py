"""Parses `R.require("n % 4 == 0", "k >= 2")`: conditions on sizes, checked at run time."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from structir.errors import ParseError
from structir.ir.dims import Dim
from structir.ir.requirements import cast_of, condition
from structir.printer.parser.context import Context
from structir.printer.parser.forms import size_of
from structir.printer.parser.sizes import COMPARISONS
from structir.printer.syntax import REQUIRE

HINT = 'compare sizes: `R.require("n % 4 == 0", "k >= 2")`'


def require(context: Context, node: ast.Call) -> None:
    """Parses the statement and emits the match_cast that checks its conditions at run time."""
    if not node.args or node.keywords:
        text = ", ".join(map(ast.unparse, node.keywords)) or "no arguments"
        message = f"R.{REQUIRE}: expected one or more conditions, found {text}"
        raise context.error(node, message, HINT, "E0123")
    conditions = tuple([c for item in node.args for c in _conditions(context, item)])
    if conditions:
        span = context.source_map.span(node)
        value, info = cast_of(conditions, span)
        context.emit_cast(value, info, span, "_", node)


def _conditions(context: Context, node: ast.expr) -> Iterator[Dim]:
    """Yields the conditions of one argument, except those that always hold."""
    tree = _tree(context, node) if isinstance(node, ast.Constant) else node
    if not isinstance(tree, ast.Compare) or any(type(op) not in COMPARISONS for op in tree.ops):
        raise _not_a_condition(context, node)
    sides = [_size(context, part, node) for part in (tree.left, *tree.comparators)]
    for op, left, right in zip(tree.ops, sides, sides[1:], strict=False):
        dim = condition(COMPARISONS[type(op)][1], left, right)
        if dim == 0:
            hint = "correct the condition, or remove the statement"
            raise context.error(
                node, f"the condition is always false: {ast.unparse(tree)}", hint, "E0123"
            )
        if dim != 1:
            yield dim


def _not_a_condition(context: Context, node: ast.expr) -> ParseError:
    message = f"expected a comparison of sizes, found {ast.unparse(node)}"
    return context.error(node, message, HINT, "E0123")


def _tree(context: Context, node: ast.Constant) -> ast.expr:
    try:
        return ast.parse(str(node.value).strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise _not_a_condition(context, node) from None


def _size(context: Context, part: ast.expr, node: ast.expr) -> Dim:
    """Parses a side of a comparison; an error in a string is located at the string."""
    try:
        size: Dim = size_of(context, part)
        return size
    except ParseError as error:
        if not isinstance(node, ast.Constant):
            raise
        first = error.diagnostics[0]
        raise context.error(node, first.message, first.hint, first.code) from None
