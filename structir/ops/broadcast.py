"""Element-wise ops of several operands, which broadcast."""

from __future__ import annotations

from structir.opdef.define import op
from structir.projections import scalar_expr
from structir.projections.scalar_expr import ScalarExpr, quotient, select

ARITHMETIC = "x[~s], y[~s] -> z[~s]"
INTEGRAL = "x[~s] @ J, y[~s] @ J -> z[~s] @ J"
TRUTH = "x[~s] @ B, y[~s] @ B -> z[~s] @ B"
COMPARISON = "x[~s] @ T1, y[~s] @ T2 -> z[~s] @ bool"


@op(ARITHMETIC, operator="+")
def add(x: ScalarExpr, y: ScalarExpr) -> ScalarExpr:
    """The sum."""
    return x + y


@op(ARITHMETIC, operator="-")
def subtract(x: ScalarExpr, y: ScalarExpr) -> ScalarExpr:
    """The difference."""
    return x - y


@op(ARITHMETIC, operator="*")
def multiply(x: ScalarExpr, y: ScalarExpr) -> ScalarExpr:
    """The product."""
    return x * y


@op(ARITHMETIC, operator="/")
def divide(x: ScalarExpr, y: ScalarExpr) -> ScalarExpr:
    """The quotient; of integers, rounded toward zero, and 0 where the divisor is 0."""
    return quotient(x, y)


@op(ARITHMETIC, operator="//")
def floor_divide(x: ScalarExpr, y: ScalarExpr) -> ScalarExpr:
    """The quotient, rounded toward minus infinity."""
    return x // y


@op(ARITHMETIC, operator="%")
def mod(x: ScalarExpr, y: ScalarExpr) -> ScalarExpr:
    """The remainder of the floor division."""
    return x % y


@op(ARITHMETIC)
def floor_mod(x: ScalarExpr, y: ScalarExpr) -> ScalarExpr:
    """The remainder of the floor division."""
    return x % y


@op(ARITHMETIC, operator="**")
def power(x: ScalarExpr, y: ScalarExpr) -> ScalarExpr:
    """`x` to the power `y`."""
    return x**y


@op(ARITHMETIC)
def maximum(x: ScalarExpr, y: ScalarExpr) -> ScalarExpr:
    """The greater of two elements."""
    return scalar_expr.max(x, y)


@op(ARITHMETIC)
def minimum(x: ScalarExpr, y: ScalarExpr) -> ScalarExpr:
    """The lesser of two elements."""
    return scalar_expr.min(x, y)


@op(ARITHMETIC)
def atan2(x: ScalarExpr, y: ScalarExpr) -> ScalarExpr:
    """The angle of the point with ordinate `x` and abscissa `y`."""
    return scalar_expr.atan2(x, y)


@op(ARITHMETIC)
def log_add_exp(x: ScalarExpr, y: ScalarExpr) -> ScalarExpr:
    """log(exp(x) + exp(y)), without overflow."""
    return scalar_expr.max(x, y) + scalar_expr.log1p(scalar_expr.exp(-scalar_expr.abs(x - y)))


@op(INTEGRAL)
def bitwise_and(x: ScalarExpr, y: ScalarExpr) -> ScalarExpr:
    """The bits that both have."""
    return x & y


@op(INTEGRAL)
def bitwise_or(x: ScalarExpr, y: ScalarExpr) -> ScalarExpr:
    """The bits that either has."""
    return x | y


@op(INTEGRAL)
def bitwise_xor(x: ScalarExpr, y: ScalarExpr) -> ScalarExpr:
    """The bits that one of the two has."""
    return x ^ y


@op(INTEGRAL)
def left_shift(x: ScalarExpr, y: ScalarExpr) -> ScalarExpr:
    """`x` with its bits moved up by `y`; 0 where `y` is no place of a bit in it."""
    return x << y


@op(INTEGRAL)
def right_shift(x: ScalarExpr, y: ScalarExpr) -> ScalarExpr:
    """`x` with its bits moved down by `y`; 0 or -1, its sign, where `y` is no place of a bit."""
    return x >> y


@op(TRUTH)
def logical_and(x: ScalarExpr, y: ScalarExpr) -> ScalarExpr:
    """Whether both are true."""
    return scalar_expr.and_(x, y)


@op(TRUTH)
def logical_or(x: ScalarExpr, y: ScalarExpr) -> ScalarExpr:
    """Whether either is true."""
    return scalar_expr.or_(x, y)


@op(TRUTH)
def logical_xor(x: ScalarExpr, y: ScalarExpr) -> ScalarExpr:
    """Whether exactly one is true."""
    return scalar_expr.xor(x, y)


@op(COMPARISON, operator="==")
def equal(x: ScalarExpr, y: ScalarExpr) -> ScalarExpr:
    """Whether the two are equal."""
    return scalar_expr.eq(x, y)


@op(COMPARISON, operator="!=")
def not_equal(x: ScalarExpr, y: ScalarExpr) -> ScalarExpr:
    """Whether the two differ."""
    return scalar_expr.ne(x, y)


@op(COMPARISON, operator="<")
def less(x: ScalarExpr, y: ScalarExpr) -> ScalarExpr:
    """Whether `x` is less."""
    return x < y


@op(COMPARISON, operator="<=")
def less_equal(x: ScalarExpr, y: ScalarExpr) -> ScalarExpr:
    """Whether `x` is no greater."""
    return x <= y


@op(COMPARISON, operator=">")
def greater(x: ScalarExpr, y: ScalarExpr) -> ScalarExpr:
    """Whether `x` is greater."""
    return x > y


@op(COMPARISON, operator=">=")
def greater_equal(x: ScalarExpr, y: ScalarExpr) -> ScalarExpr:
    """Whether `x` is no less."""
    return x >= y


@op("cond[~s] @ bool, x[~s], y[~s] -> z[~s]", name="where")
def where(cond: ScalarExpr, x: ScalarExpr, y: ScalarExpr) -> ScalarExpr:
    """`x` where the condition holds, `y` elsewhere."""
    return select(cond, x, y)


@op("x[*s], y[*s], z[*s] -> out[*s]")
def ewise_fma(x: ScalarExpr, y: ScalarExpr, z: ScalarExpr) -> ScalarExpr:
    """x * y + z of equal shapes."""
    return x * y + z
