"""Elementwise ops of several operands, with broadcasting."""

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
    """Computes x + y."""
    return x + y


@op(ARITHMETIC, operator="-")
def subtract(x: ScalarExpr, y: ScalarExpr) -> ScalarExpr:
    """Computes x - y."""
    return x - y


@op(ARITHMETIC, operator="*")
def multiply(x: ScalarExpr, y: ScalarExpr) -> ScalarExpr:
    """Computes x * y."""
    return x * y


@op(ARITHMETIC, operator="/")
def divide(x: ScalarExpr, y: ScalarExpr) -> ScalarExpr:
    """Computes x / y.

    Integer division rounds toward zero; division by 0 gives 0.
    """
    return quotient(x, y)


@op(ARITHMETIC, operator="//")
def floor_divide(x: ScalarExpr, y: ScalarExpr) -> ScalarExpr:
    """Computes x / y, rounded toward negative infinity."""
    return x // y


@op(ARITHMETIC)
def mod(x: ScalarExpr, y: ScalarExpr) -> ScalarExpr:
    """Computes the remainder of division rounded toward zero; it has the sign of x.

    This is `R.mod` of TVM and `fmod` of C. `x % y` is `R.floor_mod`.
    """
    size = scalar_expr.abs(y)
    remainder = x % select(x < 0, -size, size)
    # the least integer is its own absolute value
    return select(size < 0, select(x < 0, remainder, x), remainder)


@op(ARITHMETIC, operator="%")
def floor_mod(x: ScalarExpr, y: ScalarExpr) -> ScalarExpr:
    """Computes the remainder of floor division; it has the sign of y."""
    return x % y


@op(ARITHMETIC, operator="**")
def power(x: ScalarExpr, y: ScalarExpr) -> ScalarExpr:
    """Computes x to the power y."""
    return x**y


@op(ARITHMETIC)
def maximum(x: ScalarExpr, y: ScalarExpr) -> ScalarExpr:
    """Computes the elementwise maximum."""
    return scalar_expr.max(x, y)


@op(ARITHMETIC)
def minimum(x: ScalarExpr, y: ScalarExpr) -> ScalarExpr:
    """Computes the elementwise minimum."""
    return scalar_expr.min(x, y)


@op(ARITHMETIC)
def atan2(x: ScalarExpr, y: ScalarExpr) -> ScalarExpr:
    """Computes the angle of the point with ordinate x and abscissa y."""
    return scalar_expr.atan2(x, y)


@op(ARITHMETIC)
def log_add_exp(x: ScalarExpr, y: ScalarExpr) -> ScalarExpr:
    """Computes log(exp(x) + exp(y)) without overflow."""
    # the difference of equal infinities would be NaN
    difference = scalar_expr.select(scalar_expr.eq(x, y), 0, x - y)
    return scalar_expr.max(x, y) + scalar_expr.log1p(scalar_expr.exp(-scalar_expr.abs(difference)))


@op(INTEGRAL, operator="&")
def bitwise_and(x: ScalarExpr, y: ScalarExpr) -> ScalarExpr:
    """Computes the bitwise AND."""
    return x & y


@op(INTEGRAL, operator="|")
def bitwise_or(x: ScalarExpr, y: ScalarExpr) -> ScalarExpr:
    """Computes the bitwise OR."""
    return x | y


@op(INTEGRAL, operator="^")
def bitwise_xor(x: ScalarExpr, y: ScalarExpr) -> ScalarExpr:
    """Computes the bitwise XOR."""
    return x ^ y


@op(INTEGRAL, operator="<<")
def left_shift(x: ScalarExpr, y: ScalarExpr) -> ScalarExpr:
    """Shifts the bits of x left by y; gives 0 where y is not a valid bit position."""
    return x << y


@op(INTEGRAL, operator=">>")
def right_shift(x: ScalarExpr, y: ScalarExpr) -> ScalarExpr:
    """Shifts the bits of x right by y; gives the sign bit where y is not a valid position."""
    return x >> y


@op(TRUTH)
def logical_and(x: ScalarExpr, y: ScalarExpr) -> ScalarExpr:
    """Computes the logical AND."""
    return scalar_expr.and_(x, y)


@op(TRUTH)
def logical_or(x: ScalarExpr, y: ScalarExpr) -> ScalarExpr:
    """Computes the logical OR."""
    return scalar_expr.or_(x, y)


@op(TRUTH)
def logical_xor(x: ScalarExpr, y: ScalarExpr) -> ScalarExpr:
    """Computes the logical XOR."""
    return scalar_expr.xor(x, y)


@op(COMPARISON, operator="==")
def equal(x: ScalarExpr, y: ScalarExpr) -> ScalarExpr:
    """Computes x == y."""
    return scalar_expr.eq(x, y)


@op(COMPARISON, operator="!=")
def not_equal(x: ScalarExpr, y: ScalarExpr) -> ScalarExpr:
    """Computes x != y."""
    return scalar_expr.ne(x, y)


@op(COMPARISON, operator="<")
def less(x: ScalarExpr, y: ScalarExpr) -> ScalarExpr:
    """Computes x < y."""
    return x < y


@op(COMPARISON, operator="<=")
def less_equal(x: ScalarExpr, y: ScalarExpr) -> ScalarExpr:
    """Computes x <= y."""
    return x <= y


@op(COMPARISON, operator=">")
def greater(x: ScalarExpr, y: ScalarExpr) -> ScalarExpr:
    """Computes x > y."""
    return x > y


@op(COMPARISON, operator=">=")
def greater_equal(x: ScalarExpr, y: ScalarExpr) -> ScalarExpr:
    """Computes x >= y."""
    return x >= y


@op("cond[~s] @ bool, x[~s], y[~s] -> z[~s]", name="where")
def where(cond: ScalarExpr, x: ScalarExpr, y: ScalarExpr) -> ScalarExpr:
    """Selects x where the condition is true, and y elsewhere."""
    return select(cond, x, y)


@op("x[*s], y[*s], z[*s] -> out[*s]")
def ewise_fma(x: ScalarExpr, y: ScalarExpr, z: ScalarExpr) -> ScalarExpr:
    """Computes x * y + z for equal shapes."""
    return x * y + z
