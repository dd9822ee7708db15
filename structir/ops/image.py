"""Ops on images: resizing, sampling at a grid, affine grids."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal, get_args

from structir.errors import Diagnostic, DiagnosticError
from structir.ir.dims import Dim
from structir.ir.dtype import is_int, numpy_dtype
from structir.ir.expr import Call, Constant, Expr
from structir.lazy import lazy_module
from structir.opdef.adjoint_op import Cotangent, Emit
from structir.opdef.attributes import DType, Layout, Numbers, SizeOrSizes
from structir.opdef.call_view import CallView, ResolvedSignature, UnknownShape
from structir.opdef.define import Declaration, op
from structir.opdef.examples import f32
from structir.opdef.index_vars import access_text, index_vars, where_text
from structir.opdef.interpolation import (
    MODES,
    ROUNDINGS,
    Taps,
    clipped,
    in_range,
    nearest,
    place_of,
    places,
    resampled,
    share_of,
    tap_of,
    taps,
    taps_of,
    weight_of,
)
from structir.opdef.layouts import SPATIAL, check_rank, in_layout
from structir.ops.contract import einsum
from structir.ops.create import eye, ones_like
from structir.ops.elementwise import astype
from structir.ops.indexing import take
from structir.ops.joined import concat
from structir.ops.layout import squeeze
from structir.ops.reshape import reshape

np = lazy_module("numpy")
Array = Any
Method = Literal["nearest_neighbor", "linear", "cubic"]
SAMPLING_METHODS = ("nearest", "bilinear", "bicubic")
METHODS: tuple[str, ...] = get_args(Method)
Coordinates = Literal[
    "half_pixel",
    "align_corners",
    "asymmetric",
    "pytorch_half_pixel",
    "tf_half_pixel_for_nn",
]
Rounding = Literal["", "round", "floor", "ceil", "round_prefer_floor", "round_prefer_ceil"]


def target_sizes(call: CallView, name: str, count: int) -> tuple[Any, ...] | None:
    """Returns a size attribute with one number per spatial axis; None where unknown."""
    value = call[name]
    if isinstance(value, UnknownShape):
        if value.ndim not in (None, count):
            call.reject(f"{name}: expected {count} sizes, found {value.ndim}")
        return None
    value = value if isinstance(value, tuple) else (value,)
    value = value * count if len(value) == 1 else value
    if len(value) != count:
        call.reject(f"{name}: expected 1 or {count} numbers, found {len(value)}")
    return tuple(value)


def resize_signature(call: CallView) -> ResolvedSignature:
    """Returns the signature in which the body receives the spatial axes whole."""
    count = int(call.op[-2])
    layout = call["layout"] or "NC" + SPATIAL[count]
    check_rank(call, "x", layout)
    missing = [axis for axis in SPATIAL[count] if axis not in layout]
    if missing:
        call.reject(f"layout: expected an axis {missing[0]}, found {layout}")
    new_sizes = target_sizes(call, "size", count)
    axes = sorted(SPATIAL[count], key=layout.find)  # in memory order
    sizes = index_vars(count, "h") if new_sizes is not None else ["_"] * count
    in_axes = {axis: f"[y{k}]" for k, axis in enumerate(axes)}
    out_axes = dict(zip(axes, sizes, strict=True))
    reads = access_text("x", in_layout(call, layout, {"N": "n", "C": "c", **in_axes}))
    out = access_text("out", in_layout(call, layout, {"N": "n", "C": "c", **out_axes}))
    positions = [SPATIAL[count].index(axis) for axis in axes]
    checks = [
        f"h{k} == new_sizes[{position}]"
        for k, position in enumerate(positions)
        if new_sizes is not None
    ]
    dtype = call["out_dtype"] or getattr(call.info("x"), "dtype", None) or "float32"
    numbers = {
        "new_sizes": new_sizes,
        "interpolation": METHODS.index(call["method"]),
        "mode": MODES.index(call["coordinate_transformation_mode"]),
        "rounding": ROUNDINGS.index(call["rounding_method"]),
        "exclude_outside": bool(call["cubic_exclude"]),
        "integral": is_int(dtype),
    }
    numbers |= {
        f"count{k}": new_sizes[position]
        for k, position in enumerate(positions)
        if new_sizes is not None
    }
    return ResolvedSignature(f"{reads} -> {out} @ out_dtype or T", where_text(checks), "", numbers)


def _declare_resize2d_kernel(resize: Declaration) -> None:
    @resize.kernel("cpu")
    def _(
        x: Array,
        out: Array,
        h0: int,
        h1: int,
        count0: int,
        count1: int,
        interpolation: int,
        mode: int,
        rounding: int,
        cubic_alpha: float,
        exclude_outside: bool,
        integral: bool,
    ) -> None:
        rows, columns = x.shape
        top = place_of(h0, rows, count0, mode)
        left = place_of(h1, columns, count1, mode)
        total = 0.0
        for p in range(taps_of(interpolation) if rows * columns > 0 else 0):
            row = clipped(tap_of(p, top, interpolation, rounding), rows)
            row_weight = share_of(
                p, top, interpolation, rounding, cubic_alpha, rows, exclude_outside
            )
            for q in range(taps_of(interpolation)):
                column = clipped(tap_of(q, left, interpolation, rounding), columns)
                column_weight = share_of(
                    q, left, interpolation, rounding, cubic_alpha, columns, exclude_outside
                )
                total += x[row, column] * row_weight * column_weight
        out[0] = nearest(total) if integral else total


def _declare_resize3d_kernel(resize: Declaration) -> None:
    @resize.kernel("cpu")
    def _(
        x: Array,
        out: Array,
        h0: int,
        h1: int,
        h2: int,
        count0: int,
        count1: int,
        count2: int,
        interpolation: int,
        mode: int,
        rounding: int,
        cubic_alpha: float,
        exclude_outside: bool,
        integral: bool,
    ) -> None:
        planes, rows, columns = x.shape
        front = place_of(h0, planes, count0, mode)
        top = place_of(h1, rows, count1, mode)
        left = place_of(h2, columns, count2, mode)
        total = 0.0
        for n in range(taps_of(interpolation) if planes * rows * columns > 0 else 0):
            plane = clipped(tap_of(n, front, interpolation, rounding), planes)
            plane_weight = share_of(
                n, front, interpolation, rounding, cubic_alpha, planes, exclude_outside
            )
            for p in range(taps_of(interpolation)):
                row = clipped(tap_of(p, top, interpolation, rounding), rows)
                row_weight = (
                    share_of(p, top, interpolation, rounding, cubic_alpha, rows, exclude_outside)
                    * plane_weight
                )
                for q in range(taps_of(interpolation)):
                    column = clipped(tap_of(q, left, interpolation, rounding), columns)
                    column_weight = share_of(
                        q, left, interpolation, rounding, cubic_alpha, columns, exclude_outside
                    )
                    total += x[plane, row, column] * row_weight * column_weight
        out[0] = nearest(total) if integral else total


KERNELS = {2: _declare_resize2d_kernel, 3: _declare_resize3d_kernel}


def _declare_resize(count: int) -> Declaration:
    """Declares resizing over a number of spatial axes."""

    @op(resize_signature, name=f"image.resize{count}d")
    def resize(
        x: Array,
        size: SizeOrSizes,
        roi: Numbers | None = None,
        layout: Layout | None = None,
        method: Method = "linear",
        coordinate_transformation_mode: Coordinates = "half_pixel",
        rounding_method: Rounding = "round",
        cubic_alpha: float = -0.75,
        cubic_exclude: int = 0,
        extrapolation_value: float = 0.0,
        out_dtype: DType | None = None,
    ) -> Array:
        """Resizes images by interpolation; samples outside of the image repeat its edge."""
        return x

    @resize.reference
    def _(x: Array, size: Any, **options: Any) -> Array:
        layout = options["layout"] or "NC" + SPATIAL[count]
        sizes = size if isinstance(size, tuple) else (size,)
        sizes = sizes * count if len(sizes) == 1 else sizes
        axes = {layout.index(a): int(size) for a, size in zip(SPATIAL[count], sizes, strict=True)}
        in_order = sorted(axes)  # as the kernel reads them
        axis_taps = [_axis_taps(options, x.shape[axis], axes[axis]) for axis in in_order]
        image = resampled(x.astype("float64"), in_order, axis_taps)
        dtype = np.dtype(options["out_dtype"] or x.dtype)
        return (np.rint(image) if dtype.kind in "iu" else image).astype(dtype)

    KERNELS[count](resize)

    @resize.gradient
    def _(call: Call, result: Expr, cotangent: Cotangent, emit: Emit) -> list[Cotangent]:
        """Computes the adjoint as products with transposed interpolation matrices."""
        x, layout = call.args[0], call.attrs.get("layout") or "NC" + SPATIAL[count]
        sizes, new_sizes = x.struct_info.dims, result.struct_info.dims
        if not (isinstance(sizes, tuple) and isinstance(new_sizes, tuple) and layout.isalpha()):
            text = "not differentiable: expected known sizes and a layout without blocked axes"
            name = resize.definition.name
            raise DiagnosticError(Diagnostic(text, call.span, name, code="E0307"))
        subscript = layout.lower()
        in_subscript, matrices = subscript, []
        for axis_name in SPATIAL[count]:
            axis = layout.index(axis_name)
            matrix = _interpolation_matrix(resize, call, sizes[axis], new_sizes[axis], count)
            matrices.append(emit(matrix))
            in_subscript = in_subscript.replace(axis_name.lower(), axis_name)
        terms = [f"{a}{a.lower()}" for a in SPATIAL[count]]
        gradient = astype(cotangent, x.struct_info.dtype)
        return [einsum((gradient, *matrices), f"{','.join([subscript, *terms])}->{in_subscript}")]

    resize.example(f32[1, 2, *(3, 4, 2)[:count]], (5, 3, 4)[:count])
    return resize


def _axis_taps(options: Mapping[str, Any], length: int, new_length: int) -> Taps:
    """Returns the taps of one axis."""
    coordinates = places(length, new_length, options["coordinate_transformation_mode"])
    axis_taps = taps(
        coordinates, options["method"], options["rounding_method"], options["cubic_alpha"]
    )
    return in_range(axis_taps, length) if options["cubic_exclude"] else axis_taps


def _interpolation_matrix(resize: Declaration, call: Call, old: Dim, new: Dim, count: int) -> Expr:
    """Computes the interpolation matrix of one axis."""
    unit_axes = (1,) * (count - 1)
    options = {n: v for n, v in call.attrs.items() if n not in ("layout", "out_dtype")}
    ones = reshape(eye(old, dtype=call.args[0].struct_info.dtype), (old, 1, old, *unit_axes))
    return reshape(resize(ones, (new, *unit_axes), **options), (old, new))


for _count in (2, 3):
    _declare_resize(_count)


def grid_sample_signature(call: CallView) -> ResolvedSignature:
    """Returns the signature in which the grid holds a column and a row per output pixel."""
    layout = call["layout"]
    check_rank(call, "data", layout)
    in_axes = in_layout(call, layout, {"N": "n", "C": "c", "H": "[h]", "W": "[w]"})
    out_axes = in_layout(call, layout, {"N": "n", "C": "c", "H": "a", "W": "b"})
    signature = (
        f"{access_text('data', in_axes)} @ F1, grid[n, [g], a, b] @ F2 -> "
        f"{access_text('out', out_axes)} @ F1"
    )
    attributes = {
        "interpolation": SAMPLING_METHODS.index(call["method"]),
        "zeros": call["padding_mode"] == "zeros",
        "reflected": call["padding_mode"] == "reflection",
    }
    return ResolvedSignature(signature, "g == 2", "", attributes)


@op(grid_sample_signature, name="image.grid_sample")
def grid_sample(
    data: Array,
    grid: Array,
    method: Literal["bilinear", "nearest", "bicubic"] = "bilinear",
    layout: Literal["NCHW", "NHWC"] = "NCHW",
    padding_mode: Literal["zeros", "border", "reflection"] = "zeros",
    align_corners: bool = True,
) -> Array:
    """Samples images at the normalized coordinates (-1 to 1) of a grid."""
    return data


@grid_sample.kernel("cpu")
def _(
    data: Array,
    grid: Array,
    out: Array,
    interpolation: int,
    zeros: bool,
    reflected: bool,
    align_corners: bool,
) -> None:
    rows, columns = data.shape
    top, left = (
        element_coordinate(grid[1], rows, align_corners),
        element_coordinate(grid[0], columns, align_corners),
    )
    if interpolation < 2:
        top = pad_coordinate(top, rows, zeros, reflected, align_corners)
        left = pad_coordinate(left, columns, zeros, reflected, align_corners)
    total = 0.0
    for p in range(taps_of(interpolation) if rows * columns > 0 else 0):
        row = tap_of(p, top, interpolation, 2)
        if interpolation == 2:
            row = math.floor(pad_coordinate(row + 0.0, rows, zeros, reflected, align_corners))
        row_weight = (
            0.0 if zeros and (row < 0 or row >= rows) else weight_of(p, top, interpolation, -0.75)
        )
        for q in range(taps_of(interpolation)):
            column = tap_of(q, left, interpolation, 2)
            if interpolation == 2:
                column = math.floor(
                    pad_coordinate(column + 0.0, columns, zeros, reflected, align_corners)
                )
            is_outside = zeros and (column < 0 or column >= columns)
            column_weight = 0.0 if is_outside else weight_of(q, left, interpolation, -0.75)
            total += data[clipped(row, rows), clipped(column, columns)] * row_weight * column_weight
    out[0] = total


def element_coordinate(coordinate: float, length: int, align_corners: bool) -> float:
    """Maps a normalized coordinate to an element coordinate."""
    shifted: float = np.float64(coordinate) + 1.0
    return shifted * (length - 1) / 2.0 if align_corners else shifted * length / 2.0 - 0.5


def pad_coordinate(
    coordinate: float, length: int, zeros: bool, reflected: bool, align_corners: bool
) -> float:
    """Clamps or reflects a coordinate outside of the image."""
    if zeros:
        return coordinate
    last = length - 1.0
    if reflected:
        low = 0.0 if align_corners else -0.5
        period = 2.0 * max(length - 1 if align_corners else length, 1)
        distance = abs(coordinate - low)
        remainder = distance - period * math.floor(distance / period)
        coordinate = (remainder if remainder < period - remainder else period - remainder) + low
    coordinate = 0.0 if coordinate < 0.0 else coordinate
    return last if coordinate > last else coordinate


@grid_sample.reference
def _(
    data: Array,
    grid: Array,
    method: str = "bilinear",
    layout: str = "NCHW",
    padding_mode: str = "zeros",
    align_corners: bool = True,
) -> Array:
    image = data if layout == "NCHW" else np.moveaxis(data, -1, 1)
    sizes = image.shape[2:]
    axis_taps = []
    for k, length in enumerate(sizes):
        span = length - 1 if align_corners else length
        coordinates = (grid[:, 1 - k].astype("float64") + 1) * span / 2 - (
            0 if align_corners else 0.5
        )
        axis_taps.append(_padded_taps(coordinates, length, method, padding_mode, align_corners))
    batch = np.arange(len(image))[:, None, None]
    result: Array = 0.0
    for row, row_weight in axis_taps[0]:
        for column, weight in axis_taps[1]:
            inside = (row >= 0) & (row < sizes[0]) & (column >= 0) & (column < sizes[1])
            pixels = np.clip(row, 0, sizes[0] - 1), np.clip(column, 0, sizes[1] - 1)
            mask = inside if padding_mode == "zeros" else True
            values = np.moveaxis(image[batch, :, pixels[0], pixels[1]], -1, 1)
            result = result + values * (row_weight * weight * mask)[:, None]
    return (result if layout == "NCHW" else np.moveaxis(result, 1, -1)).astype(data.dtype)


def _padded_taps(
    coordinates: Array, length: int, method: str, mode: str, align_corners: bool
) -> Taps:
    """Returns the taps of coordinates; the padding mode defines those outside of the image."""
    if method != "bicubic":
        coordinates = _pad_coordinates(coordinates, length, mode, align_corners)
        return taps(coordinates, method, "round_prefer_floor")
    axis_taps = taps(coordinates, method)
    return [
        (_pad_coordinates(positions, length, mode, align_corners).astype("int64"), weight)
        for positions, weight in axis_taps
    ]


def _pad_coordinates(coordinates: Array, length: int, mode: str, align_corners: bool) -> Array:
    if mode == "border":
        return np.clip(coordinates, 0, length - 1)
    if mode == "reflection":
        low = 0.0 if align_corners else -0.5
        span = (length - 1) if align_corners else length
        remainder = np.abs(coordinates - low) % (2 * max(span, 1))
        return np.clip(np.minimum(remainder, 2 * max(span, 1) - remainder) + low, 0, length - 1)
    return coordinates


def affine_grid_signature(call: CallView) -> ResolvedSignature:
    """Returns the signature with one coordinate pair per element of the target size."""
    new_sizes = target_sizes(call, "size", 2)
    if new_sizes is None:
        return ResolvedSignature("data[n, 2, 3] -> out[n, 2, _, _]", "", "", {"new_sizes": None})
    signature = "data[n, [p], [q]] -> out[n, [t], [h], [w]]"
    checks = where_text(["p == 2", "q == 3", "t == 2", "h == new_sizes[0]", "w == new_sizes[1]"])
    return ResolvedSignature(signature, checks, "", {"new_sizes": new_sizes})


@op(affine_grid_signature, name="image.affine_grid")
def affine_grid(data: Array, size: SizeOrSizes, align_corners: bool = True) -> Array:
    """Computes the normalized coordinates of an image grid under an affine map."""
    return data


@affine_grid.kernel("cpu")
def _(data: Array, out: Array, align_corners: bool) -> None:
    _, height, width = out.shape
    for i in range(height):
        y = normalized_coordinate(i, height, align_corners)
        for j in range(width):
            x = normalized_coordinate(j, width, align_corners)
            for k in range(2):
                out[k, i, j] = data[k, 0] * x + data[k, 1] * y + data[k, 2]


def normalized_coordinate(k: int, count: int, align_corners: bool) -> float:
    """Returns the normalized coordinate of an element."""
    if align_corners:
        return 2.0 * k / (count - 1) - 1.0 if count > 1 else 0.0
    return (2.0 * k + 1.0) / count - 1.0


@affine_grid.reference
def _(data: Array, size: Any, align_corners: bool = True) -> Array:
    sizes = size if isinstance(size, tuple) else (size,)
    height, width = sizes * 2 if len(sizes) == 1 else sizes
    rows, columns = (
        np.array([normalized_coordinate(k, n, align_corners) for k in range(n)])
        for n in (int(height), int(width))
    )
    x, y = np.meshgrid(columns, rows)
    coordinates = np.stack([x, y, np.ones_like(x)])
    return np.einsum("nij,jhw->nihw", data.astype("float64"), coordinates).astype(data.dtype)


@affine_grid.gradient
def _(call: Call, result: Expr, cotangent: Cotangent, emit: Emit) -> list[Cotangent]:
    """Computes the adjoint as a product with the coordinates of the identity map, and ones."""
    data, size = call.args
    dtype = data.struct_info.dtype
    identity = Constant(np.array([[[1, 0, 0], [0, 1, 0]]], numpy_dtype(dtype)))
    coordinates = emit(squeeze(affine_grid(identity, size, **call.attrs), 0))
    last_row = ones_like(take(coordinates, Constant(np.array([0])), 0))
    return [einsum((cotangent, concat((coordinates, last_row), 0)), "nihw,jhw->nij")]


grid_sample.non_differentiable("the sampled positions depend on data")
grid_sample.example(f32[2, 3, 4, 5], f32[2, 2, 3, 3])
affine_grid.example(f32[2, 2, 3], (3, 4))
