"""Rules of primitives on complex numbers, as functions of JAX on their real and imaginary parts.

A rule receives the equation of the jaxpr and its operands: arrays, and a `Pair` for each complex
one. It returns an array or a `Pair`. Registering a rule is one function: `@complex_rule("exp")`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from structir.lazy import lazy_module

jax = lazy_module("jax")
jnp = lazy_module("jax.numpy")
lax = lazy_module("jax.lax")
Rule = Callable[..., Any]  # (equation, *operands) -> array or Pair
PART_OF = {"complex64": "float32", "complex128": "float64"}

_rules: dict[str, Rule] = {}


class Pair(NamedTuple):
    """A complex array as its real and imaginary parts: two arrays of one shape and dtype."""

    real: Any
    imag: Any


def complex_rule(*names: str) -> Callable[[Rule], Rule]:
    """Registers the decorated function as the rule of these primitives."""

    def register(rule: Rule) -> Rule:
        _rules.update(dict.fromkeys(names, rule))
        return rule

    return register


def find_rule(name: str) -> Rule | None:
    """Returns the rule of a primitive, or None."""
    return _rules.get(name)


def is_complex(aval: Any) -> bool:
    """Whether an abstract value is an array of complex numbers."""
    return str(getattr(aval, "dtype", "")) in PART_OF


def as_pair(x: Any, dtype: Any = None) -> Pair:
    """Returns an array as a pair, whose parts have a dtype."""
    pair = x if isinstance(x, Pair) else Pair(x, jnp.zeros_like(x))
    return pair if dtype is None else Pair(*[jnp.asarray(part).astype(dtype) for part in pair])


def bound(equation: Any, operands: Any) -> Any:
    """Returns the result of the primitive of an equation; complex dtypes become those of parts."""
    params = dict(equation.params)
    for name in ("preferred_element_type", "dtype", "new_dtype"):
        if str(params.get(name)) in PART_OF:
            params[name] = jnp.dtype(PART_OF[str(params[name])])
    return equation.primitive.bind(*operands, **params)


# ---- linear in the elements of all complex operands

LINEAR = """
broadcast_in_dim reshape transpose squeeze expand_dims slice rev concatenate copy copy_p neg
add add_any sub reduce_sum cumsum dynamic_slice dynamic_update_slice gather scatter scatter-add
scatter_add scatter-sub scatter_sub pad select_n split tile optimization_barrier name device_put
stop_gradient stack unstack
"""


@complex_rule(*LINEAR.split())
def of_each_part(equation: Any, *operands: Any) -> Any:
    """Applies a primitive to each part; indices and masks are the same for both."""
    results = [
        bound(equation, [x[k] if isinstance(x, Pair) else x for x in operands]) for k in range(2)
    ]
    if equation.primitive.multiple_results:
        return [Pair(*parts) for parts in zip(*results, strict=True)]
    return Pair(*results)


@complex_rule("dot_general", "conv_general_dilated")
def bilinear(equation: Any, x: Any, y: Any) -> Pair:
    """Combines the products of the parts; a real operand has one part."""
    product = partial(_product, equation)
    if not isinstance(x, Pair):
        return Pair(product(x, y.real), product(x, y.imag))
    if not isinstance(y, Pair):
        return Pair(product(x.real, y), product(x.imag, y))
    real = product(x.real, y.real) - product(x.imag, y.imag)
    return Pair(real, product(x.real, y.imag) + product(x.imag, y.real))


def _product(equation: Any, x: Any, y: Any) -> Any:
    return bound(equation, [x, y])


# ---- conversions


@complex_rule("convert_element_type")
def converted(equation: Any, x: Any) -> Any:
    """Converts the parts; the imaginary part is lost in a conversion to a real dtype."""
    dtype = str(equation.outvars[0].aval.dtype)
    if dtype in PART_OF:
        return as_pair(x, PART_OF[dtype])
    return (x.real != 0) | (x.imag != 0) if dtype == "bool" else x.real.astype(dtype)


complex_rule("complex")(lambda equation, real, imag: Pair(*jnp.broadcast_arrays(real, imag)))
complex_rule("real")(lambda equation, x: x.real)
complex_rule("imag")(lambda equation, x: x.imag)


@complex_rule("conj")
def conjugate(equation: Any, x: Any) -> Pair:
    pair = as_pair(x)
    return Pair(pair.real, -pair.imag)


complex_rule("iota")(lambda equation: as_pair(bound(equation, [])))


# ---- arithmetic


def times(x: Pair, y: Pair) -> Pair:
    return Pair(x.real * y.real - x.imag * y.imag, x.real * y.imag + x.imag * y.real)


def quotient(x: Pair, y: Pair) -> Pair:
    """Returns x / y; y is scaled by its larger part, so that its square does not overflow."""
    scale = jnp.maximum(jnp.abs(y.real), jnp.abs(y.imag))
    p, q = y.real / scale, y.imag / scale
    norm = y.real * p + y.imag * q
    return Pair((x.real * p + x.imag * q) / norm, (x.imag * p - x.real * q) / norm)


def power_of(x: Pair, exponent: int) -> Pair:
    """Returns an integer power by repeated squares."""
    result = Pair(jnp.ones_like(x.real), jnp.zeros_like(x.real))
    square, rest = x, abs(exponent)
    while rest:
        result = times(result, square) if rest & 1 else result
        rest >>= 1
        square = times(square, square) if rest else square
    return quotient(as_pair(jnp.ones_like(x.real)), result) if exponent < 0 else result


complex_rule("mul")(lambda equation, x, y: times(x, y))
complex_rule("div")(lambda equation, x, y: quotient(x, y))
complex_rule("square")(lambda equation, x: times(x, x))
complex_rule("integer_pow")(lambda equation, x: power_of(x, equation.params["y"]))
complex_rule("eq")(lambda equation, x, y: (x.real == y.real) & (x.imag == y.imag))
complex_rule("ne")(lambda equation, x, y: (x.real != y.real) | (x.imag != y.imag))
complex_rule("is_finite")(lambda equation, x: jnp.isfinite(x.real) & jnp.isfinite(x.imag))


@complex_rule("reduce_prod")
def product_of_elements(equation: Any, x: Pair) -> Pair:
    for axis in sorted(equation.params["axes"], reverse=True):
        x, _ = _running_product(x, axis, reverse=False)
    return x


@complex_rule("cumprod")
def running_product(equation: Any, x: Pair) -> Pair:
    axis = equation.params["axis"]
    _, products = _running_product(x, axis, equation.params["reverse"])
    return Pair(*[jnp.moveaxis(part, 0, axis) for part in products])


def _running_product(x: Pair, axis: int, reverse: bool) -> tuple[Pair, Pair]:
    """Returns the product along an axis, and the products of its first elements along axis 0."""
    elements = Pair(*[jnp.moveaxis(part, axis, 0) for part in x])
    one = Pair(jnp.ones_like(elements.real[0]), jnp.zeros_like(elements.real[0]))

    def step(product: Pair, element: Pair) -> tuple[Pair, Pair]:
        product = times(product, element)
        return product, product

    return lax.scan(step, one, elements, reverse=reverse)


# ---- functions


def magnitude(x: Pair) -> Any:
    return jnp.hypot(x.real, x.imag)


def exponential(x: Pair) -> Pair:
    scale = jnp.exp(x.real)
    return Pair(scale * jnp.cos(x.imag), scale * jnp.sin(x.imag))


def logarithm(x: Pair) -> Pair:
    return Pair(jnp.log(magnitude(x)), jnp.arctan2(x.imag, x.real))


def square_root(x: Pair) -> Pair:
    """Returns the root with a real part of at least 0; the larger part is computed first."""
    larger = jnp.sqrt((magnitude(x) + jnp.abs(x.real)) / 2)
    smaller = jnp.where(larger == 0, 0, jnp.abs(x.imag) / (2 * jnp.where(larger == 0, 1, larger)))
    is_positive = x.real >= 0
    real, imag = jnp.where(is_positive, larger, smaller), jnp.where(is_positive, smaller, larger)
    return Pair(real, jnp.copysign(imag, x.imag))


def hyperbolic_tangent(x: Pair) -> Pair:
    """Returns tanh by functions of twice the operand, whose real part is limited: beyond, the
    result is 1 to rounding."""
    twice, angle = jnp.clip(2 * x.real, -40, 40), 2 * x.imag
    divisor = jnp.cosh(twice) + jnp.cos(angle)
    return Pair(jnp.sinh(twice) / divisor, jnp.sin(angle) / divisor)


def general_power(x: Pair, y: Pair) -> Pair:
    """Returns exp(y log x); a power of 0 is 0, except for the exponent 0."""
    is_zero = (x.real == 0) & (x.imag == 0)
    base = Pair(jnp.where(is_zero, 1, x.real), x.imag)
    result = exponential(times(y, logarithm(base)))
    of_zero = jnp.where((y.real == 0) & (y.imag == 0), 1, jnp.zeros_like(result.real))
    return Pair(jnp.where(is_zero, of_zero, result.real), jnp.where(is_zero, 0, result.imag))


complex_rule("abs")(lambda equation, x: magnitude(x))
complex_rule("exp")(lambda equation, x: exponential(x))
complex_rule("exp2")(lambda equation, x: exponential(Pair(*[part * math.log(2) for part in x])))
complex_rule("log")(lambda equation, x: logarithm(x))
complex_rule("log1p")(lambda equation, x: logarithm(Pair(x.real + 1, x.imag)))
complex_rule("sqrt")(lambda equation, x: square_root(x))
complex_rule("tanh")(lambda equation, x: hyperbolic_tangent(x))


@complex_rule("expm1")
def exp_minus_one(equation: Any, x: Pair) -> Pair:
    """Builds exp(x) - 1 without cancellation near 0: cos(b) - 1 is -2 sin(b / 2) ** 2."""
    scale, half = jnp.exp(x.real), jnp.sin(x.imag / 2)
    return Pair(jnp.expm1(x.real) - 2 * scale * half * half, scale * jnp.sin(x.imag))


complex_rule("rsqrt")(lambda equation, x: quotient(as_pair(jnp.ones_like(x.real)), square_root(x)))


@complex_rule("pow")
def power(equation: Any, x: Any, y: Any) -> Pair:
    return general_power(as_pair(x), as_pair(y, as_pair(x).real.dtype))


@complex_rule("sign")
def direction(equation: Any, x: Pair) -> Pair:
    size = magnitude(x)
    divisor = jnp.where(size == 0, 1, size)
    return Pair(x.real / divisor, x.imag / divisor)


@complex_rule("sin")
def sine(equation: Any, x: Pair) -> Pair:
    return Pair(jnp.sin(x.real) * jnp.cosh(x.imag), jnp.cos(x.real) * jnp.sinh(x.imag))


@complex_rule("cos")
def cosine(equation: Any, x: Pair) -> Pair:
    return Pair(jnp.cos(x.real) * jnp.cosh(x.imag), -jnp.sin(x.real) * jnp.sinh(x.imag))


@complex_rule("sinh")
def hyperbolic_sine(equation: Any, x: Pair) -> Pair:
    return Pair(jnp.sinh(x.real) * jnp.cos(x.imag), jnp.cosh(x.real) * jnp.sin(x.imag))


@complex_rule("cosh")
def hyperbolic_cosine(equation: Any, x: Pair) -> Pair:
    return Pair(jnp.cosh(x.real) * jnp.cos(x.imag), jnp.sinh(x.real) * jnp.sin(x.imag))


@complex_rule("tan")
def tangent(equation: Any, x: Pair) -> Pair:
    """Builds tan(z) = -i tanh(i z)."""
    result = hyperbolic_tangent(Pair(-x.imag, x.real))
    return Pair(result.imag, -result.real)


@complex_rule("logistic")
def logistic(equation: Any, x: Pair) -> Pair:
    """Builds 1 / (1 + exp(-z)) = (1 + tanh(z / 2)) / 2."""
    result = hyperbolic_tangent(Pair(x.real / 2, x.imag / 2))
    return Pair((1 + result.real) / 2, result.imag / 2)
