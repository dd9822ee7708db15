"""Batch normalization by constants, as importers build it: one factor and one summand per channel.

A convolution before it takes both into its epilogue, where they are one multiply-add.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from structir.ir.expr import Constant, Expr
from structir.script import R


def scale_and_shift(
    x: Expr,
    affine: Sequence[Expr],
    epsilon: float,
    dtype: str,
    rank: int,
    fold: Callable[[Expr], Expr],
) -> Expr:
    """Returns the normalization of `x` along axis 1. `affine` are the constants weight, bias, mean
    and variance, and `fold` evaluates an expression of constants."""
    shape = (-1, *[1] * (rank - 2))
    weight, bias, mean, variance = [R.astype(each, "float64") for each in affine]
    deviation = R.add(variance, Constant(np.asarray(epsilon, "float64")))
    factor = fold(R.multiply(weight, R.rsqrt(deviation)))
    summand = R.subtract(bias, R.multiply(mean, factor))
    per_channel = [fold(R.astype(R.reshape(each, shape), dtype)) for each in (factor, summand)]
    return R.add(R.multiply(x, per_channel[0]), per_channel[1])
