"""Interpolation of images, as importers build it: cubic weights, and grids of samples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from itertools import product as combinations
from math import prod
from typing import Any

import attrs

from structir.frontend.scalars import dims_of, index_range, number, reshape_to, size_number
from structir.ir.dims import Dim
from structir.ir.expr import Expr, ShapeExpr, Tuple
from structir.script import R

Tap = tuple[Expr, Expr]  # coordinate of an element, and its weight
Real = Callable[[float], Expr]


def _cubic_polynomials(a: float, real: Real) -> tuple[Callable[[Expr], Expr], ...]:
    """Returns the weights of an element as functions of its distance: up to 1, and from 1 to 2."""

    def polynomial(*factors: float) -> Callable[[Expr], Expr]:
        return lambda d: reduce(
            lambda total, factor: R.add(R.multiply(total, d), real(factor)),
            factors[1:],
            real(factors[0]),
        )

    return polynomial(a + 2, -(a + 3), 0.0, 1.0), polynomial(a, -5 * a, 8 * a, -4 * a)


def cubic_weights(fraction: Expr, a: float, real: Real) -> list[tuple[int, Expr]]:
    """Returns the offsets and weights of the four elements around a coordinate."""
    near, far = _cubic_polynomials(a, real)
    one = real(1.0)
    remainder = R.subtract(one, fraction)
    return [
        (-1, far(R.add(fraction, one))),
        (0, near(fraction)),
        (1, near(remainder)),
        (2, far(R.add(remainder, one))),
    ]


def cubic_filter(distance: Expr, a: float, real: Real) -> Expr:
    """Returns the weights of elements at distances, 0 beyond 2."""
    near, far = _cubic_polynomials(a, real)
    outer = R.where(R.less(distance, real(2.0)), far(distance), real(0.0))
    return R.where(R.less(distance, real(1.0)), near(distance), outer)


def affine_grid(theta: Expr, sizes: Sequence[Dim], dtype: str, aligned: bool) -> Expr:
    """Returns the grid of affine transformations of an image of sizes (batch, channels, ...)."""
    batch, _, *spatial = sizes
    count, one, two = len(spatial), number(1, dtype), number(2, dtype)
    axes = []
    for k, size in enumerate(spatial):
        indices, total = index_range(size, dtype), size_number(size, dtype)
        doubled = R.multiply(two, indices)
        if aligned:
            ratio = R.divide(doubled, R.maximum(R.subtract(total, one), one))
        else:
            ratio = R.divide(R.add(doubled, one), total)
        coordinates = reshape_to(R.subtract(ratio, one), (size, *[1] * (count - 1 - k)))
        axes.append(R.broadcast_to(coordinates, ShapeExpr(tuple(spatial))))
    ones = R.full(ShapeExpr(tuple(spatial)), one)
    points = R.stack(Tuple((*reversed(axes), ones)), axis=count)
    flat = reshape_to(points, (prod(spatial), count + 1))
    result = R.matmul(flat, R.permute_dims(theta, [0, 2, 1]))
    return reshape_to(result, (batch, *spatial, count))


@attrs.frozen(eq=False)
class GridSampler:
    """The sampling of an image at the points of a grid: padding mode and corner alignment."""

    emit: Callable[[Expr], Expr]
    grid: Expr
    dtype: str
    padding: str  # zeros, border or reflection
    aligned: bool

    def sample(self, image: Expr, spatial: Sequence[Dim], mode: str) -> Expr:
        """Returns the samples of an image (batch, channels, *spatial); modes are linear, nearest
        and cubic."""
        count = len(spatial)
        taps = [
            self._taps(self._coordinate(count - 1 - k, count, n), n, mode)
            for k, n in enumerate(spatial)
        ]
        image = self.emit(R.permute_dims(image, [0, *range(2, count + 2), 1]))
        terms = []
        for corner in combinations(*taps):
            weight = reduce(R.multiply, [w for _, w in corner])
            indices = R.stack(Tuple(tuple([a for a, _ in corner])), axis=count + 1)
            samples = R.gather_nd(image, indices, batch_dims=1)
            terms.append(R.multiply(samples, R.expand_dims(weight, [count + 1])))
        result = self.emit(reduce(R.add, terms))
        return R.permute_dims(result, [0, count + 1, *range(1, count + 1)])

    def _number(self, value: Any) -> Expr:
        """Returns a number or a size in the dtype of the grid."""
        is_number = isinstance(value, int | float)
        return number(value, self.dtype) if is_number else size_number(value, self.dtype)

    def _coordinate(self, k: int, last: int, size: Dim) -> Expr:
        """Returns a grid coordinate in units of image elements."""
        axis = [last + 1]
        grid = R.squeeze(R.strided_slice(self.grid, axis, (k,), (k + 1,)), axis)
        one, half = self._number(1.0), self._number(0.5)
        shifted = R.add(grid, one)
        if self.aligned:
            return self.emit(R.multiply(shifted, R.multiply(half, self._number(size - 1))))
        scaled = R.multiply(shifted, self._number(size))
        return self.emit(R.multiply(R.subtract(scaled, one), half))

    def _clamp(self, coordinate: Expr, size: Dim) -> Expr:
        """Returns a coordinate mapped into the image, by reflection if that is the padding mode."""
        if self.padding == "reflection":
            coordinate = self._reflect(coordinate, size)
        return R.minimum(R.maximum(coordinate, self._number(0.0)), self._number(size - 1))

    def _reflect(self, coordinate: Expr, size: Dim) -> Expr:
        """Returns a coordinate reflected at the borders: element centres if `aligned`, else element
        edges."""
        low = self._number(0.0 if self.aligned else -0.5)
        span = self._number(size - 1 if self.aligned else size)
        span = R.maximum(span, self._number(1e-6))
        distance = self.emit(R.abs(R.subtract(coordinate, low)))
        reflections = self.emit(R.floor(R.divide(distance, span)))
        remainder = self.emit(R.subtract(distance, R.multiply(reflections, span)))
        is_even = R.equal(R.floor_mod(reflections, self._number(2.0)), self._number(0.0))
        return R.add(R.where(is_even, remainder, R.subtract(span, remainder)), low)

    def _taps(self, coordinate: Expr, size: Dim, mode: str) -> list[Tap]:
        """Returns the elements to interpolate along an axis, with their weights."""
        if mode != "cubic" and self.padding != "zeros":
            coordinate = self.emit(self._clamp(coordinate, size))
        one = self._number(1.0)
        if mode == "nearest":
            return [self._tap(R.round(coordinate), one, size)]
        base = self.emit(R.floor(coordinate))
        fraction = self.emit(R.subtract(coordinate, base))
        weights = [(0, R.subtract(one, fraction)), (1, fraction)]
        if mode == "cubic":
            weights = cubic_weights(fraction, -0.75, self._number)
        return [self._tap(R.add(base, self._number(float(k))), w, size) for k, w in weights]

    def _tap(self, coordinate: Expr, weight: Expr, size: Dim) -> Tap:
        """Returns one element and its weight, which is 0 outside the image with zero padding."""
        coordinate = self.emit(coordinate)
        zero, last = self._number(0.0), self._number(size - 1)
        if self.padding == "zeros":
            inside = R.logical_and(
                R.greater_equal(coordinate, zero), R.less_equal(coordinate, last)
            )
            weight = self.emit(R.where(inside, weight, zero))
            coordinate = R.minimum(R.maximum(coordinate, zero), last)
        else:
            coordinate = self._clamp(coordinate, size)
        coordinate, weight = self.emit(coordinate), self.emit(weight)
        sizes = dims_of(coordinate)  # a constant weight is broadcast over the coordinates
        if dims_of(weight) != sizes:
            weight = self.emit(R.broadcast_to(weight, ShapeExpr(sizes)))
        return self.emit(R.astype(coordinate, "int64")), weight
