"""Elementwise functions: arithmetic, comparisons, logic and functions of floats."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from structir.ir.dtype import numpy_dtype
from structir.ir.expr import Expr
from structir.lazy import exported, lazy_module
from structir.script import R
from structir.tracing import dtypes
from structir.tracing.array import (
    TracedArray,
    as_array,
    cast,
    emit,
    equally_long,
    expression,
    numpy_name,
    operand,
    promoted,
)
from structir.tracing.context import traced

ml_dtypes = lazy_module("ml_dtypes")
BuildOp = Callable[..., Expr]
UnaryFunction = Callable[[Any], TracedArray]
BinaryFunction = Callable[[Any, Any], TracedArray]
Function = TypeVar("Function", bound=Callable[..., Any])


@exported
def finfo(dtype: Any) -> Any:
    """Returns the limits of a floating-point dtype."""
    return ml_dtypes.finfo(numpy_dtype(numpy_name(dtype)))


@exported
def iinfo(dtype: Any) -> Any:
    """Returns the limits of an integer dtype."""
    return ml_dtypes.iinfo(numpy_dtype(numpy_name(dtype)))


def apply(op: BuildOp, *arrays: TracedArray, weak: bool = False, **attributes: Any) -> TracedArray:
    """Emits a call of an op on arrays."""
    return emit(op(*[expression(array) for array in arrays], **attributes), weak)


def _binary(op: BuildOp, x: Any, y: Any) -> TracedArray:
    operands, weak = promoted(x, y, keeps_wide=True)
    return apply(op, *operands, weak=weak)


def _of_numbers(op: BuildOp, x: Any, y: Any) -> TracedArray:
    """Emits an op that bools do not have: they become int32."""
    if _are_bools(x, y):
        x, y = cast(operand(x), "int32"), cast(operand(y), "int32")
    return _binary(op, x, y)


def _compared(op: BuildOp, x: Any, y: Any) -> TracedArray:
    operands, _ = promoted(x, y)
    return apply(op, *operands)


def real(x: Any) -> TracedArray:
    """Returns an operand of a function of floats: integers become float32."""
    array = operand(x)
    dtype = dtypes.floating(array.dtype_name)
    return array if array.dtype_name == dtype else cast(array, dtype)


def truth(x: Any) -> TracedArray:
    """Returns whether elements are not zero."""
    return astype(x, bool)


def described(function: Function, name: str, text: str) -> Function:
    """Gives a function its name and its docstring."""
    function.__name__ = function.__qualname__ = name
    function.__doc__ = text
    return function


def _family(rule: Callable[..., TracedArray]) -> Callable[[str, BuildOp, str], BinaryFunction]:
    """Returns the declaration of functions of two arrays that apply an op by a rule.

    It takes the name of a function, its op, and a description of the result.
    """

    def declare(name: str, op: BuildOp, text: str) -> BinaryFunction:
        def function(x1: Any, x2: Any, /) -> TracedArray:
            return rule(op, x1, x2)

        return traced(described(function, name, f"Returns {text}."))

    return declare


def _predicate(name: str, op: BuildOp, text: str) -> UnaryFunction:
    """Returns a predicate of floats; integers become float32."""

    def function(x: Any, /) -> TracedArray:
        return apply(op, real(x))

    return traced(described(function, name, f"Returns {text}."))


_arithmetic = _family(_binary)
_of_integers = _family(_of_numbers)
_comparison = _family(_compared)
_logical = _family(lambda op, x1, x2: apply(op, truth(x1), truth(x2)))


# ---- arithmetic


@traced
def add(x1: Any, x2: Any, /) -> TracedArray:
    """Returns x1 + x2; the logical or of bools."""
    return _binary(R.logical_or if _are_bools(x1, x2) else R.add, x1, x2)


def _are_bools(*values: Any) -> bool:
    return all([as_array(value).dtype_name == "bool" for value in values])


subtract = _arithmetic("subtract", R.subtract, "x1 - x2")


@traced
def multiply(x1: Any, x2: Any, /) -> TracedArray:
    """Returns x1 * x2; the logical and of bools."""
    return _binary(R.logical_and if _are_bools(x1, x2) else R.multiply, x1, x2)


def real_operands(*values: Any) -> tuple[list[TracedArray], bool]:
    """Returns operands of a function of floats, and whether the result is weak."""
    operands, weak = promoted(*values, keeps_wide=True)
    dtype = dtypes.floating(operands[0].dtype_name)
    return [x if x.dtype_name == dtype else cast(x, dtype) for x in operands], weak


@traced
def divide(x1: Any, x2: Any, /) -> TracedArray:
    """Returns x1 / x2; integers become float32."""
    operands, weak = real_operands(x1, x2)
    return apply(R.divide, *operands, weak=weak)


true_divide = divide


floor_divide = _of_integers("floor_divide", R.floor_divide, "the largest integer not above x1 / x2")
remainder = _of_integers(
    "remainder", R.floor_mod, "the remainder of `floor_divide`, with the sign of x2"
)
mod = remainder


fmod = _of_integers("fmod", R.mod, "the remainder with the sign of x1")


@traced
def divmod(x1: Any, x2: Any, /) -> tuple[TracedArray, TracedArray]:
    """Returns `floor_divide` and `remainder`."""
    return floor_divide(x1, x2), remainder(x1, x2)


@traced
def power(x1: Any, x2: Any, /) -> TracedArray:
    """Returns x1 to the power of x2; a small constant integer exponent multiplies."""
    if isinstance(x2, int) and not isinstance(x2, bool):
        array = operand(x1)
        if -16 <= x2 <= 16 and (x2 >= 0 or dtypes.category(array.dtype_name) == dtypes.FLOAT):
            return _integer_power(array, x2)
    return _of_numbers(R.power, x1, x2)


pow = power


def _integer_power(x: TracedArray, exponent: int) -> TracedArray:
    """Returns a power by repeated squares."""
    if exponent < 0:
        return divide(1, _integer_power(x, -exponent))
    if not exponent:
        return apply(R.ones_like, x)
    factor: TracedArray | None = None
    square = x
    while True:
        if exponent & 1:
            factor = square if factor is None else multiply(factor, square)
        exponent >>= 1
        if not exponent:
            assert factor is not None
            return factor
        square = multiply(square, square)


@traced
def negative(x: Any, /) -> TracedArray:
    """Returns -x."""
    array = operand(x)
    return apply(R.negative, array, weak=array.weak)


@traced
def positive(x: Any, /) -> TracedArray:
    """Returns x."""
    return operand(x)


@traced
def abs(x: Any, /) -> TracedArray:
    """Returns |x|."""
    array = operand(x)
    return apply(R.abs, array, weak=array.weak)


absolute = abs


@traced
def sign(x: Any, /) -> TracedArray:
    """Returns -1, 0 or 1."""
    array = operand(x)
    return apply(R.sign, array, weak=array.weak)


maximum = _arithmetic("maximum", R.maximum, "the larger element; NaN if one is NaN")
minimum = _arithmetic("minimum", R.minimum, "the smaller element; NaN if one is NaN")


@traced
def clip(x: Any, min: Any = None, max: Any = None, **bounds: Any) -> TracedArray:
    """Returns x limited to [min, max]; None is no limit."""
    low = bounds.get("a_min", min)
    high = bounds.get("a_max", max)
    result = operand(x)
    if low is not None:
        result = maximum(result, low)
    return result if high is None else minimum(result, high)


@traced
def fmax(x1: Any, x2: Any, /) -> TracedArray:
    """Returns the larger element; the other one if one is NaN."""
    return where(isnan(x1), x2, where(isnan(x2), x1, maximum(x1, x2)))


@traced
def fmin(x1: Any, x2: Any, /) -> TracedArray:
    """Returns the smaller element; the other one if one is NaN."""
    return where(isnan(x1), x2, where(isnan(x2), x1, minimum(x1, x2)))


@traced
def where(condition: Any, x1: Any = None, x2: Any = None) -> Any:
    """Returns x1 where the condition is true, else x2. With one argument: `nonzero`."""
    if x1 is None:
        return nonzero_of(condition)
    test = cast(operand(condition), "bool")
    operands, weak = promoted(x1, x2, keeps_wide=True)
    return apply(R.where, test, *operands, weak=weak)


def nonzero_of(x: Any) -> tuple[TracedArray, ...]:
    """Returns the positions of elements that are not zero, one array for each axis."""
    positions = apply(R.nonzero, operand(x))
    return tuple([positions[k] for k in range(operand(x).ndim)])


@traced
def select(condlist: Any, choicelist: Any, default: Any = 0) -> TracedArray:
    """Returns for each element the choice of the first condition that is true."""
    result: Any = default
    for condition, choice in reversed(equally_long("select", condlist, choicelist)):
        result = where(condition, choice, result)
    return result


@traced
def astype(x: Any, dtype: Any, /, *, copy: bool = True) -> TracedArray:
    """Returns x in another dtype. Floats are truncated to integers."""
    name = numpy_name(dtype)
    array = operand(x)
    if name == "bool" and array.dtype_name != "bool":
        return not_equal(array, 0)
    return cast(array, name)


# ---- comparisons and logic


equal = _comparison("equal", R.equal, "x1 == x2")
not_equal = _comparison("not_equal", R.not_equal, "x1 != x2")
less = _comparison("less", R.less, "x1 < x2")
less_equal = _comparison("less_equal", R.less_equal, "x1 <= x2")
greater = _comparison("greater", R.greater, "x1 > x2")
greater_equal = _comparison("greater_equal", R.greater_equal, "x1 >= x2")
logical_and = _logical("logical_and", R.logical_and, "whether both elements are true")
logical_or = _logical("logical_or", R.logical_or, "whether one of the elements is true")
logical_xor = _logical("logical_xor", R.logical_xor, "whether exactly one of the elements is true")


@traced
def logical_not(x: Any, /) -> TracedArray:
    """Returns whether elements are false."""
    return apply(R.logical_not, truth(x))


def _bitwise(logical: BuildOp, bitwise: BuildOp, *values: Any) -> TracedArray:
    operands, weak = promoted(*values)
    return apply(logical if operands[0].dtype_name == "bool" else bitwise, *operands, weak=weak)


@traced
def bitwise_and(x1: Any, x2: Any, /) -> TracedArray:
    """Returns x1 & x2."""
    return _bitwise(R.logical_and, R.bitwise_and, x1, x2)


@traced
def bitwise_or(x1: Any, x2: Any, /) -> TracedArray:
    """Returns x1 | x2."""
    return _bitwise(R.logical_or, R.bitwise_or, x1, x2)


@traced
def bitwise_xor(x1: Any, x2: Any, /) -> TracedArray:
    """Returns x1 ^ x2."""
    return _bitwise(R.logical_xor, R.bitwise_xor, x1, x2)


@traced
def bitwise_not(x: Any, /) -> TracedArray:
    """Returns ~x."""
    return _bitwise(R.logical_not, R.bitwise_not, x)


bitwise_invert = invert = bitwise_not


left_shift = _of_integers("left_shift", R.left_shift, "x1 << x2")
right_shift = _of_integers("right_shift", R.right_shift, "x1 >> x2")
bitwise_left_shift, bitwise_right_shift = left_shift, right_shift


isnan = _predicate("isnan", R.isnan, "whether elements are NaN")
isinf = _predicate("isinf", R.isinf, "whether elements are infinite")
isfinite = _predicate("isfinite", R.isfinite, "whether elements are finite")


@traced
def isclose(
    a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> TracedArray:
    """Returns whether elements are equal or finite with |a - b| <= atol + rtol * |b|."""
    (x, y), _ = real_operands(a, b)
    limit = add(multiply(abs(y), rtol), atol)
    near = logical_and(less_equal(abs(subtract(x, y)), limit), isfinite(y))
    result = logical_or(equal(x, y), near)
    return logical_or(result, logical_and(isnan(x), isnan(y))) if equal_nan else result


@traced
def nan_to_num(
    x: Any,
    copy: bool = True,
    nan: float = 0.0,
    posinf: float | None = None,
    neginf: float | None = None,
) -> TracedArray:
    """Returns x with NaN replaced; infinities become the limits of the dtype.

    Integers and bools are unchanged. `copy` has no effect: arrays do not change in place.
    """
    array = operand(x)
    if dtypes.category(array.dtype_name) != dtypes.FLOAT:
        return array
    from_nan = where(isnan(array), nan, array)
    largest = float(finfo(array.dtype_name).max)
    high = largest if posinf is None else posinf
    low = -largest if neginf is None else neginf
    bounded = where(equal(from_nan, float("inf")), high, from_nan)
    return where(equal(bounded, -float("inf")), low, bounded)
