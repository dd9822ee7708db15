"""Symbolic sizes of JAX's shape polymorphism (`jax.export.symbolic_shape`) as dims."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable
from typing import Any

from structir.errors import Diagnostic, DiagnosticError
from structir.ir import dims
from structir.ir.dims import Dim


class JaxSizes:
    """The symbolic dims of a function, by JAX's names."""

    def __init__(self) -> None:
        self.by_name: dict[str, Dim] = {}

    def dim(self, size: Any) -> Dim:
        """Returns a size of JAX: an integer, or an expression that JAX prints as Python."""
        if isinstance(size, int):
            return int(size)
        if hasattr(size, "__index__") and not hasattr(size, "scope"):
            return int(size)
        text = str(size).replace("^", "**")
        try:
            return self._value(ast.parse(text, mode="eval").body)
        except (SyntaxError, KeyError, TypeError, ValueError) as error:
            message = f"cannot read the size {size} of JAX"
            raise DiagnosticError(Diagnostic(message, code="E0808")) from error

    def _value(self, tree: ast.expr) -> Dim:
        match tree:
            case ast.Constant(value=int(value)):
                return value
            case ast.Name(id=name):
                return self.by_name.setdefault(name, dims.sym(name))
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -self._value(operand)
            case ast.BinOp(left=left, op=ast.Pow(), right=ast.Constant(value=int(power))):
                return math.prod([self._value(left)] * power)
            case ast.BinOp(left=left, op=op, right=right):
                return OPERATORS[type(op)](self._value(left), self._value(right))
            case ast.Call(func=ast.Name(id=name), args=args):
                return FUNCTIONS[name](*[self._value(a) for a in args])
        raise ValueError(ast.unparse(tree))


OPERATORS: dict[type, Callable[[Dim, Dim], Dim]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
}
FUNCTIONS: dict[str, Callable[..., Dim]] = {
    "floordiv": dims.floordiv,
    "mod": dims.floormod,
    "max": dims.dim_max,
    "min": dims.dim_min,
}
