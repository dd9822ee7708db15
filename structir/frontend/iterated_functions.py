"""Functions that are computed by a loop until all elements converge.

Sources: Euclid's algorithm; the incomplete gamma functions of Cephes.
"""

from __future__ import annotations

import math

import numpy as np

from structir.frontend.builder import NodeBuilder
from structir.frontend.iteration import iterated
from structir.ir.expr import Constant, Expr, PrimValue
from structir.script import R

MAX_STEPS = 10_000
EPSILON = 2.0**-52
SCALE = 2.0**52  # the continued fraction is scaled where its terms exceed it


def double(value: float) -> Expr:
    """Returns a number as a scalar constant of float64."""
    return Constant(np.asarray(value, "float64"))


def any_of(builder: NodeBuilder, flags: Expr) -> Expr:
    """Returns whether some element of a tensor of bool is true, as a scalar."""
    count = builder.emit(R.sum(R.astype(flags, "int64")))
    return builder.emit(R.greater(count, Constant(np.asarray(0, "int64"))))


def greatest_common_divisor(builder: NodeBuilder, a: Expr, b: Expr) -> Expr:
    """Returns the greatest common divisor of tensors of int64 of equal shape."""
    zero, one = Constant(np.asarray(0, "int64")), Constant(np.asarray(1, "int64"))

    def body(step: Expr, values: list[Expr]) -> tuple[Expr, list[Expr], list[Expr]]:
        x, y = values
        is_done = builder.emit(R.equal(y, zero))
        remainder = R.floor_mod(x, builder.emit(R.where(is_done, one, y)))
        rest = builder.emit(R.where(is_done, zero, remainder))
        next_values: list[Expr] = [builder.emit(R.where(is_done, x, y)), rest]
        return any_of(builder, R.not_equal(rest, zero)), next_values, []

    first, second = builder.emit(R.abs(a)), builder.emit(R.abs(b))
    condition = any_of(builder, R.not_equal(second, zero))
    return iterated(builder, "gcd", PrimValue(MAX_STEPS), condition, [first, second], [], body)[0]


def incomplete_gamma(builder: NodeBuilder, a: Expr, x: Expr, is_upper: bool) -> Expr:
    """Returns a regularized incomplete gamma function of tensors of float64 of equal shape."""
    emit, one, zero, infinity = builder.emit, double(1.0), double(0.0), double(math.inf)
    in_domain = R.logical_and(R.greater(a, zero), R.greater(x, zero))
    finite = R.logical_and(R.less(a, infinity), R.less(x, infinity))
    is_regular = emit(R.logical_and(in_domain, finite))
    order, bound = emit(R.where(is_regular, a, one)), emit(R.where(is_regular, x, one))
    uses_series = emit(R.less_equal(bound, R.maximum(order, one)))
    exponent = R.subtract(R.multiply(order, R.log(bound)), bound)
    factor = emit(R.exp(R.subtract(exponent, R.lgamma(order))))
    lower = R.multiply(_series(builder, order, bound, uses_series), R.divide(factor, order))
    upper = R.multiply(_continued_fraction(builder, order, bound, uses_series), factor)
    complement = R.subtract(one, upper if not is_upper else lower)
    own = (upper, complement) if is_upper else (complement, lower)
    value = emit(R.where(uses_series, own[1], own[0]))
    at_zero, at_infinity = (one, zero) if is_upper else (zero, one)
    result = emit(R.where(is_regular, value, double(math.nan)))
    is_zero_order = R.logical_and(R.equal(a, zero), R.greater(x, zero))
    is_zero_bound = R.logical_and(R.greater(a, zero), R.equal(x, zero))
    is_infinite_order = R.logical_and(R.equal(a, infinity), R.less(R.abs(x), infinity))
    is_infinite_bound = R.logical_and(R.less(R.abs(a), infinity), R.equal(x, infinity))
    is_infinite_bound = R.logical_and(is_infinite_bound, R.greater_equal(a, zero))
    result = R.where(R.logical_or(is_zero_order, is_infinite_bound), at_infinity, result)
    is_infinite_order = R.logical_and(is_infinite_order, R.greater_equal(x, zero))
    result = R.where(R.logical_or(is_zero_bound, is_infinite_order), at_zero, result)
    return emit(result)


def _series(builder: NodeBuilder, a: Expr, x: Expr, is_used: Expr) -> Expr:
    """Returns the sum of x**k / ((a + 1) ... (a + k)) over k >= 0."""
    emit, one = builder.emit, double(1.0)
    bound = emit(R.where(is_used, x, double(0.0)))

    def body(step: Expr, values: list[Expr]) -> tuple[Expr, list[Expr], list[Expr]]:
        divisor, term, total = values
        divisor = emit(R.add(divisor, one))
        term = emit(R.divide(R.multiply(term, bound), divisor))
        total = emit(R.add(total, term))
        is_open = R.greater(term, R.multiply(total, double(EPSILON)))
        return any_of(builder, is_open), [divisor, term, total], []

    ones = emit(R.ones_like(a))
    always = builder.emit(Constant(np.asarray(True)))
    states = [a, ones, ones]
    return iterated(builder, "series", PrimValue(MAX_STEPS), always, states, [], body)[2]


def _continued_fraction(builder: NodeBuilder, a: Expr, x: Expr, is_skipped: Expr) -> Expr:
    """Returns the continued fraction of the upper function; it converges for x > a."""
    emit, one, two = builder.emit, double(1.0), double(2.0)
    order = emit(R.where(is_skipped, one, a))
    bound = emit(R.where(is_skipped, double(3.0), x))

    def body(step: Expr, values: list[Expr]) -> tuple[Expr, list[Expr], list[Expr]]:
        count, y, z, *terms, ratio = values
        count, y, z = emit(R.add(count, one)), emit(R.add(y, one)), emit(R.add(z, two))
        factor = emit(R.multiply(y, count))
        p, q = (
            emit(R.subtract(R.multiply(terms[2 + k], z), R.multiply(terms[k], factor)))
            for k in range(2)
        )
        is_zero = emit(R.equal(q, double(0.0)))
        fraction = R.divide(p, R.where(is_zero, one, q))
        following = emit(R.where(is_zero, ratio, fraction))
        change = R.abs(R.divide(R.subtract(ratio, following), following))
        is_open = R.logical_or(is_zero, R.greater(change, double(8 * EPSILON)))
        is_large = emit(R.greater(R.abs(p), double(SCALE)))
        scale = emit(R.where(is_large, double(1 / SCALE), one))
        scaled = [emit(R.multiply(v, scale)) for v in (terms[2], terms[3], p, q)]
        return any_of(builder, is_open), [count, y, z, *scaled, following], []

    ones = emit(R.ones_like(order))
    y = emit(R.subtract(one, order))
    z = emit(R.add(R.add(bound, y), one))
    terms = [ones, bound, emit(R.add(bound, one)), emit(R.multiply(z, bound))]
    ratio = emit(R.divide(terms[2], terms[3]))
    states = [emit(R.zeros_like(order)), y, z, *terms, ratio]
    always = builder.emit(Constant(np.asarray(True)))
    return iterated(builder, "fraction", PrimValue(MAX_STEPS), always, states, [], body)[7]
