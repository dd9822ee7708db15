"""Translates scalar expressions of `@T.prim_func` to those of `@I.kernel`."""

from __future__ import annotations

import ast
import copy
import math
from collections.abc import Callable, Iterable, Mapping

from structir.ir.dtype import DTYPES, is_float, is_int
from structir.printer.parser.sizes import SIZE_FUNCTIONS
from structir.printer.parser.values import path_of

MAX_REPEATED = 500  # nodes of an expression
BINARY: dict[str, ast.operator] = {
    "floordiv": ast.FloorDiv(),
    "floormod": ast.Mod(),
    "pow": ast.Pow(),
    "power": ast.Pow(),
    "shift_left": ast.LShift(),
    "shift_right": ast.RShift(),
    "bitwise_and": ast.BitAnd(),
    "bitwise_or": ast.BitOr(),
    "bitwise_xor": ast.BitXor(),
    "Add": ast.Add(),
    "Sub": ast.Sub(),
    "Mul": ast.Mult(),
    "FloorDiv": ast.FloorDiv(),
    "FloorMod": ast.Mod(),
}
COMPARISONS: dict[str, ast.cmpop] = {
    "LT": ast.Lt(),
    "LE": ast.LtE(),
    "GT": ast.Gt(),
    "GE": ast.GtE(),
    "EQ": ast.Eq(),
    "NE": ast.NotEq(),
}
TOWARD_ZERO = {"truncdiv": "//", "Div": "//", "truncmod": "%", "Mod": "%"}
PYTHON_NAMES = {"max": "max", "min": "min", "Max": "max", "Min": "min", "abs": "abs", "fabs": "abs"}
LARGEST = {  # of floats
    "float16": 65504.0,
    "bfloat16": 3.3895313892515355e38,
    "float32": 3.4028234663852886e38,
    "float64": 1.7976931348623157e308,
}


class TooLargeError(Exception):
    """An operand that would be written several times is too large."""


class UnknownDtypeError(Exception):
    """A dtype that kernels do not have; the argument is its text."""


class ScalarTranslation(ast.NodeTransformer):
    """Rewrites scalar functions of TIR as those of kernels."""

    def __init__(
        self, axes: Mapping[str, ast.expr], dims: Iterable[str] = (), of_sizes: bool = False
    ) -> None:
        self.axes, self.dims = axes, dims
        self.unchanged = SIZE_FUNCTIONS if of_sizes else {}  # sizes have `T.max` and `T.min`

    def visit_Name(self, node: ast.Name) -> ast.expr:
        value = self.axes.get(node.id)
        return node if value is None else copy.deepcopy(value)

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        return ast.Subscript(node.value, self.visit(node.slice), node.ctx)

    def visit_Call(self, node: ast.Call) -> ast.expr:
        path = path_of(node.func) or ""
        if not path.startswith("T."):
            return self.generic_visit(node)  # type: ignore[return-value]
        name, args = path.removeprefix("T."), [self.visit(arg) for arg in node.args]
        if name in self.unchanged and name not in DTYPES:
            return ast.Call(node.func, args, [])
        if name in TOWARD_ZERO and len(args) == 2:
            return _toward_zero(TOWARD_ZERO[name], args, self._is_positive(args[1]))
        rewrite = _REWRITES.get(name)
        if rewrite is not None:
            return rewrite(args)
        if name in DTYPES and len(args) == 1:
            return _converted(name, args[0])
        if name in BINARY and len(args) == 2:
            return ast.BinOp(args[0], BINARY[name], args[1])
        if name in COMPARISONS and len(args) == 2:
            return ast.Compare(args[0], [COMPARISONS[name]], [args[1]])
        if name in PYTHON_NAMES:
            return ast.Call(ast.Name(PYTHON_NAMES[name], ast.Load()), args, [])
        return ast.Call(node.func, args, [])

    def _is_positive(self, node: ast.expr) -> bool:
        """Whether an operand is a positive number, or the product of such and of sizes."""
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult | ast.Add):
            return self._is_positive(node.left) and self._is_positive(node.right)
        if isinstance(node, ast.Name):
            return node.id in self.dims
        return isinstance(node, ast.Constant) and type(node.value) is int and node.value > 0


def _converted(dtype: str, value: ast.expr) -> ast.expr:
    """Returns a number in a dtype: a literal takes the dtype of the other operand."""
    if dtype not in DTYPES:
        raise UnknownDtypeError(dtype)
    sign = value.operand if isinstance(value, ast.UnaryOp) else value
    if isinstance(sign, ast.Constant) and type(sign.value) in (int, float):
        number = ast.literal_eval(value)
        literal = ast.Constant(float(number) if is_float(dtype) else number)
        return literal if number >= 0 else ast.UnaryOp(ast.USub(), _absolute(literal))
    if isinstance(value, ast.Call) and path_of(value.func) == "float":
        return value
    computed = {"float16": "float32", "bfloat16": "float32"}.get(dtype, dtype)
    if isinstance(sign, ast.Constant) and isinstance(sign.value, str):  # T.float32("inf")
        return ast.Call(ast.Name("float", ast.Load()), [sign], [])
    return ast.Call(ast.parse(f"T.{computed}", mode="eval").body, [value], [])


def _dtype(node: ast.expr) -> str:
    """Returns the name of a dtype; raises UnknownDtypeError for others."""
    dtype = getattr(node, "value", None)
    if dtype not in DTYPES:
        raise UnknownDtypeError(ast.unparse(node) if dtype is None else dtype)
    return str(dtype)


def _absolute(literal: ast.Constant) -> ast.Constant:
    return ast.Constant(-literal.value)  # type: ignore[operator]


def _choice(args: list[ast.expr]) -> ast.expr:
    condition, then, otherwise = args
    return ast.IfExp(condition, then, otherwise)


def _toward_zero(symbol: str, args: list[ast.expr], is_positive: bool) -> ast.expr:
    """Returns a division or remainder that is rounded toward zero.

    A quotient has the signs of both operands, a remainder that of the dividend.
    """
    by_positive = f"a {symbol} b if a >= 0 else -((-a) {symbol} b)"
    if is_positive:
        return _from(by_positive, args)
    if symbol == "%":
        return _from("abs(a) % abs(b) if a >= 0 else -(abs(a) % abs(b))", args)
    by_negative = "-(a // (-b)) if a >= 0 else (-a) // (-b)"
    return _from(f"({by_positive}) if b > 0 else ({by_negative})", args)


def _limit(sign: int) -> Callable[[list[ast.expr]], ast.expr]:
    def rewrite(args: list[ast.expr]) -> ast.expr:
        dtype = _dtype(args[0])
        if is_float(dtype) and dtype in LARGEST:
            largest: float = LARGEST[dtype]
        elif not is_int(dtype):
            raise UnknownDtypeError(dtype)
        else:
            bits = int(dtype.lstrip("uint") or 64)
            unsigned = dtype.startswith("u")
            largest = (1 << (bits - (not unsigned))) - 1
            if sign < 0:
                return _converted("int64", ast.Constant(0 if unsigned else -largest - 1))
        literal = ast.Constant(largest)
        return literal if sign > 0 else ast.UnaryOp(ast.USub(), literal)

    return rewrite


def _function(name: str, args: list[ast.expr]) -> ast.expr:
    return ast.Call(ast.parse(f"T.{name}", mode="eval").body, args, [])


def _logarithm(base: float) -> Callable[[list[ast.expr]], ast.expr]:
    scale = ast.Constant(1 / math.log(base))
    return lambda args: ast.BinOp(_function("log", args), ast.Mult(), scale)


def _from(formula: str, args: list[ast.expr]) -> ast.expr:
    """Returns an expression over `a`, `b` and `c` with these operands, which may occur twice."""
    if sum(1 for arg in args for _ in ast.walk(arg)) > MAX_REPEATED:
        raise TooLargeError
    names = dict(zip("abc", args, strict=False))
    expression: ast.expr = _Operands(names).visit(ast.parse(formula, mode="eval").body)
    return expression


class _Operands(ast.NodeTransformer):
    """Replaces the names of a formula by operands."""

    def __init__(self, operands: Mapping[str, ast.expr]) -> None:
        self.operands = operands

    def visit_Name(self, node: ast.Name) -> ast.expr:
        operand = self.operands.get(node.id)
        return node if operand is None else copy.deepcopy(operand)


_REWRITES: dict[str, Callable[[list[ast.expr]], ast.expr]] = {
    "if_then_else": _choice,
    "Select": _choice,
    "And": lambda args: ast.BoolOp(ast.And(), args),
    "Or": lambda args: ast.BoolOp(ast.Or(), args),
    "Not": lambda args: ast.UnaryOp(ast.Not(), args[0]),
    "likely": lambda args: args[0],
    "Cast": lambda args: _converted(_dtype(args[0]), args[1]),
    "cast": lambda args: _converted(_dtype(args[1]), args[0]),
    "FloatImm": lambda args: _converted(_dtype(args[0]), args[1]),
    "IntImm": lambda args: args[1],
    "max_value": _limit(1),
    "min_value": _limit(-1),
    "exp2": lambda args: ast.BinOp(ast.Constant(2.0), ast.Pow(), args[0]),
    "exp10": lambda args: ast.BinOp(ast.Constant(10.0), ast.Pow(), args[0]),
    "log2": _logarithm(2.0),
    "log10": _logarithm(10.0),
    "nearbyint": lambda args: _function("round", args),
    "fma": lambda args: _from("a * b + c", args),
    "ceildiv": lambda args: _from("-((-a) // b)", args),
    "hypot": lambda args: _from("T.sqrt(a * a + b * b)", args),
    "fmod": lambda args: _from("a - T.trunc(a / b) * b", args),
    "copysign": lambda args: _from("-abs(a) if b < 0.0 else abs(a)", args),
    "bitwise_not": lambda args: ast.UnaryOp(ast.Invert(), args[0]),
    "meta_var": lambda args: args[0],
    "infinity": lambda args: ast.parse("float('inf')", mode="eval").body,
    "nan": lambda args: ast.parse("float('nan')", mode="eval").body,
}
