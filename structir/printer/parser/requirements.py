"""`R.require("n % 4 == 0", "k >= 2")`: facts about sizes, from their text."""

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

HINT = 'a fact compares sizes: R.require("n % 4 == 0", "k >= 2")'


def require(context: Context, node: ast.Call) -> None:
    """The statement as the binding that checks the facts when the program runs."""
    if not node.args or node.keywords:
        raise context.error(node, f"R.{REQUIRE} takes facts", HINT)
    conditions = tuple([c for item in node.args for c in _conditions(context, item)])
    if conditions:
        span = context.source_map.span(node)
        value, info = cast_of(conditions, span)
        context.emit_cast(value, info, span, "_", node)


def _conditions(context: Context, node: ast.expr) -> Iterator[Dim]:
    """The conditions of one fact, less those of plain numbers that hold."""
    tree = _tree(context, node) if isinstance(node, ast.Constant) else node
    if not isinstance(tree, ast.Compare) or any(type(op) not in COMPARISONS for op in tree.ops):
        raise context.error(node, f"{ast.unparse(node)} is no fact about sizes", HINT)
    sides = [_size(context, part, node) for part in (tree.left, *tree.comparators)]
    for op, left, right in zip(tree.ops, sides, sides[1:], strict=False):
        found = condition(COMPARISONS[type(op)][1], left, right)
        if found == 0:
            raise context.error(node, f"{ast.unparse(tree)} can never hold")
        if found != 1:
            yield found


def _tree(context: Context, node: ast.Constant) -> ast.expr:
    try:
        return ast.parse(str(node.value).strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise context.error(node, f"{node.value!r} is no fact about sizes", HINT) from None


def _size(context: Context, part: ast.expr, node: ast.expr) -> Dim:
    """A side of a comparison; what is wrong in a string is shown at the string."""
    try:
        size: Dim = size_of(context, part)
        return size
    except ParseError as error:
        if not isinstance(node, ast.Constant):
            raise
        wrong = error.diagnostics[0]
        raise context.error(node, wrong.message, wrong.hint) from None
