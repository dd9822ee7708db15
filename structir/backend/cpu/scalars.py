"""The one table by scalar function name: how each is written in a kernel, for each kind of
dtype."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numba import njit

from structir.backend.cpu.eighths import eighth_helpers
from structir.backend.cpu.intrinsics import EIGHTHS
from structir.backend.math import error_function, exponential, logarithm, trigonometric
from structir.backend.math.bits import bits_of_single, single_of_bits
from structir.backend.math.options import Number, vectorisable
from structir.ir.dtype import INTS, is_float

SINGLE: dict[str, Any] = {
    "acos": trigonometric.acos,
    "acosh": logarithm.acosh,
    "asin": trigonometric.asin,
    "asinh": logarithm.asinh,
    "atan": trigonometric.atan,
    "atan2": trigonometric.atan2,
    "atanh": logarithm.atanh,
    "cos": trigonometric.cos,
    "cosh": exponential.cosh,
    "erf": error_function.erf,
    "exp": exponential.exp,
    "expm1": exponential.expm1,
    "log": logarithm.log,
    "log1p": logarithm.log1p,
    "pow": logarithm.pow,
    "sigmoid": exponential.sigmoid,
    "sin": trigonometric.sin,
    "sinh": exponential.sinh,
    "tan": trigonometric.tan,
    "tanh": exponential.tanh,
}

DOUBLE_FROM_NUMPY: dict[str, Any] = {
    "acos": np.arccos,
    "acosh": np.arccosh,
    "asin": np.arcsin,
    "asinh": np.arcsinh,
    "atan": np.arctan,
    "atan2": np.arctan2,
    "atanh": np.arctanh,
    "cos": np.cos,
    "cosh": np.cosh,
    "erf": math.erf,
    "exp": np.exp,
    "expm1": np.expm1,
    "log": np.log,
    "log1p": np.log1p,
    "pow": np.power,
    "sin": np.sin,
    "sinh": np.sinh,
    "tan": np.tan,
    "tanh": np.tanh,
}


def _double_from_numpy(function: Callable[..., Number], arity: int) -> Any:
    if arity == 2:
        return vectorisable(lambda x, y: function(x, y))
    return vectorisable(lambda x: function(x))


@vectorisable
def sigmoid_double(x: Number) -> Number:
    """1 / (1 + exp(-x)), never by way of an overflow."""
    e = np.exp(-abs(x))
    return (1.0 if x >= 0.0 else e) / (1.0 + e)


@vectorisable
def sign_of(x: Number) -> Number:
    """-1, 0 or 1; NaN stays."""
    kind = type(x)
    return x if x != x else kind(x > 0) - kind(x < 0)


@njit(error_model="numpy", _nrt=False)  # type: ignore[call-overload,untyped-decorator,unused-ignore]
def whole_power(base: Number, exponent: Number) -> Number:
    """An integer power by squaring, wrapping around as the dtype does; 0 for most negative
    exponents."""
    if exponent < 0:
        return base * 0 + (1 if base == 1 else ((1 - 2 * (exponent & 1)) if base == -1 else 0))
    power = base * 0 + 1
    while exponent > 0:
        if exponent & 1:
            power = power * base
        base = base * base
        exponent = exponent >> 1
    return power


@njit(error_model="numpy", _nrt=False)  # type: ignore[call-overload,untyped-decorator,unused-ignore]
def whole_quotient(x: Number, y: Number) -> Number:
    """Floor division of integers; 0 where the divisor is 0, negation where it is -1."""
    none = x - x  # of the very dtype: a signed 0 would make a float of an unsigned quotient
    if y == 0:
        return none
    return none - x if y == -1 else x // y


@njit(error_model="numpy", _nrt=False)  # type: ignore[call-overload,untyped-decorator,unused-ignore]
def whole_ratio(x: Number, y: Number) -> Number:
    """Division of integers, rounded toward zero; 0 where the divisor is 0."""
    none = x - x
    if y == 0:
        return none
    if y == -1:
        return none - x
    low = x // y
    return low + type(x)((x < 0) != (y < 0) and low * y != x)


@vectorisable
def odd_single(x: Number) -> Number:
    """A float64 as the float32 beside it whose last bit is 1, if it is none itself: what rounds on
    to fewer bits is then rounded as if at once."""
    nearest = np.float32(x)
    wide = np.float64(nearest)
    bits = bits_of_single(nearest) - np.int32(abs(wide) > abs(x))
    odd = np.float64(single_of_bits(np.int32(bits | 1)))
    return wide if wide == x or x != x else odd


@njit(error_model="numpy", _nrt=False)  # type: ignore[call-overload,untyped-decorator,unused-ignore]
def whole_remainder(x: Number, y: Number) -> Number:
    """What floor division leaves, with the sign of the divisor; 0 where the divisor is 0 or -1."""
    return x - x if y == 0 or y == -1 else x % y


@cache
def helpers() -> dict[str, Any]:
    """The functions that kernel texts call, under the names that they use."""
    arity = {"pow": 2, "atan2": 2}
    doubles = {
        f"{name}_float64": _double_from_numpy(function, arity.get(name, 1))
        for name, function in DOUBLE_FROM_NUMPY.items()
    }
    return {
        **{f"{name}_float32": function for name, function in SINGLE.items()},
        **doubles,
        **eighth_helpers(),
        "sigmoid_float64": sigmoid_double,
        "sign_of": sign_of,
        "whole_power": whole_power,
        "odd_single": odd_single,
        "whole_quotient": whole_quotient,
        "whole_ratio": whole_ratio,
        "whole_remainder": whole_remainder,
    }


ALL_KINDS = {
    "lt": "{0} < {1}",
    "le": "{0} <= {1}",
    "gt": "{0} > {1}",
    "ge": "{0} >= {1}",
    "eq": "{0} == {1}",
    "ne": "{0} != {1}",
    "select": "({1} if {0} else {2})",
}
FLOATS = {
    "add": "{0} + {1}",
    "sub": "{0} - {1}",
    "mul": "{0} * {1}",
    "div": "{0} / {1}",
    "floordiv": "{0} // {1}",
    "mod": "{0} % {1}",
    "neg": "-{0}",
    "abs": "abs({0})",
    "sign": "sign_of({0})",
    "ceil": "ceil({0})",
    "floor": "floor({0})",
    "round": "nearest({0})",
    "trunc": "trunc({0})",
    "min": "minimum({0}, {1})",
    "max": "maximum({0}, {1})",
    "sqrt": "square_root({0})",
    "rsqrt": "{dtype}(1) / square_root({0})",
    "isnan": "{0} != {0}",
    "isinf": "abs({0}) == inf",
    "isfinite": "abs({0}) < inf",
    "to_odd": "odd_single({0})",
    "round_to_float16": "half_value(half_bits({0}))",
    "round_to_bfloat16": "brain_value(brain_bits({0}))",
    **{f"round_to_{eighth}": f"{eighth}_value({eighth}_code({{0}}))" for eighth in EIGHTHS},
    **{name: f"{name}_{{dtype}}({{0}})" for name in SINGLE},
    "pow": "pow_{dtype}({0}, {1})",
    "atan2": "atan2_{dtype}({0}, {1})",
}
WHOLE = {
    "add": "{dtype}({0} + {1})",
    "sub": "{dtype}({0} - {1})",
    "mul": "{dtype}({0} * {1})",
    "floordiv": "{dtype}(whole_quotient({0}, {1}))",
    "quotient": "{dtype}(whole_ratio({0}, {1}))",
    "mod": "{dtype}(whole_remainder({0}, {1}))",
    "pow": "{dtype}(whole_power({0}, {1}))",
    "neg": "{dtype}(-{0})",
    "abs": "{dtype}(abs({0}))",
    "sign": "{dtype}(({0} > 0) - ({0} < 0))",
    "ceil": "{0}",
    "floor": "{0}",
    "round": "{0}",
    "trunc": "{0}",
    "min": "({0} if {0} < {1} else {1})",
    "max": "({0} if {0} > {1} else {1})",
    "bitand": "{dtype}({0} & {1})",
    "bitor": "{dtype}({0} | {1})",
    "bitxor": "{dtype}({0} ^ {1})",
    "bitnot": "{dtype}(~{0})",
    "shl": "{dtype}({0} << {1})",
    "shr": "{dtype}({0} >> {1})",
    "isnan": "False",
    "isinf": "False",
    "isfinite": "True",
}
TRUTH = {
    "add": "{0} | {1}",
    "mul": "{0} & {1}",
    "max": "{0} | {1}",
    "min": "{0} & {1}",
    "and": "{0} & {1}",
    "or": "{0} | {1}",
    "xor": "{0} ^ {1}",
    "not": "not {0}",
    "bitand": "{0} & {1}",
    "bitor": "{0} | {1}",
    "bitxor": "{0} ^ {1}",
    "bitnot": "not {0}",
    "abs": "{0}",
    "ceil": "{0}",
    "floor": "{0}",
    "round": "{0}",
    "trunc": "{0}",
    "isnan": "False",
    "isinf": "False",
    "isfinite": "True",
}

# Roughly: additions. What is cheaper than this to compute again is not kept between loops.
COSTS = {"div": 4, "floordiv": 6, "quotient": 6, "mod": 6, "sqrt": 6, "rsqrt": 10, "pow": 30}
COSTS |= {name: 16 for name in SINGLE} | {"exp": 10, "sigmoid": 14, "pow": 30}


def cost_of(fn: str) -> float:
    """How much a scalar function costs, an addition being 1."""
    return COSTS.get(fn, 1)


def _table(dtype: str) -> dict[str, str]:
    if dtype == "bool":
        return TRUTH
    return WHOLE if dtype in INTS else FLOATS


def is_written(fn: str, operand_dtype: str) -> bool:
    """Whether kernels know this function on this dtype."""
    return fn == "cast" or fn in ALL_KINDS or fn in _table(operand_dtype)


def application_text(fn: str, dtype: str, operand_dtype: str, args: list[str]) -> str:
    """A function applied to the texts of its arguments, all names or literals."""
    if fn == "cast":
        return _cast_text(args[0], operand_dtype, dtype)
    template = ALL_KINDS.get(fn) or _table(operand_dtype)[fn]
    return template.format(*args, dtype=dtype)


def _cast_text(value: str, source: str, target: str) -> str:
    if source == target:
        return value
    return f"{value} != 0" if target == "bool" else f"{target}({value})"


def number_text(value: float | int | bool, dtype: str) -> str:
    """A constant of a dtype."""
    if dtype == "bool":
        return str(bool(value))
    if is_float(dtype):
        return f"{dtype}({float(value)!r})"
    return repr(int(value)) if dtype == "int64" else f"{dtype}({int(value)!r})"


def load_text(stored: str, place: str) -> str:
    """An element read from memory, as kernels compute with it."""
    reads = {"bool": "{} != 0", "float16": "half_value({})", "bfloat16": "brain_value({})"}
    reads |= {eighth: f"{eighth}_value({{}})" for eighth in EIGHTHS}
    return reads.get(stored, "{}").format(place)


def store_text(stored: str, value: str) -> str:
    """What is written to memory for a value."""
    writes = {"bool": "uint8({})", "float16": "half_bits({})", "bfloat16": "brain_bits({})"}
    writes |= {eighth: f"{eighth}_code({{}})" for eighth in EIGHTHS}
    return writes.get(stored, "{}").format(value)


def accumulation_text(monoid: str, dtype: str, total: str, value: str) -> str:
    """The total combined with one value more; float sums and products may be reordered."""
    combine = {"sum": "add", "mean": "add", "prod": "mul", "any": "or", "all": "and"}
    fn = combine.get(monoid, monoid)
    if is_float(dtype) and fn in ("add", "mul"):
        return f"{'add_to' if fn == 'add' else 'multiply_to'}({total}, {value})"
    return application_text(fn, dtype, dtype, [total, value])
