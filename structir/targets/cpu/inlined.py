"""Python functions that the translator inlines at every call."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Mapping
from functools import cache
from textwrap import dedent
from types import FunctionType
from typing import Any

import attrs

KNOWN: tuple[type[ast.AST], ...] = (ast.Assign, ast.AugAssign, ast.Expr, ast.If, ast.For, ast.While)
KNOWN += (ast.Break, ast.Continue, ast.Pass, ast.Return, ast.Name, ast.Constant, ast.Attribute)
KNOWN += (ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.Subscript, ast.Call)
KNOWN += (
    ast.Tuple,
    ast.AnnAssign,
    ast.Starred,
    ast.Slice,
    ast.operator,
    ast.unaryop,
    ast.boolop,
    ast.cmpop,
    ast.expr_context,
)


@attrs.frozen(eq=False)
class Inlined:
    """The parameters and statements of a function, and its global and closure variables."""

    params: tuple[str, ...]
    body: tuple[ast.stmt, ...]
    names: Mapping[str, Any]


def inlinable(function: Any) -> Inlined | None:
    """Returns a function to be inlined; None if it must be called."""
    return (
        None
        if getattr(function, "py_func", function) in _never_inlined
        else parse_function(function)
    )


def parse_function(function: Any) -> Inlined | None:
    """Returns the statements of a function or of numba's dispatcher; None if one of them is not
    supported."""
    python = getattr(function, "py_func", function)
    return _inlined(python) if isinstance(python, FunctionType) else None


def never_inline(function: Any) -> None:
    """Marks a function to be called instead, because only numba can compile it."""
    _never_inlined.add(getattr(function, "py_func", function))


_never_inlined: set[Any] = set()


@cache
def _inlined(function: Callable[..., Any]) -> Inlined | None:
    try:
        (tree,) = ast.parse(dedent(inspect.getsource(function))).body
    except (OSError, SyntaxError, ValueError):
        return None
    if not isinstance(tree, ast.FunctionDef) or not _has_plain_parameters(tree.args):
        return None
    if not all(isinstance(node, KNOWN) for part in tree.body for node in ast.walk(part)):
        return None
    around = inspect.getclosurevars(function)
    names = {**function.__globals__, **around.nonlocals}
    return Inlined(tuple([a.arg for a in tree.args.args]), tuple(tree.body), names)


def _has_plain_parameters(args: ast.arguments) -> bool:
    others = (args.posonlyargs, args.kwonlyargs, args.defaults, args.vararg, args.kwarg)
    return not any(others)
