"""Scalar expressions: the values that op bodies return for symbolic elements.

A body is called once, with an `OperandElement` for each operand, a `LoopIndex` for each parameter
named like an index variable, and the plain values of attributes. The reference, the kernels and the
gradient derive from the returned tree:

    >>> from structir.projections.scalar_expr import OperandElement, exp
    >>> x = OperandElement("x")
    >>> 1 / (1 + exp(-x))
    div(1, add(1, exp(neg(x))))

`==` between two scalar expressions compares the trees; `eq(a, b)` and `ne(a, b)` compare their
values.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import attrs

from structir.ir.dims import Dim, Poly, Sym
from structir.ir.dims import text as dim_text

Scalar = int | float | bool


class ScalarExpr:
    """A scalar expression at one iteration point. Python operators build larger ones."""

    __slots__ = ()

    def __add__(self, other: Operandish) -> ScalarExpr:
        return add(self, other)

    def __radd__(self, other: Operandish) -> ScalarExpr:
        return add(other, self)

    def __sub__(self, other: Operandish) -> ScalarExpr:
        return sub(self, other)

    def __rsub__(self, other: Operandish) -> ScalarExpr:
        return sub(other, self)

    def __mul__(self, other: Operandish) -> ScalarExpr:
        return mul(self, other)

    def __rmul__(self, other: Operandish) -> ScalarExpr:
        return mul(other, self)

    def __truediv__(self, other: Operandish) -> ScalarExpr:
        return div(self, other)

    def __rtruediv__(self, other: Operandish) -> ScalarExpr:
        return div(other, self)

    def __floordiv__(self, other: Operandish) -> ScalarExpr:
        return floordiv(self, other)

    def __rfloordiv__(self, other: Operandish) -> ScalarExpr:
        return floordiv(other, self)

    def __mod__(self, other: Operandish) -> ScalarExpr:
        return mod(self, other)

    def __rmod__(self, other: Operandish) -> ScalarExpr:
        return mod(other, self)

    def __pow__(self, other: Operandish) -> ScalarExpr:
        return pow(self, other)

    def __rpow__(self, other: Operandish) -> ScalarExpr:
        return pow(other, self)

    def __lshift__(self, other: Operandish) -> ScalarExpr:
        return shl(self, other)

    def __rshift__(self, other: Operandish) -> ScalarExpr:
        return shr(self, other)

    def __and__(self, other: Operandish) -> ScalarExpr:
        return bitand(self, other)

    def __or__(self, other: Operandish) -> ScalarExpr:
        return bitor(self, other)

    def __xor__(self, other: Operandish) -> ScalarExpr:
        return bitxor(self, other)

    def __lt__(self, other: Operandish) -> ScalarExpr:
        return lt(self, other)

    def __le__(self, other: Operandish) -> ScalarExpr:
        return le(self, other)

    def __gt__(self, other: Operandish) -> ScalarExpr:
        return gt(self, other)

    def __ge__(self, other: Operandish) -> ScalarExpr:
        return ge(self, other)

    def __neg__(self) -> ScalarExpr:
        return neg(self)

    def __abs__(self) -> ScalarExpr:
        return abs(self)

    def __invert__(self) -> ScalarExpr:
        return bitnot(self)

    def __bool__(self) -> bool:
        raise TypeError(
            "a scalar expression has no truth value: use `select(condition, a, b)` instead of `if`"
        )


Operandish = ScalarExpr | Scalar | Dim


def _value_key(value: Scalar) -> tuple[type, str]:
    return type(value), repr(value)  # 1, 1.0 and True are three literals, and so are 0.0 and -0.0


@attrs.frozen(repr=False, order=False)
class OperandElement(ScalarExpr):
    """The element that a read loads."""

    name: str

    def __repr__(self) -> str:
        return self.name


@attrs.frozen(repr=False, order=False)
class LoopIndex(ScalarExpr):
    """The value of a loop index."""

    index_var: Sym

    def __repr__(self) -> str:
        return self.index_var.name


@attrs.frozen(repr=False, order=False)
class ScalarLiteral(ScalarExpr):
    """A literal; it takes the dtype of the other operand."""

    value: Scalar = attrs.field(eq=_value_key)

    def __repr__(self) -> str:
        return repr(self.value)


@attrs.frozen(repr=False, order=False)
class ScalarExtent(ScalarExpr):
    """A size of the program, as a value at run time."""

    dim: Dim

    def __repr__(self) -> str:
        return f"size({dim_text(self.dim)})"


@attrs.frozen(repr=False, order=False, cache_hash=True)
class ScalarOp(ScalarExpr):
    """A table function applied to scalar expressions; `dtype` is the target of a cast."""

    fn: str
    args: tuple[ScalarExpr, ...]
    dtype: str | None = None

    def __repr__(self) -> str:
        target = f", {self.dtype}" if self.dtype else ""
        return f"{self.fn}({', '.join(map(repr, self.args))}{target})"


def as_scalar_expr(value: Operandish) -> ScalarExpr:
    """Returns a number as a literal, a symbolic size as an extent, and a scalar expression
    unchanged.
    """
    if isinstance(value, ScalarExpr):
        return value
    if isinstance(value, Poly):
        return ScalarExtent(value)
    if isinstance(value, (bool, int, float)):
        return ScalarLiteral(value)
    if isinstance(value, numbers.Integral):
        return ScalarLiteral(int(value))
    if isinstance(value, numbers.Real):
        return ScalarLiteral(float(value))
    raise TypeError(f"expected a scalar expression or a number, found {type(value).__name__}")


Build = Callable[..., "ScalarExpr"]  # from scalar expressions and numbers to a scalar expression
Derivative = Callable[..., Any]  # from the arguments to a scalar expression; None if it is zero


@attrs.frozen
class ElementFunction:
    """One entry of the function table: an elementwise function.

    `numpy` is the name of the NumPy function, or of one in `projections.values`. `rule` is the
    dtype rule: promotion of all arguments (`same`; `quotient`, with booleans as floats), promotion
    to a float (`float`), bool (`compare`, `logic`, `test`), promotion of the second and third
    (`select`), or the requested dtype (`cast`). `slopes` holds the derivative by each argument, a
    function of all of them; an empty tuple means zero everywhere.
    """

    name: str
    numpy: str
    rule: str
    slopes: tuple[Derivative, ...] = ()


FUNCTIONS: dict[str, ElementFunction] = {}


def _elementwise(name: str, numpy: str, rule: str, *slopes: Derivative) -> Build:
    FUNCTIONS[name] = ElementFunction(name, numpy, rule, slopes)

    def build(*args: Operandish) -> ScalarExpr:
        return ScalarOp(name, tuple([as_scalar_expr(a) for a in args]))

    build.__name__ = build.__qualname__ = name
    build.__doc__ = f"`{name}` at one point."
    return build


def _zero(*_: ScalarExpr) -> None:
    return None


add: Build = _elementwise("add", "add", "same", lambda x, y: 1, lambda x, y: 1)
sub: Build = _elementwise("sub", "subtract", "same", lambda x, y: 1, lambda x, y: -1)
mul: Build = _elementwise("mul", "multiply", "same", lambda x, y: y, lambda x, y: x)
div: Build = _elementwise("div", "divide", "float", lambda x, y: 1 / y, lambda x, y: -x / (y * y))
quotient: Build = _elementwise(  # of integers, rounded toward zero
    "quotient", "quotient", "quotient", lambda x, y: 1 / y, lambda x, y: -x / (y * y)
)
floordiv: Build = _elementwise("floordiv", "floor_divide", "same")
mod: Build = _elementwise("mod", "mod", "same", lambda x, y: 1, lambda x, y: -floor(x / y))
pow: Build = _elementwise(
    "pow", "power", "same", lambda x, y: y * pow(x, y - 1), lambda x, y: pow(x, y) * log(x)
)
neg: Build = _elementwise("neg", "negative", "same", lambda x: -1)
abs: Build = _elementwise("abs", "absolute", "same", lambda x: sign(x))
sign: Build = _elementwise("sign", "sign", "same")
ceil: Build = _elementwise("ceil", "ceil", "same")
floor: Build = _elementwise("floor", "floor", "same")
round: Build = _elementwise("round", "rint", "same")
trunc: Build = _elementwise("trunc", "trunc", "same")
min: Build = _elementwise(
    "min",
    "minimum",
    "same",
    lambda x, y: _tie_share(x, y, x < y),
    lambda x, y: _tie_share(x, y, y < x),
)
max: Build = _elementwise(
    "max",
    "maximum",
    "same",
    lambda x, y: _tie_share(x, y, x > y),
    lambda x, y: _tie_share(x, y, y > x),
)
exp: Build = _elementwise("exp", "exp", "float", lambda x: exp(x))
expm1: Build = _elementwise("expm1", "expm1", "float", lambda x: exp(x))
log: Build = _elementwise("log", "log", "float", lambda x: 1 / x)
log1p: Build = _elementwise("log1p", "log1p", "float", lambda x: 1 / (1 + x))
sqrt: Build = _elementwise("sqrt", "sqrt", "float", lambda x: 0.5 / sqrt(x))
rsqrt: Build = _elementwise("rsqrt", "rsqrt", "float", lambda x: -0.5 * rsqrt(x) / x)
sin: Build = _elementwise("sin", "sin", "float", lambda x: cos(x))
cos: Build = _elementwise("cos", "cos", "float", lambda x: -sin(x))
tan: Build = _elementwise("tan", "tan", "float", lambda x: 1 + tan(x) * tan(x))
sinh: Build = _elementwise("sinh", "sinh", "float", lambda x: cosh(x))
cosh: Build = _elementwise("cosh", "cosh", "float", lambda x: sinh(x))
tanh: Build = _elementwise("tanh", "tanh", "float", lambda x: 1 - tanh(x) * tanh(x))
asin: Build = _elementwise("asin", "arcsin", "float", lambda x: rsqrt(1 - x * x))
acos: Build = _elementwise("acos", "arccos", "float", lambda x: -rsqrt(1 - x * x))
atan: Build = _elementwise("atan", "arctan", "float", lambda x: 1 / (1 + x * x))
asinh: Build = _elementwise("asinh", "arcsinh", "float", lambda x: rsqrt(x * x + 1))
acosh: Build = _elementwise("acosh", "arccosh", "float", lambda x: rsqrt(x * x - 1))
atanh: Build = _elementwise("atanh", "arctanh", "float", lambda x: 1 / (1 - x * x))
erf: Build = _elementwise("erf", "erf", "float", lambda x: 2 / math.sqrt(math.pi) * exp(-x * x))
sigmoid: Build = _elementwise(
    "sigmoid", "sigmoid", "float", lambda x: sigmoid(x) * (1 - sigmoid(x))
)
atan2: Build = _elementwise(
    "atan2", "arctan2", "float", lambda y, x: x / (x * x + y * y), lambda y, x: -y / (x * x + y * y)
)
lt: Build = _elementwise("lt", "less", "compare")
le: Build = _elementwise("le", "less_equal", "compare")
gt: Build = _elementwise("gt", "greater", "compare")
ge: Build = _elementwise("ge", "greater_equal", "compare")
eq: Build = _elementwise("eq", "equal", "compare")
ne: Build = _elementwise("ne", "not_equal", "compare")
and_: Build = _elementwise("and", "logical_and", "logic")
or_: Build = _elementwise("or", "logical_or", "logic")
xor: Build = _elementwise("xor", "logical_xor", "logic")
not_: Build = _elementwise("not", "logical_not", "logic")
bitand: Build = _elementwise("bitand", "bitwise_and", "same")
bitor: Build = _elementwise("bitor", "bitwise_or", "same")
bitxor: Build = _elementwise("bitxor", "bitwise_xor", "same")
bitnot: Build = _elementwise("bitnot", "bitwise_not", "same")
shl: Build = _elementwise("shl", "left_shift", "same")
shr: Build = _elementwise("shr", "right_shift", "same")
isnan: Build = _elementwise("isnan", "isnan", "test")
isinf: Build = _elementwise("isinf", "isinf", "test")
isfinite: Build = _elementwise("isfinite", "isfinite", "test")
_select: Build = _elementwise(
    "select",
    "where",
    "select",
    _zero,
    lambda c, x, y: select(c, 1, 0),
    lambda c, x, y: select(c, 0, 1),
)
_cast: Build = _elementwise("cast", "cast", "cast", lambda x: 1)

maximum, minimum, power = max, min, pow


def select(condition: ScalarExpr, then: Operandish, otherwise: Operandish) -> ScalarExpr:
    """Returns `then` where the condition holds, `otherwise` elsewhere."""
    if isinstance(condition, bool):
        raise TypeError(
            "select: expected a scalar expression as condition, found a bool; "
            "compare values with `eq(a, b)` or `ne(a, b)`"
        )
    return _select(condition, then, otherwise)


def cast(value: Operandish, dtype: str) -> ScalarExpr:
    """Returns the value cast to a dtype."""
    return ScalarOp("cast", (as_scalar_expr(value),), dtype)


def _tie_share(x: ScalarExpr, y: ScalarExpr, first: ScalarExpr) -> ScalarExpr:
    """Returns the derivative of a minimum or maximum: 1 where the condition holds, 1/2 at a tie."""
    return select(first, 1, select(eq(x, y), 0.5, 0))


def walk(expr: ScalarExpr) -> Iterator[ScalarExpr]:
    """Yields the nodes of a tree in preorder."""
    worklist = [expr]
    while worklist:
        node = worklist.pop()
        yield node
        if isinstance(node, ScalarOp):
            worklist += reversed(node.args)


def operands_of(expr: ScalarExpr) -> frozenset[str]:
    """Returns the names of the reads that a value depends on."""
    return frozenset(n.name for n in walk(expr) if isinstance(n, OperandElement))


def substitute(expr: ScalarExpr, replacements: Mapping[ScalarExpr, ScalarExpr]) -> ScalarExpr:
    """Returns the tree with some nodes replaced."""
    replacement = replacements.get(expr)
    if replacement is not None:
        return replacement
    if not isinstance(expr, ScalarOp):
        return expr
    args = tuple([substitute(a, replacements) for a in expr.args])
    return expr if args == expr.args else ScalarOp(expr.fn, args, expr.dtype)
