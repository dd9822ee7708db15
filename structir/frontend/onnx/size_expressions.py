"""Sizes that `dim_param` states as expressions of other sizes: `k + 1`, `2*n`, `past + length`."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable
from typing import Any, Protocol

from structir.ir import dims
from structir.ir.dims import Dim, sym

OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Dim]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: dims.floordiv,
}
FUNCTIONS: dict[str, Callable[[Any, Any], Dim]] = {
    "max": dims.dim_max,
    "Max": dims.dim_max,
    "min": dims.dim_min,
    "Min": dims.dim_min,
}
HYPHENATED = re.compile(r"[A-Za-z_]\w*-[A-Za-z_]")  # one name to its author, such as `seq-len`
MAX_LENGTH = 200  # characters


class SizeScope(Protocol):
    """The sizes by name that an expression may refer to."""

    by_name: dict[str, Dim]
    declared: frozenset[str]


def expression_of(text: str, scope: SizeScope) -> Dim | None:
    """Returns the value of an expression of declared sizes; None if the text is a name."""
    if text.isidentifier() or len(text) > MAX_LENGTH or HYPHENATED.search(text):
        return None
    try:
        value = _evaluate(ast.parse(text.strip(), mode="eval").body, scope)
    except (SyntaxError, ValueError, ArithmeticError, RecursionError, MemoryError, LookupError):
        return None
    return None if isinstance(value, int) and value < 0 else value


def _evaluate(tree: ast.expr, scope: SizeScope) -> Dim:
    """Returns the size; raises LookupError for a name that is undeclared, or another form."""
    match tree:
        case ast.Constant(value=int() as number) if not isinstance(number, bool):
            return number
        case ast.Name(id=name) if name in scope.declared:
            return scope.by_name.setdefault(name, sym(name))
        case ast.BinOp(left=left, op=op, right=right):
            return OPERATORS[type(op)](_evaluate(left, scope), _evaluate(right, scope))
        case ast.Call(func=ast.Name(id=name), args=[left, right], keywords=[]):
            return FUNCTIONS[name](_evaluate(left, scope), _evaluate(right, scope))
    raise LookupError(ast.dump(tree))
