"""Element-wise ops of several operands, which broadcast."""

from __future__ import annotations

from structir.ops.define import op
from structir.projections import point
from structir.projections.point import Point, quotient, select

ARITHMETIC = "x[~s], y[~s] -> z[~s]"
INTEGRAL = "x[~s] @ J, y[~s] @ J -> z[~s] @ J"
TRUTH = "x[~s] @ B, y[~s] @ B -> z[~s] @ B"
COMPARISON = "x[~s] @ T1, y[~s] @ T2 -> z[~s] @ bool"


@op(ARITHMETIC, operator="+")
def add(x: Point, y: Point) -> Point:
    """The sum."""
    return x + y


@op(ARITHMETIC, operator="-")
def subtract(x: Point, y: Point) -> Point:
    """The difference."""
    return x - y


@op(ARITHMETIC, operator="*")
def multiply(x: Point, y: Point) -> Point:
    """The product."""
    return x * y


@op(ARITHMETIC, operator="/")
def divide(x: Point, y: Point) -> Point:
    """The quotient; of integers, rounded toward zero, and 0 where the divisor is 0."""
    return quotient(x, y)


@op(ARITHMETIC, operator="//")
def floor_divide(x: Point, y: Point) -> Point:
    """The quotient, rounded toward minus infinity."""
    return x // y


@op(ARITHMETIC, operator="%")
def mod(x: Point, y: Point) -> Point:
    """The remainder of the floor division."""
    return x % y


@op(ARITHMETIC)
def floor_mod(x: Point, y: Point) -> Point:
    """The remainder of the floor division."""
    return x % y


@op(ARITHMETIC, operator="**")
def power(x: Point, y: Point) -> Point:
    """`x` to the power `y`."""
    return x**y


@op(ARITHMETIC)
def maximum(x: Point, y: Point) -> Point:
    """The greater of two elements."""
    return point.max(x, y)


@op(ARITHMETIC)
def minimum(x: Point, y: Point) -> Point:
    """The lesser of two elements."""
    return point.min(x, y)


@op(ARITHMETIC)
def atan2(x: Point, y: Point) -> Point:
    """The angle of the point with ordinate `x` and abscissa `y`."""
    return point.atan2(x, y)


@op(ARITHMETIC)
def log_add_exp(x: Point, y: Point) -> Point:
    """log(exp(x) + exp(y)), without overflow."""
    return point.max(x, y) + point.log1p(point.exp(-point.abs(x - y)))


@op(INTEGRAL)
def bitwise_and(x: Point, y: Point) -> Point:
    """The bits that both have."""
    return x & y


@op(INTEGRAL)
def bitwise_or(x: Point, y: Point) -> Point:
    """The bits that either has."""
    return x | y


@op(INTEGRAL)
def bitwise_xor(x: Point, y: Point) -> Point:
    """The bits that one of the two has."""
    return x ^ y


@op(INTEGRAL)
def left_shift(x: Point, y: Point) -> Point:
    """`x` with its bits moved up by `y`; 0 where `y` is no place of a bit in it."""
    return x << y


@op(INTEGRAL)
def right_shift(x: Point, y: Point) -> Point:
    """`x` with its bits moved down by `y`; 0 or -1, its sign, where `y` is no place of a bit."""
    return x >> y


@op(TRUTH)
def logical_and(x: Point, y: Point) -> Point:
    """Whether both are true."""
    return point.and_(x, y)


@op(TRUTH)
def logical_or(x: Point, y: Point) -> Point:
    """Whether either is true."""
    return point.or_(x, y)


@op(TRUTH)
def logical_xor(x: Point, y: Point) -> Point:
    """Whether exactly one is true."""
    return point.xor(x, y)


@op(COMPARISON, operator="==")
def equal(x: Point, y: Point) -> Point:
    """Whether the two are equal."""
    return point.eq(x, y)


@op(COMPARISON, operator="!=")
def not_equal(x: Point, y: Point) -> Point:
    """Whether the two differ."""
    return point.ne(x, y)


@op(COMPARISON, operator="<")
def less(x: Point, y: Point) -> Point:
    """Whether `x` is less."""
    return x < y


@op(COMPARISON, operator="<=")
def less_equal(x: Point, y: Point) -> Point:
    """Whether `x` is no greater."""
    return x <= y


@op(COMPARISON, operator=">")
def greater(x: Point, y: Point) -> Point:
    """Whether `x` is greater."""
    return x > y


@op(COMPARISON, operator=">=")
def greater_equal(x: Point, y: Point) -> Point:
    """Whether `x` is no less."""
    return x >= y


@op("cond[~s] @ bool, x[~s], y[~s] -> z[~s]", name="where")
def where(cond: Point, x: Point, y: Point) -> Point:
    """`x` where the condition holds, `y` elsewhere."""
    return select(cond, x, y)


@op("x[*s], y[*s], z[*s] -> out[*s]")
def ewise_fma(x: Point, y: Point, z: Point) -> Point:
    """x * y + z of equal shapes."""
    return x * y + z
