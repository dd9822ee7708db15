"""Interpolation of uint8 images with integer weights of at most 15 bits, as torch computes it."""

from __future__ import annotations

from collections.abc import Sequence

from structir.frontend.scalars import index_range, number
from structir.frontend.torch.node import FxNode
from structir.frontend.torch.scalars import cast
from structir.ir.expr import Expr
from structir.script import R

WORK = "float64"  # exact for sums of weights times elements
WEIGHT_BITS, MAX_PRECISION = 15, 22


def resized_bytes(node: FxNode, image: Expr, matrices: Sequence[Expr | None]) -> Expr:
    """Returns an image multiplied by a matrix (new, old) along each of the last two axes.

    The columns are first, and each product is rounded to uint8. None leaves an axis unchanged.
    """
    rows, columns = matrices
    if columns is not None:
        weights, scale = _integer_weights(node, columns)
        product = R.matmul(cast(image, WORK), R.permute_dims(weights))
        image = _as_bytes(node, product, scale)
    if rows is not None:
        weights, scale = _integer_weights(node, rows)
        image = _as_bytes(node, R.matmul(weights, cast(image, WORK)), scale)
    return image


def _integer_weights(node: FxNode, weights: Expr) -> tuple[Expr, Expr]:
    """Returns weights as integers, and the power of two by which they are scaled.

    It is the largest one with which the greatest weight has less than 16 bits.
    """
    half, two = number(0.5, WORK), number(2.0, WORK)
    powers = R.power(two, R.add(index_range(MAX_PRECISION, WORK), number(1.0, WORK)))
    values = R.add(half, R.multiply(node.emit(R.max(weights)), powers))
    is_too_wide = R.greater_equal(values, number(2.0**WEIGHT_BITS, WORK))
    excess = R.sum(cast(is_too_wide, WORK))
    precision = R.subtract(number(float(MAX_PRECISION), WORK), excess)
    scale = node.fold(R.round(R.power(two, precision)))
    scaled = R.multiply(weights, scale)
    return node.fold(R.trunc(R.add(scaled, R.multiply(R.sign(scaled), half)))), scale


def _as_bytes(node: FxNode, product: Expr, scale: Expr) -> Expr:
    """Returns products divided by the scale, rounded and clamped to uint8."""
    rounded = R.floor(R.add(R.divide(product, scale), number(0.5, WORK)))
    return node.emit(cast(R.clip(rounded, 0.0, 255.0), "uint8"))
