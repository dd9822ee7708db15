"""Ops on images: resizing, sampling at a grid, affine grids."""

from __future__ import annotations

import math
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
    along,
    clipped,
    nearest,
    place_of,
    places,
    share_of,
    tap_of,
    taps,
    taps_of,
    weight_of,
    weights,
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
SAMPLED = ("nearest", "bilinear", "bicubic")
METHODS: tuple[str, ...] = get_args(Method)
Coordinates = Literal[
    "half_pixel",
    "align_corners",
    "asymmetric",
    "pytorch_half_pixel",
    "tf_half_pixel_for_nn",
]
Rounding = Literal["", "round", "floor", "ceil", "round_prefer_floor", "round_prefer_ceil"]


def target(given: CallView, name: str, count: int) -> tuple[Any, ...] | None:
    """Returns a size attribute with one number per spatial axis; None where unknown."""
    value = given[name]
    if isinstance(value, UnknownShape):
        if value.ndim not in (None, count):
            given.reject(f"{name}: expected {count} sizes, found {value.ndim}")
        return None
    value = value if isinstance(value, tuple) else (value,)
    value = value * count if len(value) == 1 else value
    if len(value) != count:
        given.reject(f"{name}: expected 1 or {count} numbers, found {len(value)}")
    return tuple(value)


def resized(given: CallView) -> ResolvedSignature:
    """Returns the signature with whole spatial axes, whose new sizes are an attribute."""
    count = int(given.op[-2])
    layout = given["layout"] or "NC" + SPATIAL[count]
    check_rank(given, "x", layout)
    missing = [axis for axis in SPATIAL[count] if axis not in layout]
    if missing:
        given.reject(f"layout: expected an axis {missing[0]}, found {layout}")
    new = target(given, "size", count)
    axes = sorted(SPATIAL[count], key=layout.find)  # in memory
    sizes = index_vars(count, "h") if new is not None else ["_"] * count
    read = {axis: f"[y{k}]" for k, axis in enumerate(axes)}
    made = dict(zip(axes, sizes, strict=True))
    reads = access_text("x", in_layout(given, layout, {"N": "n", "C": "c", **read}))
    out = access_text("out", in_layout(given, layout, {"N": "n", "C": "c", **made}))
    places = [SPATIAL[count].index(axis) for axis in axes]
    checks = [f"h{k} == new[{place}]" for k, place in enumerate(places) if new is not None]
    dtype = given["out_dtype"] or getattr(given.info("x"), "dtype", None) or "float32"
    numbers = {
        "new": new,
        "way": METHODS.index(given["method"]),
        "mode": MODES.index(given["coordinate_transformation_mode"]),
        "rounding": ROUNDINGS.index(given["rounding_method"]),
        "exclude": bool(given["cubic_exclude"]),
        "whole": is_int(dtype),
    }
    numbers |= {f"count{k}": new[place] for k, place in enumerate(places) if new is not None}
    return ResolvedSignature(f"{reads} -> {out} @ out_dtype or T", where_text(checks), "", numbers)


def _of_images(resize: Declaration) -> None:
    @resize.kernel("cpu")
    def _(
        x: Array,
        out: Array,
        h0: int,
        h1: int,
        count0: int,
        count1: int,
        way: int,
        mode: int,
        rounding: int,
        cubic_alpha: float,
        exclude: bool,
        whole: bool,
    ) -> None:
        rows, columns = x.shape
        top = place_of(h0, rows, count0, mode)
        left = place_of(h1, columns, count1, mode)
        total = 0.0
        for p in range(taps_of(way) if rows * columns > 0 else 0):
            row = clipped(tap_of(p, top, way, rounding), rows)
            down = share_of(p, top, way, rounding, cubic_alpha, rows, exclude)
            for q in range(taps_of(way)):
                column = clipped(tap_of(q, left, way, rounding), columns)
                along = share_of(q, left, way, rounding, cubic_alpha, columns, exclude)
                total += x[row, column] * down * along
        out[0] = nearest(total) if whole else total


def _of_volumes(resize: Declaration) -> None:
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
        way: int,
        mode: int,
        rounding: int,
        cubic_alpha: float,
        exclude: bool,
        whole: bool,
    ) -> None:
        planes, rows, columns = x.shape
        front = place_of(h0, planes, count0, mode)
        top = place_of(h1, rows, count1, mode)
        left = place_of(h2, columns, count2, mode)
        total = 0.0
        for n in range(taps_of(way) if planes * rows * columns > 0 else 0):
            plane = clipped(tap_of(n, front, way, rounding), planes)
            cotangent = share_of(n, front, way, rounding, cubic_alpha, planes, exclude)
            for p in range(taps_of(way)):
                row = clipped(tap_of(p, top, way, rounding), rows)
                down = share_of(p, top, way, rounding, cubic_alpha, rows, exclude) * cotangent
                for q in range(taps_of(way)):
                    column = clipped(tap_of(q, left, way, rounding), columns)
                    along = share_of(q, left, way, rounding, cubic_alpha, columns, exclude)
                    total += x[plane, row, column] * down * along
        out[0] = nearest(total) if whole else total


KERNELS = {2: _of_images, 3: _of_volumes}


def _resize(count: int) -> Declaration:
    """Declares resizing over a number of spatial axes."""

    @op(resized, name=f"image.resize{count}d")
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
        """Resizes images by interpolation; the edge repeats outside."""
        return x

    @resize.reference
    def _(x: Array, size: Any, **how: Any) -> Array:
        layout = how["layout"] or "NC" + SPATIAL[count]
        sizes = size if isinstance(size, tuple) else (size,)
        sizes = sizes * count if len(sizes) == 1 else sizes
        made = x.astype("float64")
        for axis, new in zip([layout.index(a) for a in SPATIAL[count]], sizes, strict=True):
            place = places(x.shape[axis], int(new), how["coordinate_transformation_mode"])
            found = taps(place, how["method"], how["rounding_method"], how["cubic_alpha"])
            made = along(made, weights(x.shape[axis], found, bool(how["cubic_exclude"])), axis)
        dtype = np.dtype(how["out_dtype"] or x.dtype)
        return (np.rint(made) if dtype.kind in "iu" else made).astype(dtype)

    KERNELS[count](resize)

    @resize.gradient
    def _(call: Call, result: Expr, cotangent: Cotangent, emit: Emit) -> list[Cotangent]:
        """Computes the adjoint as products with transposed interpolation matrices."""
        x, layout = call.args[0], call.attrs.get("layout") or "NC" + SPATIAL[count]
        sizes, new = x.struct_info.dims, result.struct_info.dims
        if not (isinstance(sizes, tuple) and isinstance(new, tuple) and layout.isalpha()):
            text = "it has no gradient: its sizes must be known, and no axis be cut in blocks"
            raise DiagnosticError(Diagnostic(text, call.span, resize.definition.name))
        read = layout.lower()
        made, matrices = read, []
        for letter in SPATIAL[count]:
            axis = layout.index(letter)
            matrices.append(emit(_matrix(resize, call, sizes[axis], new[axis], count)))
            made = made.replace(letter.lower(), letter)
        terms = [f"{a}{a.lower()}" for a in SPATIAL[count]]
        own = astype(cotangent, x.struct_info.dtype)
        return [einsum((own, *matrices), f"{','.join([read, *terms])}->{made}")]

    resize.example(f32[1, 2, *(3, 4, 2)[:count]], (5, 3, 4)[:count])
    return resize


def _matrix(resize: Declaration, call: Call, old: Dim, new: Dim, count: int) -> Expr:
    """Computes the interpolation matrix of one axis."""
    rest = (1,) * (count - 1)
    how = {n: v for n, v in call.attrs.items() if n not in ("layout", "out_dtype")}
    ones = reshape(eye(old, dtype=call.args[0].struct_info.dtype), (old, 1, old, *rest))
    return reshape(resize(ones, (new, *rest), **how), (old, new))


for _count in (2, 3):
    _resize(_count)


def at_grid(given: CallView) -> ResolvedSignature:
    """Returns the signature in which the grid holds a column and a row per result."""
    layout = given["layout"]
    check_rank(given, "data", layout)
    read = in_layout(given, layout, {"N": "n", "C": "c", "H": "[h]", "W": "[w]"})
    made = in_layout(given, layout, {"N": "n", "C": "c", "H": "a", "W": "b"})
    line = f"{access_text('data', read)}, grid[n, [g], a, b] -> {access_text('out', made)}"
    numbers = {
        "way": SAMPLED.index(given["method"]),
        "zeros": given["padding_mode"] == "zeros",
        "reflected": given["padding_mode"] == "reflection",
    }
    return ResolvedSignature(line, "g == 2", "", numbers)


@op(at_grid, name="image.grid_sample")
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
    way: int,
    zeros: bool,
    reflected: bool,
    align_corners: bool,
) -> None:
    rows, columns = data.shape
    top, left = between(grid[1], rows, align_corners), between(grid[0], columns, align_corners)
    if way < 2:
        top = inside_of(top, rows, zeros, reflected, align_corners)
        left = inside_of(left, columns, zeros, reflected, align_corners)
    total = 0.0
    for p in range(taps_of(way) if rows * columns > 0 else 0):
        row = tap_of(p, top, way, 2)
        if way == 2:
            row = math.floor(inside_of(row + 0.0, rows, zeros, reflected, align_corners))
        down = 0.0 if zeros and (row < 0 or row >= rows) else weight_of(p, top, way, -0.75)
        for q in range(taps_of(way)):
            column = tap_of(q, left, way, 2)
            if way == 2:
                column = math.floor(
                    inside_of(column + 0.0, columns, zeros, reflected, align_corners)
                )
            beyond = zeros and (column < 0 or column >= columns)
            along = 0.0 if beyond else weight_of(q, left, way, -0.75)
            total += data[clipped(row, rows), clipped(column, columns)] * down * along
    out[0] = total


def between(place: float, length: int, align_corners: bool) -> float:
    """Maps a normalized coordinate to an element coordinate."""
    far: float = np.float64(place) + 1.0
    return far * (length - 1) / 2.0 if align_corners else far * length / 2.0 - 0.5


def inside_of(
    place: float, length: int, zeros: bool, reflected: bool, align_corners: bool
) -> float:
    """Clamps or reflects a coordinate outside of the image."""
    if zeros:
        return place
    last = length - 1.0
    if reflected:
        low = 0.0 if align_corners else -0.5
        turn = 2.0 * max(length - 1 if align_corners else length, 1)
        away = abs(place - low)
        turned = away - turn * math.floor(away / turn)
        place = (turned if turned < turn - turned else turn - turned) + low
    place = 0.0 if place < 0.0 else place
    return last if place > last else place


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
    found = []
    for k, length in enumerate(sizes):
        reach = length - 1 if align_corners else length
        place = (grid[:, 1 - k].astype("float64") + 1) * reach / 2 - (0 if align_corners else 0.5)
        found.append(_read(place, length, method, padding_mode, align_corners))
    batch = np.arange(len(image))[:, None, None]
    made: Array = 0.0
    for row, row_weight in found[0]:
        for column, weight in found[1]:
            inside = (row >= 0) & (row < sizes[0]) & (column >= 0) & (column < sizes[1])
            at = np.clip(row, 0, sizes[0] - 1), np.clip(column, 0, sizes[1] - 1)
            kept = inside if padding_mode == "zeros" else True
            values = np.moveaxis(image[batch, :, at[0], at[1]], -1, 1)
            made = made + values * (row_weight * weight * kept)[:, None]
    return (made if layout == "NCHW" else np.moveaxis(made, 1, -1)).astype(data.dtype)


def _read(place: Array, length: int, method: str, mode: str, align_corners: bool) -> Taps:
    """Reads the elements for a coordinate; the padding mode defines those outside."""
    if method != "bicubic":
        place = _padded(place, length, mode, align_corners)
        return taps(place, method, "round_prefer_floor")
    found = taps(place, method)
    return [(_padded(at, length, mode, align_corners).astype("int64"), w) for at, w in found]


def _padded(place: Array, length: int, mode: str, align_corners: bool) -> Array:
    if mode == "border":
        return np.clip(place, 0, length - 1)
    if mode == "reflection":
        low = 0.0 if align_corners else -0.5
        span = (length - 1) if align_corners else length
        turned = np.abs(place - low) % (2 * max(span, 1))
        return np.clip(np.minimum(turned, 2 * max(span, 1) - turned) + low, 0, length - 1)
    return place


def affine(given: CallView) -> ResolvedSignature:
    """Returns the signature with one coordinate pair per element of the target size."""
    new = target(given, "size", 2)
    if new is None:
        return ResolvedSignature("data[n, 2, 3] -> out[n, 2, _, _]", "", "", {"new": None})
    line = "data[n, [p], [q]] -> out[n, [t], [h], [w]]"
    checks = where_text(["p == 2", "q == 3", "t == 2", "h == new[0]", "w == new[1]"])
    return ResolvedSignature(line, checks, "", {"new": new})


@op(affine, name="image.affine_grid")
def affine_grid(data: Array, size: SizeOrSizes, align_corners: bool = True) -> Array:
    """Computes the normalized coordinates of an image grid under an affine map."""
    return data


@affine_grid.kernel("cpu")
def _(data: Array, out: Array, align_corners: bool) -> None:
    _, height, width = out.shape
    for i in range(height):
        y = centred(i, height, align_corners)
        for j in range(width):
            x = centred(j, width, align_corners)
            for k in range(2):
                out[k, i, j] = data[k, 0] * x + data[k, 1] * y + data[k, 2]


def centred(k: int, count: int, align_corners: bool) -> float:
    """Returns the normalized coordinate of an element."""
    if align_corners:
        return 2.0 * k / (count - 1) - 1.0 if count > 1 else -1.0
    return (2.0 * k + 1.0) / count - 1.0


@affine_grid.reference
def _(data: Array, size: Any, align_corners: bool = True) -> Array:
    sizes = size if isinstance(size, tuple) else (size,)
    height, width = sizes * 2 if len(sizes) == 1 else sizes
    rows, columns = (
        np.linspace(-1, 1, n) if align_corners else (2 * np.arange(n) + 1) / n - 1
        for n in (int(height), int(width))
    )
    x, y = np.meshgrid(columns, rows)
    places = np.stack([x, y, np.ones_like(x)])
    return np.einsum("nij,jhw->nihw", data.astype("float64"), places).astype(data.dtype)


@affine_grid.gradient
def _(call: Call, result: Expr, cotangent: Cotangent, emit: Emit) -> list[Cotangent]:
    """Computes the adjoint as a product with the coordinates of the identity map, and ones."""
    data, size = call.args
    dtype = data.struct_info.dtype
    same = Constant(np.array([[[1, 0, 0], [0, 1, 0]]], numpy_dtype(dtype)))
    places = emit(squeeze(affine_grid(same, size, **call.attrs), 0))
    one = ones_like(take(places, Constant(np.array([0])), 0))
    return [einsum((cotangent, concat((places, one), 0)), "nihw,jhw->nij")]


grid_sample.non_differentiable("the elements that it reads are worked out by a routine of its own")
grid_sample.example(f32[2, 3, 4, 5], f32[2, 2, 3, 3])
affine_grid.example(f32[2, 2, 3], (3, 4))
