"""Mappings of interpolation and grid sampling of images."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from itertools import product as combinations
from typing import Any

import attrs

from structir.frontend.torch.node import FxNode
from structir.frontend.torch.ops.image_bytes import resized_bytes
from structir.frontend.torch.registry import torch_op
from structir.frontend.torch.scalars import (
    as_tensor,
    cast,
    index_range,
    number,
    reshape_to,
    size_number,
)
from structir.ir import dims
from structir.ir.dims import Dim
from structir.ir.expr import Expr, Tuple
from structir.script import R

WORK = "float64"  # dtype of coordinates and weights; products have the operand's dtype
Tap = tuple[Expr, Expr]  # coordinate of an element, and its weight


@attrs.frozen(eq=False)
class ScaledAxis:
    """One axis to be resized; `factor` is the scale factor if the node has one."""

    index: int
    old: Dim
    new: Dim
    factor: float | None


def _real(value: float) -> Expr:
    return number(value, WORK)


def _axes(node: FxNode) -> list[ScaledAxis]:
    name = "self" if "self" in node.spec.args else "input"
    sizes, out_sizes = node.dims(name), node.out_dims()
    count = len(sizes) - 2
    factors = node.arg("scale_factors", None)
    if factors is None:
        names = ("scales",) if count == 1 else ("scales_d", "scales_h", "scales_w")[-count:]
        factors = [node.arg(n, None) for n in names]
    constants = [f if isinstance(f, int | float) else None for f in factors]
    return [
        ScaledAxis(
            2 + k, sizes[2 + k], out_sizes[2 + k], constants[k] if k < len(constants) else None
        )
        for k in range(count)
    ]


def _image(node: FxNode) -> Expr:
    return node["self" if "self" in node.spec.args else "input"]


def _input_step(axis: ScaledAxis) -> Expr:
    """Returns the distance between output elements in units of input elements."""
    if axis.factor:
        return _real(1.0 / axis.factor)
    return R.divide(size_number(axis.old, WORK), size_number(axis.new, WORK))


def _resize(node: FxNode, taps: Callable[[FxNode, ScaledAxis], list[Tap]]) -> Expr:
    x = node.emit(_image(node))
    dtype = node.dtype_of(x)
    if dtype == "uint8":
        matrices = [None if _is_same(a) else _tap_matrix(node, a, taps) for a in _axes(node)]
        return resized_bytes(node, x, matrices)
    for axis in _axes(node):
        if _is_same(axis):
            continue
        trailing = [1] * (len(node.dims_of(x)) - 1 - axis.index)
        terms = []
        for coordinate, weight in taps(node, axis):
            factor = reshape_to(node.fold(cast(weight, dtype)), (axis.new, *trailing))
            terms.append(
                R.multiply(R.take(x, _inside(node, coordinate, axis), axis=axis.index), factor)
            )
        x = node.emit(reduce(R.add, terms))
    return x


def _is_same(axis: ScaledAxis) -> bool:
    return dims.equal(axis.old, axis.new) is True and axis.factor in (None, 1.0)


def _tap_matrix(
    node: FxNode, axis: ScaledAxis, taps: Callable[[FxNode, ScaledAxis], list[Tap]]
) -> Expr:
    """Returns the weights (new, old) of input elements for each output element."""
    indices, terms = index_range(axis.old), []
    for coordinate, weight in taps(node, axis):
        is_read = R.equal(reshape_to(_inside(node, coordinate, axis), (axis.new, 1)), indices)
        terms.append(R.multiply(cast(is_read, WORK), reshape_to(weight, (axis.new, 1))))
    return node.fold(reduce(R.add, terms))


def _inside(node: FxNode, coordinate: Expr, axis: ScaledAxis) -> Expr:
    """Returns coordinates as indices, clamped to the axis."""
    nonnegative = R.maximum(coordinate, _real(0.0))
    return node.fold(cast(R.minimum(nonnegative, as_tensor(axis.old - 1, WORK)), "int64"))


def _coordinates(node: FxNode, axis: ScaledAxis) -> Expr:
    """Returns the input coordinate of each output element."""
    indices = index_range(axis.new, WORK)
    if node.flag("align_corners"):
        last = R.maximum(as_tensor(axis.new - 1, WORK), _real(1.0))
        return R.divide(R.multiply(indices, as_tensor(axis.old - 1, WORK)), last)
    half = _real(0.5)
    return R.subtract(R.multiply(R.add(indices, half), _input_step(axis)), half)


def _linear(node: FxNode, axis: ScaledAxis) -> list[Tap]:
    coordinate = node.fold(R.maximum(_coordinates(node, axis), _real(0.0)))
    base = node.fold(R.floor(coordinate))
    fraction = node.fold(R.subtract(coordinate, base))
    one = _real(1.0)
    return [(base, R.subtract(one, fraction)), (R.add(base, one), fraction)]


def _cubic(node: FxNode, axis: ScaledAxis) -> list[Tap]:
    coordinate = node.fold(_coordinates(node, axis))
    base = node.fold(R.floor(coordinate))
    fraction = node.fold(R.subtract(coordinate, base))
    return [(R.add(base, _real(float(k))), w) for k, w in cubic_weights(fraction, -0.75, _real)]


def cubic_polynomials(
    a: float, real: Callable[[float], Expr]
) -> tuple[Callable[[Expr], Expr], Callable[[Expr], Expr]]:
    """Returns the weights of an element as functions of its distance: up to 1, and from 1 to 2."""

    def polynomial(d: Expr, *factors: float) -> Expr:
        result = real(factors[0])
        for factor in factors[1:]:
            result = R.add(R.multiply(result, d), real(factor))
        return result

    def near(d: Expr) -> Expr:
        return polynomial(d, a + 2, -(a + 3), 0.0, 1.0)

    def far(d: Expr) -> Expr:
        return polynomial(d, a, -5 * a, 8 * a, -4 * a)

    return near, far


def cubic_weights(
    fraction: Expr, a: float, real: Callable[[float], Expr]
) -> list[tuple[int, Expr]]:
    """Returns the offsets and weights of the four elements around a coordinate."""
    near, far = cubic_polynomials(a, real)
    one = real(1.0)
    remainder = R.subtract(one, fraction)
    return [
        (-1, far(R.add(fraction, one))),
        (0, near(fraction)),
        (1, near(remainder)),
        (2, far(R.add(remainder, one))),
    ]


@torch_op("upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d")
def upsample_linear(node: FxNode) -> Expr:
    return _resize(node, _linear)


torch_op("upsample_bicubic2d")(lambda node: _resize(node, _cubic))


@torch_op("upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d")
def upsample_nearest(node: FxNode) -> Expr:
    return _nearest(node, 0.0)


@torch_op("_upsample_nearest_exact1d", "_upsample_nearest_exact2d", "_upsample_nearest_exact3d")
def upsample_nearest_exact(node: FxNode) -> Expr:
    return _nearest(node, 0.5)


def _nearest(node: FxNode, offset: float) -> Expr:
    x = _image(node)
    for axis in _axes(node):
        ratio = dims.exact_quotient(axis.new, axis.old)
        if isinstance(ratio, int) and axis.factor in (None, ratio):
            x = node.emit(R.repeat(x, ratio, axis=axis.index)) if ratio > 1 else x
            continue
        indices = R.add(index_range(axis.new, "float32"), number(offset, "float32"))
        coordinate = R.floor(R.multiply(indices, cast(_input_step(axis), "float32")))
        x = node.emit(R.take(x, _inside(node, cast(coordinate, WORK), axis), axis=axis.index))
    return x


# ---- with antialiasing


torch_op("_upsample_bilinear2d_aa")(lambda node: _antialiased(node, _triangle))
torch_op("_upsample_bicubic2d_aa")(lambda node: _antialiased(node, _cubic_filter))


def _triangle(distance: Expr) -> Expr:
    return R.maximum(R.subtract(_real(1.0), distance), _real(0.0))


def _cubic_filter(distance: Expr) -> Expr:
    near, far = cubic_polynomials(-0.5, _real)
    outer = R.where(R.less(distance, _real(2.0)), far(distance), _real(0.0))
    return R.where(R.less(distance, _real(1.0)), near(distance), outer)


def _antialiased(node: FxNode, weight_of: Callable[[Expr], Expr]) -> Expr:
    """Returns an image resized by a product with a matrix of filter weights per axis."""
    axes, image, dtype = _axes(node), node.emit(_image(node)), node.out_dtype()
    if dtype == "uint8":
        matrices = [None if _is_same(a) else _filter_matrix(node, a, weight_of) for a in axes]
        return resized_bytes(node, image, matrices)
    rows, columns = (node.fold(cast(_filter_matrix(node, a, weight_of), dtype)) for a in axes)
    return R.matmul(rows, R.matmul(image, R.permute_dims(columns)))


def _filter_matrix(node: FxNode, axis: ScaledAxis, weight_of: Callable[[Expr], Expr]) -> Expr:
    """Returns the weights (new, old) of input elements for each output element.

    When the axis shrinks, the filter is as wide as the distance between output elements.
    """
    step = node.fold(_aligned_step(axis) if node.flag("align_corners") else _input_step(axis))
    half = _real(0.5)
    centre = R.multiply(R.add(index_range(axis.new, WORK), half), step)
    position = R.add(index_range(axis.old, WORK), half)
    offset = R.subtract(position, reshape_to(centre, (axis.new, 1)))
    distance = node.fold(R.divide(R.abs(offset), R.maximum(step, _real(1.0))))
    weights = node.fold(weight_of(distance))
    total = R.sum(weights, axis=[1], keepdims=True)
    return node.fold(R.divide(weights, total))


def _aligned_step(axis: ScaledAxis) -> Expr:
    """Returns the distance between output elements if the corners are aligned."""
    last = R.maximum(as_tensor(axis.new - 1, WORK), _real(1.0))
    return R.divide(as_tensor(axis.old - 1, WORK), last)


# ---- grids

MODES = {0: "linear", 1: "nearest", 2: "cubic"}
PADDINGS = {0: "zeros", 1: "border", 2: "reflection"}


@torch_op("grid_sampler", "grid_sampler_2d", "grid_sampler_3d")
def grid_sample(node: FxNode) -> Expr:
    mode, padding = MODES[node.plain("interpolation_mode")], PADDINGS[node.plain("padding_mode")]
    sizes = node.dims("input")[2:]
    count = len(sizes)
    sampler = GridSampler(node, padding, node.flag("align_corners"))
    taps = [
        sampler.taps(sampler.coordinate(count - 1 - k, n), n, mode) for k, n in enumerate(sizes)
    ]
    image = node.emit(R.permute_dims(node["input"], [0, *range(2, count + 2), 1]))
    terms = []
    for corner in combinations(*taps):
        weight = reduce(R.multiply, [w for _, w in corner])
        indices = R.stack(Tuple(tuple([a for a, _ in corner])), axis=count + 1)
        samples = R.gather_nd(image, indices, batch_dims=1)
        terms.append(R.multiply(samples, R.expand_dims(weight, [count + 1])))
    result = node.emit(reduce(R.add, terms))
    return R.permute_dims(result, [0, count + 1, *range(1, count + 1)])


@attrs.frozen(eq=False)
class GridSampler:
    """The sampling of a grid: interpolation, padding mode and corner alignment."""

    node: FxNode
    padding: str
    aligned: bool

    def number(self, value: Any) -> Expr:
        """Returns a number in the dtype of the grid."""
        return as_tensor(value, self.node.dtype("grid"))

    def coordinate(self, k: int, size: Dim) -> Expr:
        """Returns a grid coordinate in units of image elements."""
        last = self.node.rank("grid") - 1
        grid = R.squeeze(R.strided_slice(self.node["grid"], [last], (k,), (k + 1,)), [last])
        shifted = R.add(grid, self.number(1.0))
        half = self.number(0.5)
        if self.aligned:
            return self.node.emit(R.multiply(shifted, R.multiply(half, self.number(size - 1))))
        scaled = R.multiply(shifted, self.number(size))
        return self.node.emit(R.multiply(R.subtract(scaled, self.number(1.0)), half))

    def clamp(self, coordinate: Expr, size: Dim) -> Expr:
        """Returns a coordinate mapped into the image according to the padding mode."""
        last = self.number(size - 1)
        if self.padding == "reflection":
            coordinate = self.reflect(coordinate, size)
        return R.minimum(R.maximum(coordinate, self.number(0.0)), last)

    def reflect(self, coordinate: Expr, size: Dim) -> Expr:
        """Returns a coordinate reflected at the borders: element centres if `aligned`, else element
        edges."""
        low = 0.0 if self.aligned else -0.5
        span = self.number(size - 1 if self.aligned else size)
        span = R.maximum(span, self.number(1e-6))
        distance = self.node.emit(R.abs(R.subtract(coordinate, self.number(low))))
        reflections = self.node.emit(R.floor(R.divide(distance, span)))
        remainder = self.node.emit(R.subtract(distance, R.multiply(reflections, span)))
        two = self.number(2.0)
        is_even = R.equal(R.floor_mod(reflections, two), self.number(0.0))
        inner = R.where(is_even, remainder, R.subtract(span, remainder))
        return R.add(inner, self.number(low))

    def taps(self, coordinate: Expr, size: Dim, mode: str) -> list[Tap]:
        """Returns the elements to interpolate along an axis, with their weights."""
        if mode != "cubic" and self.padding != "zeros":
            coordinate = self.node.emit(self.clamp(coordinate, size))
        if mode == "nearest":
            return [self.tap(R.round(coordinate), self.number(1.0), size)]
        base = self.node.emit(R.floor(coordinate))
        fraction = self.node.emit(R.subtract(coordinate, base))
        one = self.number(1.0)
        if mode == "linear":
            weights = [(0, R.subtract(one, fraction)), (1, fraction)]
        else:
            weights = cubic_weights(fraction, -0.75, self.number)
        return [self.tap(R.add(base, self.number(float(k))), w, size) for k, w in weights]

    def tap(self, coordinate: Expr, weight: Expr, size: Dim) -> Tap:
        """Returns one element and its weight, which is 0 outside the image with zero padding."""
        coordinate = self.node.emit(coordinate)
        if self.padding == "zeros":
            inside = R.logical_and(
                R.greater_equal(coordinate, self.number(0.0)),
                R.less_equal(coordinate, self.number(size - 1)),
            )
            weight = self.node.emit(R.where(inside, weight, self.number(0.0)))
            coordinate = R.minimum(R.maximum(coordinate, self.number(0.0)), self.number(size - 1))
        else:
            coordinate = self.clamp(coordinate, size)
        sizes = self.node.dims_of(coordinate)  # a constant weight is broadcast over the coordinates
        weight = R.broadcast_to(weight, sizes) if self.node.dims_of(weight) != sizes else weight
        return self.node.emit(cast(coordinate, "int64")), self.node.emit(weight)


@torch_op("affine_grid_generator", "affine_grid_generator.default")
def affine_grid(node: FxNode) -> Expr:
    batch, _, *spatial = node.sizes("size")
    dtype, count = node.out_dtype(), len(spatial)
    align_corners = node.flag("align_corners")
    axis_coordinates = []
    for k, size in enumerate(spatial):
        indices, count_value = index_range(size, dtype), as_tensor(size, dtype)
        one, two = number(1, dtype), number(2, dtype)
        if align_corners:
            last = R.maximum(R.subtract(count_value, one), one)
            coordinates = R.subtract(R.divide(R.multiply(two, indices), last), one)
        else:
            coordinates = R.subtract(
                R.divide(R.add(R.multiply(two, indices), one), count_value), one
            )
        coordinates = reshape_to(coordinates, (size, *[1] * (count - 1 - k)))
        axis_coordinates.append(R.broadcast_to(coordinates, tuple(spatial)))
    ones = R.full(tuple(spatial), number(1, dtype))
    points = R.stack(Tuple((*reversed(axis_coordinates), ones)), axis=count)
    point_count = reduce(lambda a, b: a * b, spatial)
    result = R.matmul(
        reshape_to(points, (point_count, count + 1)), R.permute_dims(node["theta"], [0, 2, 1])
    )
    return reshape_to(result, (batch, *spatial, count))
