"""Python functions that the translator inlines at every call."""

from __future__ import annotations

import ast
import linecache
from collections import ChainMap, Counter
from collections.abc import Mapping
from functools import cache
from types import FunctionType
from typing import Any

import attrs


@attrs.frozen(eq=False)
class Inlined:
    """The parameters and statements of a function, its global and captured variables, the number
    of assignments of each local one, and whether it returns a value."""

    params: tuple[str, ...]
    body: tuple[ast.stmt, ...]
    names: Mapping[str, Any]
    assigned: Mapping[str, int]
    has_result: bool

    @property
    def is_expression(self) -> bool:
        """Whether it only returns an expression."""
        return len(self.body) == 1 and isinstance(self.body[0], ast.Return)


def inlined(tree: ast.FunctionDef, names: Mapping[str, Any]) -> Inlined:
    """Returns a function by its syntax tree, without its docstring."""
    params = tuple([a.arg for a in tree.args.args])
    body = tree.body[1:] if ast.get_docstring(tree, clean=False) is not None else tree.body
    nodes = [n for statement in body for n in ast.walk(statement)]
    stored = [n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
    has_result = any(isinstance(n, ast.Return) and n.value is not None for n in nodes)
    return Inlined(params, tuple(body), names, Counter((*params, *stored)), has_result)


def parse_function(function: Any) -> Inlined | None:
    """Returns the statements of a function or of numba's dispatcher; None if it is no such
    function, or its parameters have defaults."""
    python = getattr(function, "py_func", function)
    return _inlined(python) if isinstance(python, FunctionType) else None


@cache
def _inlined(function: FunctionType) -> Inlined | None:
    code = function.__code__
    linecache.checkcache(code.co_filename)
    source = "".join(linecache.getlines(code.co_filename, function.__globals__))
    tree = _functions_of(source).get(code.co_firstlineno)
    if tree is None or not _has_plain_parameters(tree.args):
        return None
    cells = zip(code.co_freevars, function.__closure__ or (), strict=True)
    captured = {name: cell.cell_contents for name, cell in cells}
    return inlined(tree, ChainMap(captured, function.__globals__))


@cache
def _functions_of(source: str) -> Mapping[int, ast.FunctionDef]:
    """Returns the functions in a file by their first lines."""
    try:
        statements = _statements(ast.parse(source))
    except (SyntaxError, ValueError):
        return {}
    functions = [n for n in statements if isinstance(n, ast.FunctionDef)]
    return {min([n.lineno, *[d.lineno for d in n.decorator_list]]): n for n in functions}


def _statements(node: ast.AST) -> list[ast.stmt]:
    """Returns the statements in a node, with those in them."""
    nested = [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.stmt)]
    return [*nested, *[inner for child in nested for inner in _statements(child)]]


def _has_plain_parameters(args: ast.arguments) -> bool:
    others = (args.posonlyargs, args.kwonlyargs, args.defaults, args.vararg, args.kwarg)
    return not any(others)
