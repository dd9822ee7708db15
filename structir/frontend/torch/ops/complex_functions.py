"""Mappings of elementwise functions, norms and predicates of complex tensors."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from structir.frontend.scalars import number
from structir.frontend.torch.complex import (
    ComplexTensor,
    as_complex,
    map_parts,
    on_parts,
    zeros_like,
)
from structir.frontend.torch.node import FxNode
from structir.frontend.torch.ops.complex import bound, quotient, real_build, times, with_parts
from structir.frontend.torch.registry import complex_op, torch_op
from structir.ir.expr import Expr
from structir.script import R


def magnitude(node: FxNode, x: ComplexTensor) -> Expr:
    """Returns the absolute value, scaled by the larger part so that squares do not overflow."""
    a, b = node.emit(R.abs(x.real)), node.emit(R.abs(x.imag))
    zero, one = (number(k, node.dtype_of(a)) for k in (0, 1))
    larger = node.emit(R.maximum(a, b))
    divisor = R.where(R.logical_and(R.greater(larger, zero), R.isfinite(larger)), larger, one)
    ratio = node.emit(R.divide(R.minimum(a, b), divisor))
    root = node.emit(R.multiply(larger, R.sqrt(R.add(one, R.multiply(ratio, ratio)))))
    is_infinite = R.logical_or(R.isinf(a), R.isinf(b))
    return node.emit(R.where(is_infinite, number(math.inf, node.dtype_of(a)), root))


def _angle(x: ComplexTensor) -> Expr:
    return R.atan2(x.imag, x.real)


complex_op("abs")(lambda node: magnitude(node, node.arg("self")))


@complex_op("angle")
def angle(node: FxNode) -> Expr:
    return _angle(node.arg("self"))


@torch_op("angle")
def angle_of_real(node: FxNode) -> Expr:
    x = node.operand("self", node.out_dtype())
    zero, pi = (number(v, node.out_dtype()) for v in (0.0, math.pi))
    return R.where(R.isnan(x), x, R.where(R.less(x, zero), pi, zero))


@complex_op("linalg_vector_norm", "norm", "frobenius_norm", "linalg_norm")
def norm(node: FxNode) -> Any:
    return real_build(node)(node.replace({"self": magnitude(node, node.arg("self"))}))


@complex_op("var")
def variance(node: FxNode) -> Expr:
    """Builds the variance: the sum of the variances of both parts."""
    parts = on_parts(node, real_build(node))
    return R.add(parts.real, parts.imag)


complex_op("std")(lambda node: magnitude(node, on_parts(node, real_build(node))))


Function = Callable[[FxNode, ComplexTensor], ComplexTensor]


def _function(*names: str) -> Callable[[Function], Function]:
    """Registers a function of one complex tensor."""

    def register(act: Function) -> Function:
        def build(node: FxNode) -> ComplexTensor:
            result = act(node, as_complex(node.arg("self"), node.out_dtype()))
            return with_parts(node, result.real, result.imag)

        complex_op(*names)(build)
        return act

    return register


@_function("exp")
def exponential(node: FxNode, x: ComplexTensor) -> ComplexTensor:
    radius = node.emit(R.exp(x.real))
    return ComplexTensor(R.multiply(radius, R.cos(x.imag)), R.multiply(radius, R.sin(x.imag)))


@_function("log")
def logarithm(node: FxNode, x: ComplexTensor) -> ComplexTensor:
    return ComplexTensor(R.log(magnitude(node, x)), _angle(x))


def _scaled_logarithm(base: float) -> Function:
    def act(node: FxNode, x: ComplexTensor) -> ComplexTensor:
        factor = number(1 / math.log(base), node.out_dtype())
        return map_parts(lambda p: R.multiply(p, factor), logarithm(node, x))

    return act


_function("log2")(_scaled_logarithm(2.0))
_function("log10")(_scaled_logarithm(10.0))


@_function("sqrt")
def square_root(node: FxNode, x: ComplexTensor) -> ComplexTensor:
    """Returns the root with a non-negative real part."""
    dtype = node.dtype_of(x.real)
    zero, half, one = (number(v, dtype) for v in (0.0, 0.5, 1.0))
    total = R.add(magnitude(node, x), R.abs(x.real))
    root = node.emit(R.sqrt(R.multiply(total, half)))
    divisor = R.where(R.greater(root, zero), R.add(root, root), one)
    other = node.emit(R.divide(R.abs(x.imag), divisor))
    is_right = node.emit(R.greater_equal(x.real, zero))
    imag = node.emit(R.where(is_right, other, root))
    signed = R.where(R.less(x.imag, zero), R.negative(imag), imag)
    return ComplexTensor(R.where(is_right, root, other), signed)


@_function("reciprocal")
def reciprocal(node: FxNode, x: ComplexTensor) -> ComplexTensor:
    one = as_complex(1, node.dtype_of(x.real))
    return quotient(node, one, x)


@_function("rsqrt")
def reciprocal_root(node: FxNode, x: ComplexTensor) -> ComplexTensor:
    return reciprocal(node, bound(node, square_root(node, x)))


@_function("square")
def square(node: FxNode, x: ComplexTensor) -> ComplexTensor:
    return times(x, x)


@_function("sgn")
def direction(node: FxNode, x: ComplexTensor) -> ComplexTensor:
    size = magnitude(node, x)
    divisor = R.where(R.equal(size, zeros_like(size)), number(1, node.dtype_of(size)), size)
    divisor = node.emit(divisor)
    return map_parts(lambda p: R.divide(p, divisor), x)


@_function("sigmoid")
def sigmoid(node: FxNode, x: ComplexTensor) -> ComplexTensor:
    power = exponential(node, map_parts(R.negative, x))
    shifted = ComplexTensor(R.add(power.real, number(1, node.dtype_of(x.real))), power.imag)
    return reciprocal(node, bound(node, shifted))


@_function("silu")
def silu(node: FxNode, x: ComplexTensor) -> ComplexTensor:
    return times(x, bound(node, sigmoid(node, x)))


@_function("sin")
def sine(node: FxNode, x: ComplexTensor) -> ComplexTensor:
    real = R.multiply(R.sin(x.real), R.cosh(x.imag))
    return ComplexTensor(real, R.multiply(R.cos(x.real), R.sinh(x.imag)))


@_function("cos")
def cosine(node: FxNode, x: ComplexTensor) -> ComplexTensor:
    imag = R.multiply(R.sin(x.real), R.sinh(x.imag))
    return ComplexTensor(R.multiply(R.cos(x.real), R.cosh(x.imag)), R.negative(imag))


@_function("sinh")
def hyperbolic_sine(node: FxNode, x: ComplexTensor) -> ComplexTensor:
    real = R.multiply(R.sinh(x.real), R.cos(x.imag))
    return ComplexTensor(real, R.multiply(R.cosh(x.real), R.sin(x.imag)))


@_function("cosh")
def hyperbolic_cosine(node: FxNode, x: ComplexTensor) -> ComplexTensor:
    real = R.multiply(R.cosh(x.real), R.cos(x.imag))
    return ComplexTensor(real, R.multiply(R.sinh(x.real), R.sin(x.imag)))


@_function("tan")
def tangent(node: FxNode, x: ComplexTensor) -> ComplexTensor:
    """Returns tan(z) = -i tanh(i z)."""
    turned = ComplexTensor(node.emit(R.negative(x.imag)), x.real)
    result = hyperbolic_tangent(node, turned)
    return ComplexTensor(result.imag, R.negative(result.real))


@_function("log1p")
def log_plus_one(node: FxNode, x: ComplexTensor) -> ComplexTensor:
    one = number(1, node.dtype_of(x.real))
    return logarithm(node, ComplexTensor(node.emit(R.add(x.real, one)), x.imag))


@_function("expm1")
def exp_minus_one(node: FxNode, x: ComplexTensor) -> ComplexTensor:
    power = exponential(node, x)
    return ComplexTensor(R.subtract(power.real, number(1, node.dtype_of(x.real))), power.imag)


SATURATED = 40.0  # tanh(x) is 1 in float64 for x above 20; cosh(80) overflows no float32


@_function("tanh")
def hyperbolic_tangent(node: FxNode, x: ComplexTensor) -> ComplexTensor:
    twice = node.emit(R.clip(R.add(x.real, x.real), -SATURATED, SATURATED))
    angle = node.emit(R.add(x.imag, x.imag))
    divisor = node.emit(R.add(R.cosh(twice), R.cos(angle)))
    return ComplexTensor(R.divide(R.sinh(twice), divisor), R.divide(R.sin(angle), divisor))


MAX_PRODUCTS = 64  # exponents up to it are computed by products


@complex_op("pow", "float_power")
def power(node: FxNode) -> ComplexTensor:
    dtype, exponent = node.out_dtype(), node.arg("exponent")
    base = bound(node, as_complex(node.arg("self"), dtype))
    if isinstance(exponent, int | float):
        whole = int(exponent)
        if whole == exponent and abs(whole) <= MAX_PRODUCTS:
            return with_parts(node, *_pair(_repeated_product(node, base, whole)))
        if exponent == 0.5:
            return with_parts(node, *_pair(square_root(node, base)))
    return with_parts(node, *_pair(_general_power(node, base, as_complex(exponent, dtype))))


def _pair(x: ComplexTensor) -> tuple[Expr, Expr]:
    return x.real, x.imag


def _repeated_product(node: FxNode, base: ComplexTensor, exponent: int) -> ComplexTensor:
    """Returns base ** exponent by repeated squaring."""
    result: ComplexTensor | None = None
    square_power, remaining = base, abs(exponent)
    while remaining:
        if remaining % 2:
            result = square_power if result is None else bound(node, times(result, square_power))
        remaining //= 2
        if remaining:
            square_power = bound(node, times(square_power, square_power))
    if result is None:
        return as_complex(1, node.out_dtype())
    return result if exponent > 0 else reciprocal(node, result)


def _general_power(node: FxNode, base: ComplexTensor, exponent: ComplexTensor) -> ComplexTensor:
    """Returns exp(exponent * log(base)); powers of zero are zero, except for the exponent 0."""
    zero, one = (number(k, node.out_dtype()) for k in (0, 1))
    is_zero = node.emit(R.equal(R.maximum(R.abs(base.real), R.abs(base.imag)), zero))
    safe_base = ComplexTensor(R.where(is_zero, one, base.real), base.imag)
    angle = bound(node, logarithm(node, bound(node, safe_base)))
    result = exponential(node, bound(node, times(exponent, angle)))
    is_constant = R.logical_and(R.equal(exponent.real, zero), R.equal(exponent.imag, zero))
    of_zero = R.where(is_constant, one, zero)
    return ComplexTensor(
        R.where(is_zero, of_zero, result.real), R.where(is_zero, zero, result.imag)
    )


# ---- predicates


def _combined(combine: Any) -> Callable[[FxNode], Expr]:
    """Returns the mapping of a predicate that combines those of both parts."""

    def build(node: FxNode) -> Expr:
        result = on_parts(node, real_build(node))
        return combine(result.real, result.imag)

    return build


complex_op("eq", "isfinite", "logical_not")(_combined(R.logical_and))
complex_op("ne", "not_equal", "isnan", "isinf")(_combined(R.logical_or))
