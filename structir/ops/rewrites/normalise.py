"""Rewrites of normalizations with constant statistics."""

from __future__ import annotations

from collections.abc import Iterator

from structir.ir.expr import Expr
from structir.opdef.attributes import Ints
from structir.ops.broadcast import add, multiply, subtract
from structir.ops.conv import conv2d
from structir.ops.elementwise import rsqrt
from structir.ops.layout import expand_dims
from structir.ops.normalise import batch_norm
from structir.rewriting.guards import used_once
from structir.rewriting.rule import rewrite


@rewrite(tolerance=1e-3)
def fold_batch_norm(
    x: Expr,
    weight: Expr,
    gamma: Expr,
    beta: Expr,
    mean: Expr,
    var: Expr,
    strides: Ints,
    padding: Ints,
    dilation: Ints,
    groups: int,
    epsilon: float,
) -> Iterator[Expr]:
    """Folds inference batch_norm into the preceding convolution."""
    convolution = conv2d(
        x, weight, strides=strides, padding=padding, dilation=dilation, groups=groups
    )
    normalized = batch_norm(convolution, gamma, beta, mean, var, 1, epsilon=epsilon, training=False)
    yield normalized[0]
    if used_once(convolution):
        factor = multiply(gamma, rsqrt(var + epsilon))
        scaled = multiply(weight, expand_dims(factor, axis=(1, 2, 3)))
        shift = expand_dims(subtract(beta, multiply(mean, factor)), axis=(1, 2))
        folded = conv2d(
            x, scaled, strides=strides, padding=padding, dilation=dilation, groups=groups
        )
        yield add(folded, shift)
