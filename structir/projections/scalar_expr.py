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

import numbers
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

import attrs

from structir.errors import Diagnostic, TruthValueError, caller_span
from structir.ir.dims import Dim, Poly, Sym
from structir.ir.dims import text as dim_text
from structir.ir.scalar_functions import FunctionTable, ScalarFunction

Scalar = int | float | bool
T = TypeVar("T")


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
        return ScalarOp("pow", (self, as_scalar_expr(other)))

    def __rpow__(self, other: Operandish) -> ScalarExpr:
        return ScalarOp("pow", (as_scalar_expr(other), self))

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
        message = "a scalar expression has no truth value: expected `select`, found a condition"
        hint = "write `select(condition, a, b)` instead of `if`, and `&` instead of `and`"
        raise TruthValueError(Diagnostic(message, caller_span(), hint=hint))


Operandish = ScalarExpr | Scalar | Dim


def _value_key(value: Scalar) -> tuple[type, Scalar | str]:
    # 1, 1.0 and True are three literals, and so are 0.0 and -0.0; a NaN is one.
    return type(value), value if value and value == value else repr(value)


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


@attrs.frozen(repr=False, order=False, cache_hash=True)
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
_operators: dict[str, ScalarFunction] = {}
FUNCTIONS = FunctionTable(_operators, lambda function: function.rule)


def _builder(name: str) -> Build:
    def build(*args: Operandish) -> ScalarExpr:
        return ScalarOp(name, tuple([as_scalar_expr(a) for a in args]))

    build.__name__ = build.__qualname__ = name
    build.__doc__ = f"`{name}` at one point."
    return build


def _elementwise(name: str, numpy: str, rule: str, *slopes: Callable[..., Any]) -> Build:
    _operators[name] = ScalarFunction(name, numpy=numpy, rule=rule, slopes=slopes, cost=1)
    return _builder(name)


def __getattr__(name: str) -> Build:
    """Returns the builder of a declared function: `scalar_expr.exp`."""
    if name.startswith("__") or name not in FUNCTIONS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _builder(name)


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

maximum, minimum = max, min


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


def distinct_nodes(expr: ScalarExpr) -> list[ScalarExpr]:
    """Returns the nodes of a tree in preorder, each object once: derivatives share subtrees, and
    have many times as many paths as nodes."""
    nodes: dict[int, ScalarExpr] = {}
    worklist = [expr]
    while worklist:
        node = worklist.pop()
        if id(node) not in nodes:
            nodes[id(node)] = node
            if isinstance(node, ScalarOp):
                worklist += reversed(node.args)
    return list(nodes.values())


def operands_of(expr: ScalarExpr) -> frozenset[str]:
    """Returns the names of the reads that a value depends on."""
    return frozenset([n.name for n in distinct_nodes(expr) if isinstance(n, OperandElement)])


def substitute(expr: ScalarExpr, replacements: Mapping[ScalarExpr, ScalarExpr]) -> ScalarExpr:
    """Returns the tree with some nodes replaced; what it shares stays shared."""
    replaced: dict[int, ScalarExpr] = {}

    def change(node: ScalarExpr) -> ScalarExpr:
        new = replaced.get(id(node))
        if new is None:
            new = replacements.get(node)
            new = replaced[id(node)] = changed_args(node) if new is None else new
        return new

    def changed_args(node: ScalarExpr) -> ScalarExpr:
        if not isinstance(node, ScalarOp):
            return node
        args = tuple([change(arg) for arg in node.args])
        same = all(new is old for new, old in zip(args, node.args, strict=True))
        return node if same else ScalarOp(node.fn, args, node.dtype)

    return change(expr)


def fold(
    expr: ScalarExpr,
    operands: Mapping[str, T],
    literal: Callable[[float], T],
    apply: Callable[[str, list[T]], T],
) -> T:
    """Returns the value of a tree of floats by functions on its literals and its applications."""
    match expr:
        case OperandElement(name):
            return operands[name]
        case ScalarLiteral(value):
            return literal(float(value))
        case ScalarOp(fn, args):
            return apply(fn, [fold(a, operands, literal, apply) for a in args])
    raise TypeError(f"expected operands, numbers and functions, found {expr!r}")
