"""Bessel functions of the first and second kind, modified ones of the second kind, and the Airy
function of float64 tensors, by Chebyshev series."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

import structir.frontend.bessel_series as series
from structir.frontend.special_functions import bessel_i, chebyshev_series
from structir.ir.expr import Constant, Expr
from structir.script import R

Emit = Callable[[Expr], Expr]
AIRY_BOUND = 4.0  # the series of the Airy function end there
AIRY_ARGUMENT = 2.0 / 3.0 * AIRY_BOUND**1.5


def _double(value: float) -> Expr:
    return Constant(np.asarray(value, "float64"))


def bessel_j(x: Expr, order: int, emit: Emit) -> Expr:
    """Returns the Bessel function of the first kind of order 0 or 1."""
    distance = emit(R.abs(x))
    large = _waves(distance, order, is_second=False, emit=emit)
    result = emit(R.where(R.less(distance, _double(8.0)), _small_j(distance, order, emit), large))
    return emit(R.multiply(result, R.sign(x))) if order else result


def bessel_y(x: Expr, order: int, emit: Emit) -> Expr:
    """Returns the Bessel function of the second kind of order 0 or 1: NaN below 0."""
    near = emit(R.minimum(x, _double(8.0)))
    table = series.SMALL_Y1 if order else series.SMALL_Y0
    regular = chebyshev_series(_of_square(near, emit), table, emit)
    regular = emit(R.multiply(regular, near)) if order else regular
    singular = R.multiply(R.log(near), _small_j(near, order, emit))
    singular = R.subtract(singular, R.divide(_double(1.0), near)) if order else singular
    small = R.add(R.multiply(singular, _double(2.0 / math.pi)), regular)
    small = R.where(R.equal(x, _double(0.0)), _double(-math.inf), small)
    large = _waves(x, order, is_second=True, emit=emit)
    result = R.where(R.less(x, _double(8.0)), small, large)
    return emit(R.where(R.less(x, _double(0.0)), _double(math.nan), result))


def bessel_k(x: Expr, order: int, is_scaled: bool, emit: Emit) -> Expr:
    """Returns the modified Bessel function of the second kind of order 0 or 1, times exp(x) if
    scaled: NaN below 0."""
    near = emit(R.minimum(R.maximum(x, _double(0.0)), _double(2.0)))
    far = emit(R.maximum(x, _double(2.0)))
    square = emit(R.multiply(near, near))
    u = emit(R.subtract(R.multiply(square, _double(0.5)), _double(1.0)))
    regular = chebyshev_series(u, series.SMALL_K1 if order else series.SMALL_K0, emit)
    logarithm = emit(R.log(R.multiply(near, _double(0.5))))
    product = R.multiply(logarithm, bessel_i(near, order, is_scaled=False, emit=emit))
    small = R.add(R.divide(regular, near), product) if order else R.subtract(regular, product)
    small = R.multiply(small, R.exp(near)) if is_scaled else small
    small = R.where(R.equal(x, _double(0.0)), _double(math.inf), small)
    v = emit(R.subtract(R.divide(_double(4.0), far), _double(1.0)))
    large = chebyshev_series(v, series.LARGE_K1 if order else series.LARGE_K0, emit)
    large = R.divide(large, R.sqrt(far))
    large = large if is_scaled else R.multiply(large, R.exp(R.negative(far)))
    result = R.where(R.less_equal(x, _double(2.0)), small, large)
    return emit(R.where(R.less(x, _double(0.0)), _double(math.nan), result))


def spherical_bessel_j0(x: Expr, emit: Emit) -> Expr:
    """Returns sin(x) / x: 1 at 0, and 0 at infinity."""
    result = R.divide(R.sin(x), x)
    result = R.where(R.equal(x, _double(0.0)), _double(1.0), result)
    is_infinite = R.equal(R.abs(x), _double(math.inf))
    return emit(R.where(is_infinite, _double(0.0), result))


def airy(x: Expr, emit: Emit) -> Expr:
    """Returns the Airy function; NaN at infinity, as in torch."""
    bound = _double(AIRY_BOUND)
    near = R.minimum(R.maximum(x, R.negative(bound)), bound)
    middle = chebyshev_series(emit(R.divide(near, bound)), series.SMALL_AIRY, emit)
    distance = emit(R.maximum(R.abs(x), bound))
    z = emit(R.multiply(R.multiply(distance, R.sqrt(distance)), _double(2.0 / 3.0)))
    ratio = emit(R.divide(_double(AIRY_ARGUMENT), z))
    root = emit(R.sqrt(R.sqrt(distance)))
    u = emit(R.subtract(R.multiply(ratio, _double(2.0)), _double(1.0)))
    decay = R.multiply(chebyshev_series(u, series.POSITIVE_AIRY, emit), R.exp(R.negative(z)))
    v = R.subtract(R.multiply(R.multiply(ratio, ratio), _double(2.0)), _double(1.0))
    cosine, sine = _wave(z, math.pi / 4, emit)
    p = chebyshev_series(emit(v), series.NEGATIVE_AIRY_P, emit)
    q = R.divide(chebyshev_series(emit(v), series.NEGATIVE_AIRY_Q, emit), z)
    wave = R.add(R.multiply(p, cosine), R.multiply(q, sine))
    wave = R.multiply(wave, _double(1.0 / math.sqrt(math.pi)))
    outer = R.divide(R.where(R.greater(x, _double(0.0)), decay, wave), root)
    result = R.where(R.less(R.abs(x), bound), middle, outer)
    is_infinite = R.equal(R.abs(x), _double(math.inf))
    return emit(R.where(is_infinite, _double(math.nan), result))


def _of_square(x: Expr, emit: Emit) -> Expr:
    return emit(R.subtract(R.multiply(R.multiply(x, x), _double(1.0 / 32.0)), _double(1.0)))


def _small_j(x: Expr, order: int, emit: Emit) -> Expr:
    """Returns the function of the first kind for 0 <= x <= 8."""
    table = series.SMALL_J1 if order else series.SMALL_J0
    result = chebyshev_series(_of_square(emit(R.minimum(x, _double(8.0))), emit), table, emit)
    return emit(R.multiply(result, x)) if order else result


def _waves(x: Expr, order: int, is_second: bool, emit: Emit) -> Expr:
    """Returns the function of the first or second kind for x >= 8, in Hankel's form."""
    far = emit(R.maximum(x, _double(8.0)))
    ratio = emit(R.divide(_double(8.0), far))
    v = R.subtract(R.multiply(R.multiply(ratio, ratio), _double(2.0)), _double(1.0))
    p_table, q_table = [
        (series.LARGE_P0, series.LARGE_Q0),
        (series.LARGE_P1, series.LARGE_Q1),
    ][order]
    p = chebyshev_series(emit(v), p_table, emit)
    q = emit(R.multiply(chebyshev_series(emit(v), q_table, emit), ratio))
    cosine, sine = _wave(far, order * math.pi / 2 + math.pi / 4, emit)
    if is_second:
        wave = R.add(R.multiply(p, sine), R.multiply(q, cosine))
    else:
        wave = R.subtract(R.multiply(p, cosine), R.multiply(q, sine))
    return emit(R.multiply(R.sqrt(R.divide(_double(2.0 / math.pi), far)), wave))


def _wave(x: Expr, phase: float, emit: Emit) -> tuple[Expr, Expr]:
    """Returns the cosine and the sine of x - phase."""
    angle = emit(R.subtract(x, _double(phase)))
    return emit(R.cos(angle)), emit(R.sin(angle))
