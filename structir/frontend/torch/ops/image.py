"""Mappings of interpolation and grid sampling of images."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

import attrs

from structir.frontend.interpolation import (
    GridSampler,
    Tap,
    affine_grid,
    cubic_filter,
    cubic_weights,
)
from structir.frontend.scalars import index_range, number, reshape_to, size_number
from structir.frontend.torch.node import FxNode
from structir.frontend.torch.ops.image_bytes import resized_bytes
from structir.frontend.torch.registry import torch_op
from structir.frontend.torch.scalars import as_tensor, cast
from structir.ir import dims
from structir.ir.dims import Dim
from structir.ir.expr import Expr
from structir.script import R

WORK = "float64"  # dtype of coordinates and weights; products have the operand's dtype


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
    return cubic_filter(distance, -0.5, _real)


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
    grid, dtype, aligned = node["grid"], node.dtype("grid"), node.flag("align_corners")
    sampler = GridSampler(node.emit, grid, dtype, padding, aligned)
    return sampler.sample(node["input"], node.dims("input")[2:], mode)


@torch_op("affine_grid_generator", "affine_grid_generator.default")
def affine_grid_of_size(node: FxNode) -> Expr:
    sizes, dtype = node.sizes("size"), node.out_dtype()
    return affine_grid(node["theta"], sizes, dtype, node.flag("align_corners"))
