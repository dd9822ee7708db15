"""The regularized incomplete beta function, by a loop until all elements converge.

Sources: the continued fraction 8.17.22 of the NIST Digital Library of Mathematical Functions,
evaluated by Lentz's method as modified by Thompson and Barnett (1986).
"""

from __future__ import annotations

import math

import numpy as np

from structir.frontend.builder import NodeBuilder
from structir.frontend.iterated_functions import EPSILON, MAX_STEPS, any_of, double
from structir.frontend.iteration import iterated
from structir.ir.expr import Constant, Expr, PrimValue
from structir.script import R

TINY = 1e-300  # in place of a denominator of 0


def incomplete_beta(builder: NodeBuilder, a: Expr, b: Expr, x: Expr) -> Expr:
    """Returns I_x(a, b) of tensors of float64 of equal shape.

    It is 0 at x = 0 and 1 at x = 1; between, it is 1 if only a is 0, and 0 if only b is. It is NaN
    for other a and b that are not positive, and outside of 0 <= x <= 1.
    """
    emit, one, zero = builder.emit, double(1.0), double(0.0)
    positive = R.logical_and(R.greater(a, zero), R.greater(b, zero))
    finite = R.less(R.add(a, b), double(math.inf))
    has_powers = emit(R.logical_and(positive, finite))
    inside = R.logical_and(R.greater(x, zero), R.less(x, one))
    is_regular = emit(R.logical_and(has_powers, inside))
    p, q = (emit(R.where(is_regular, power, one)) for power in (a, b))
    bound = emit(R.where(is_regular, x, double(0.5)))
    # the fraction converges fast below the mean of the distribution; I_x(a, b) = 1 - I_1-x(b, a)
    mean = R.divide(R.add(p, one), R.add(R.add(p, q), double(2.0)))
    is_swapped = emit(R.greater(bound, mean))
    rest = emit(R.subtract(one, bound))
    first, second = emit(R.where(is_swapped, q, p)), emit(R.where(is_swapped, p, q))
    point = emit(R.where(is_swapped, rest, bound))
    logs = R.add(R.multiply(p, R.log(bound)), R.multiply(q, R.log1p(R.negative(bound))))
    scale = R.subtract(R.lgamma(R.add(p, q)), R.add(R.lgamma(p), R.lgamma(q)))
    factor = R.divide(R.exp(R.add(logs, scale)), first)
    part = emit(R.multiply(factor, _continued_fraction(builder, first, second, point)))
    value = emit(R.where(is_swapped, R.subtract(one, part), part))
    # at the ends, and for a power of 0
    in_range = R.logical_and(R.greater_equal(x, zero), R.less_equal(x, one))
    one_is_zero = R.logical_xor(R.equal(a, zero), R.equal(b, zero))
    is_limit = R.logical_and(one_is_zero, R.greater(R.add(a, b), zero))
    is_known = R.logical_and(in_range, R.logical_or(has_powers, is_limit))
    limit = R.where(R.equal(x, zero), zero, R.where(R.equal(a, zero), one, zero))
    limit = R.where(R.equal(x, one), one, limit)
    at_ends = R.where(is_known, limit, double(math.nan))
    return emit(R.where(is_regular, value, at_ends))


def _continued_fraction(builder: NodeBuilder, a: Expr, b: Expr, x: Expr) -> Expr:
    """Returns 1 / (1 + d1 / (1 + d2 / ...)) for the coefficients d of the function."""
    emit, one = builder.emit, double(1.0)
    total = emit(R.add(a, b))

    def nonzero(value: Expr) -> Expr:
        value = emit(value)
        return emit(R.where(R.less(R.abs(value), double(TINY)), double(TINY), value))

    def extended(coefficient: Expr, c: Expr, d: Expr, result: Expr) -> tuple[Expr, Expr, Expr]:
        coefficient = emit(coefficient)
        d = emit(R.divide(one, nonzero(R.add(one, R.multiply(coefficient, d)))))
        c = nonzero(R.add(one, R.divide(coefficient, c)))
        return c, d, emit(R.multiply(result, R.multiply(c, d)))

    def body(step: Expr, values: list[Expr]) -> tuple[Expr, list[Expr], list[Expr]]:
        count, c, d, result = values
        count = emit(R.add(count, one))
        twice = emit(R.add(a, R.multiply(count, double(2.0))))
        even = R.multiply(R.multiply(count, R.subtract(b, count)), x)
        even = R.divide(even, R.multiply(R.subtract(twice, one), twice))
        c, d, result = extended(even, c, d, result)
        odd = R.multiply(R.multiply(R.add(a, count), R.add(total, count)), x)
        odd = R.divide(R.negative(odd), R.multiply(twice, R.add(twice, one)))
        c, d, result = extended(odd, c, d, result)
        change = R.abs(R.subtract(R.multiply(c, d), one))
        is_open = any_of(builder, R.greater(change, double(4 * EPSILON)))
        return is_open, [count, c, d, result], []

    ones = emit(R.ones_like(a))
    d1 = R.divide(R.negative(R.multiply(total, x)), R.add(a, one))
    d = emit(R.divide(one, nonzero(R.add(one, d1))))
    states = [emit(R.zeros_like(a)), ones, d, d]
    always = emit(Constant(np.asarray(True)))
    return iterated(builder, "fraction", PrimValue(MAX_STEPS), always, states, [], body)[3]
