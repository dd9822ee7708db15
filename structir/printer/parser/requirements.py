"""Parses `R.require("n % 4 == 0", "k >= 2")`: conditions on sizes, checked at run time."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

from structir.errors import ParseError
from structir.ir.axes import RowVar
from structir.ir.binding_dims import FUNCTIONS, size_of_axes
from structir.ir.dims import Dim, as_dim
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
    parts = [_RowSizes(context, node).visit(part) for part in (tree.left, *tree.comparators)]
    sides = [_size(context, part, node) for part in parts]
    for op, left, right in zip(tree.ops, sides, sides[1:], strict=False):
        dim = condition(COMPARISONS[type(op)][1], left, right)
        if dim == 0:
            hint = "correct the condition, or remove the statement"
            raise context.error(
                node, f"the condition is always false: {ast.unparse(tree)}", hint, "E0123"
            )
        if dim != 1:
            yield dim


class _RowSizes(ast.NodeTransformer):
    """Replaces `elements(*s)` and `rank(*s)` by names of their sizes."""

    def __init__(self, context: Context, located: ast.expr) -> None:
        self.context, self.located = context, located

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Returns the name of the size of a row, or the call of another function."""
        if not isinstance(node.func, ast.Name) or node.func.id not in FUNCTIONS:
            return self.generic_visit(node)
        if not node.args or node.keywords:
            raise self._invalid(node, ast.unparse(node))
        name = ast.unparse(node)
        axes = [self._axis(part) for part in node.args]
        self.context.names[name] = as_dim(size_of_axes(node.func.id, axes))
        return ast.copy_location(ast.Name(name, ast.Load()), node)

    def _axis(self, part: ast.expr) -> Any:
        if not isinstance(part, ast.Starred):
            return _size(self.context, part, self.located)
        name = ast.unparse(part)
        row = self.context.names.get(name)
        if type(row) is not RowVar:
            message = f"expected a row variable of the function, found `{name}`"
            hint = f'bind it in a parameter: `x: R.Tensor(("{name}",))`'
            raise self.context.error(self.located, message, hint, "E0125")
        return row

    def _invalid(self, node: ast.Call, text: str) -> ParseError:
        hint = 'name a row variable: `R.require("elements(*s) == 24", "rank(*s) >= 2")`'
        return self.context.error(
            self.located, f"expected the axes of a row, found {text}", hint, "E0125"
        )


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
