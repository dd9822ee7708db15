"""Mappings of elementwise primitives."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import structir.frontend.special_functions as functions
from structir.frontend.incomplete_beta import incomplete_beta
from structir.frontend.iterated_functions import incomplete_gamma
from structir.frontend.jax.equation import Equation
from structir.frontend.jax.registry import direct, jax_primitive
from structir.frontend.scalars import number
from structir.ir.dtype import is_float, numpy_dtype
from structir.ir.expr import Expr, ShapeExpr
from structir.script import R

SAME_NAMES = """
abs acos acosh add asin asinh atan atan2 atanh cbrt ceil cos cosh erf erfc exp exp2 expm1 floor
lgamma log log1p rsqrt sign sin sinh sqrt square tan tanh
"""
direct({name: getattr(R, name) for name in SAME_NAMES.split()})
direct(
    {
        "add_any": R.add,
        "eq": R.equal,
        "erf_inv": R.erfinv,
        "ge": R.greater_equal,
        "gt": R.greater,
        "is_finite": R.isfinite,
        "le": R.less_equal,
        "logistic": R.sigmoid,
        "lt": R.less,
        "mul": R.multiply,
        "ne": R.not_equal,
        "neg": R.negative,
        "rem": R.mod,
        "shift_left": R.left_shift,
        "shift_right_arithmetic": R.right_shift,
        "sub": R.subtract,
    }
)
IDENTITIES = ("copy", "copy_p", "stop_gradient", "optimization_barrier", "name", "device_put")
# The dtypes of floats by the numbers of their exponent and mantissa bits.
PRECISIONS = {
    (8, 7): "bfloat16",
    (5, 10): "float16",
    (8, 23): "float32",
    (11, 52): "float64",
    (4, 3): "float8_e4m3fn",
    (5, 2): "float8_e5m2",
}
LOGICAL = {"and": R.logical_and, "or": R.logical_or, "xor": R.logical_xor}
BITWISE = {"and": R.bitwise_and, "or": R.bitwise_or, "xor": R.bitwise_xor}


@jax_primitive(*IDENTITIES)
def identity(equation: Equation) -> Any:
    """Builds primitives that return their operands."""
    return list(equation.args)


@jax_primitive("reduce_precision")
def reduce_precision(equation: Equation) -> Expr:
    """Builds a conversion to the dtype with these bits and back."""
    bits = (int(equation.params["exponent_bits"]), int(equation.params["mantissa_bits"]))
    narrow, own = PRECISIONS.get(bits), equation.dtype()
    if narrow is None:
        known = ", ".join([str(pair) for pair in PRECISIONS])
        equation.fail(f"expected exponent and mantissa bits of {known}, found {bits}")
    x = equation.args[0]
    return x if narrow == own else R.astype(equation.emit(R.astype(x, narrow)), own)


@jax_primitive("pow")
def power(equation: Equation) -> Expr:
    """Builds a power; an integer exponent of a float is converted."""
    x, y = equation.args
    dtype = equation.dtype(0)
    return R.power(x, y if equation.dtype(1) == dtype else R.astype(y, dtype))


@jax_primitive("le_to", "lt_to")
def total_order(equation: Equation) -> Expr:
    """Builds a comparison in the order of sorts, where NaN is the largest number."""
    x, y = (equation.emit(arg) for arg in equation.args)
    is_strict = equation.name == "lt_to"
    compared: Expr = (R.less if is_strict else R.less_equal)(x, y)
    if not is_float(equation.dtype()):
        return compared
    last = R.isnan(y)
    if is_strict:
        last = R.logical_and(last, R.logical_not(R.isnan(x)))
    return R.logical_or(compared, last)


@jax_primitive("max", "min")
def extremum(equation: Equation) -> Expr:
    """Builds max or min; NaN in one operand is the result."""
    op = R.maximum if equation.name == "max" else R.minimum
    return op(*equation.args)


@jax_primitive("and", "or", "xor")
def bitwise(equation: Equation) -> Expr:
    table = LOGICAL if equation.dtype() == "bool" else BITWISE
    return table[equation.name](*equation.args)


@jax_primitive("not")
def inverted(equation: Equation) -> Expr:
    op = R.logical_not if equation.dtype() == "bool" else R.bitwise_not
    return op(*equation.args)


@jax_primitive("shift_right_logical")
def shift_right(equation: Equation) -> Expr:
    """Builds a shift that fills with zeros: that of unsigned integers."""
    dtype = equation.dtype()
    unsigned = dtype if dtype.startswith("u") else f"u{dtype}"
    x, count = (R.astype(arg, unsigned) for arg in equation.args)
    return R.astype(R.right_shift(x, count), dtype)


@jax_primitive("div")
def quotient(equation: Equation) -> Expr:
    """Builds a quotient; that of integers is rounded towards zero."""
    x, y = equation.args
    if is_float(equation.dtype()):
        return R.divide(x, y)
    return _truncated_quotient(equation)


def _truncated_quotient(equation: Equation) -> Expr:
    x, y = (equation.emit(arg) for arg in equation.args)
    if equation.dtype().startswith("u"):
        return R.floor_divide(x, y)
    floored = equation.emit(R.floor_divide(x, y))
    remainder = R.subtract(x, R.multiply(floored, y))
    signs_differ = R.less(R.bitwise_xor(x, y), number(0, equation.dtype()))
    inexact = R.not_equal(remainder, number(0, equation.dtype()))
    one = R.astype(R.logical_and(signs_differ, inexact), equation.dtype())
    return R.add(floored, one)


@jax_primitive("integer_pow")
def integer_power(equation: Equation) -> Expr:
    exponent, dtype = equation.params["y"], equation.dtype()
    result = _product_of_powers(equation, equation.args[0], abs(exponent))
    return R.divide(number(1, dtype), result) if exponent < 0 else result


def _product_of_powers(equation: Equation, x: Expr, exponent: int) -> Expr:
    """Returns a power by repeated squares."""
    if exponent == 0:
        return R.ones_like(x)
    factors, square = [], equation.emit(x)
    while exponent:
        if exponent & 1:
            factors.append(square)
        exponent >>= 1
        square = equation.emit(R.multiply(square, square)) if exponent else square
    result = factors[0]
    for factor in factors[1:]:
        result = R.multiply(result, factor)
    return result


def _in_double(function: Callable[..., Expr]) -> Callable[[Equation], Expr]:
    """Returns the mapping of a function that is computed in float64."""

    def build(equation: Equation) -> Expr:
        x = equation.emit(R.astype(equation.args[0], "float64"))
        return R.astype(function(x, equation.emit), equation.dtype())

    return build


jax_primitive("digamma")(_in_double(lambda x, emit: R.digamma(x)))


jax_primitive("bessel_i0e")(_in_double(lambda x, emit: functions.bessel_i(x, 0, True, emit)))
jax_primitive("bessel_i1e")(_in_double(lambda x, emit: functions.bessel_i(x, 1, True, emit)))


def _of_several(function: Callable[..., Expr]) -> Callable[[Equation], Expr]:
    """Returns the mapping of a function of several operands that is computed in float64."""

    def build(equation: Equation) -> Expr:
        operands = [equation.emit(R.astype(x, "float64")) for x in equation.args]
        sizes = ShapeExpr(equation.out_dims())
        operands = [equation.emit(R.broadcast_to(x, sizes)) for x in operands]
        result = function(equation.host.builder, *operands)
        return R.astype(result, equation.dtype())

    return build


jax_primitive("igamma")(_of_several(partial(incomplete_gamma, is_upper=False)))
jax_primitive("igammac")(_of_several(partial(incomplete_gamma, is_upper=True)))
jax_primitive("regularized_incomplete_beta")(_of_several(incomplete_beta))
jax_primitive("zeta")(_of_several(lambda builder, x, q: functions.hurwitz_zeta(x, q, builder.emit)))


@jax_primitive("nextafter")
def next_after(equation: Equation) -> Expr:
    sizes = ShapeExpr(equation.out_dims())
    x, y = (equation.emit(R.broadcast_to(x, sizes)) for x in equation.args)
    return functions.next_after(x, y, sizes, equation.dtype(), equation.emit)


@jax_primitive("round")
def rounded(equation: Equation) -> Expr:
    """Builds round: ties to even, or away from zero."""
    x = equation.emit(equation.args[0])
    if int(equation.params["rounding_method"]) == 1:
        return R.round(x)
    whole = equation.emit(R.trunc(x))  # x + 1/2 would be rounded
    half, zero = (number(value, equation.dtype()) for value in (0.5, -0.0))
    is_far = R.greater_equal(R.abs(R.subtract(x, whole)), half)
    return R.add(whole, R.where(is_far, R.sign(x), zero))


@jax_primitive("clamp")
def clamped(equation: Equation) -> Expr:
    low, x, high = equation.args
    return R.minimum(R.maximum(x, low), high)


@jax_primitive("select_n")
def selected(equation: Equation) -> Expr:
    """Builds a choice among cases by a bool or an integer."""
    which, *cases = equation.args
    if equation.dtype() == "bool":
        return R.where(which, cases[1], cases[0])
    result = cases[-1]
    for k in range(len(cases) - 2, -1, -1):
        is_case = R.less_equal(which, number(k, equation.dtype()))
        result = equation.emit(R.where(is_case, cases[k], result))
    return result


@jax_primitive("convert_element_type")
def converted(equation: Equation) -> Expr:
    """Builds a conversion; floats are truncated to integers, and not zero is True."""
    x, dtype = equation.args[0], equation.out_dtype()
    if dtype == equation.dtype():
        return x
    if dtype == "bool":
        return R.not_equal(x, number(0, equation.dtype()))
    return R.astype(x, dtype)


@jax_primitive("population_count")
def population_count(equation: Equation) -> Expr:
    dtype = equation.dtype()
    x = equation.emit(equation.args[0])
    result: Expr = R.zeros_like(x)
    for bit in range(8 * numpy_dtype(dtype).itemsize):
        shifted = R.right_shift(x, number(bit, dtype))
        result = R.add(result, R.bitwise_and(shifted, number(1, dtype)))
    return result
