"""Mappings of Fourier transforms: `torch.fft`, short-time transforms, frequencies and shifts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import attrs
import numpy as np

from structir.frontend import fourier
from structir.frontend.scalars import index_range, number, reshape_to, size_number
from structir.frontend.torch.complex import (
    PARTS,
    ComplexTensor,
    as_complex,
    conjugate_of,
    join_pairs,
    map_parts,
)
from structir.frontend.torch.node import FxNode
from structir.frontend.torch.ops.shapes import reorder_axes
from structir.frontend.torch.registry import complex_op, torch_op
from structir.frontend.torch.scalars import as_tensor, cast, is_number, product
from structir.ir import dims
from structir.ir.dims import Dim, Poly
from structir.ir.expr import Expr, PrimValue
from structir.script import R

Kind = Literal["complex", "to_half", "from_half"]  # half: n // 2 + 1 coefficients of a real signal
Scale = Literal["none", "root", "full"]  # of the result: 1, 1 / sqrt(n) or 1 / n
SCALE_CODES: dict[int, Scale] = {0: "none", 1: "root", 2: "full"}


@attrs.frozen
class Transform:
    """A Fourier transform of several axes; the last one is real for `to_half` and `from_half`."""

    kind: Kind
    is_inverse: bool
    axes: tuple[int, ...]
    sizes: tuple[Dim, ...]  # number of elements per axis; of the real signal for the last one
    scale: Scale


def apply_transform(node: FxNode, operand: Any, spec: Transform) -> Any:
    """Returns the transform of a real or complex tensor, truncated or padded to the sizes."""
    dtype = node.out_dtype()
    if isinstance(operand, ComplexTensor):
        x: fourier.Parts = cast(operand.real, dtype), cast(operand.imag, dtype)
    else:
        x = cast(operand, dtype), None
    steps = list(zip(spec.axes, spec.sizes, strict=True))
    if spec.kind == "to_half":
        steps.reverse()
    for index, (axis, size) in enumerate(steps):
        is_last = index == (0 if spec.kind == "to_half" else len(steps) - 1)
        kind = spec.kind if is_last else "complex"
        x = _along(node, x, axis, _step(node, kind, size, spec.is_inverse))
    factor = _factor(product(spec.sizes), spec.scale, dtype)
    real, imag = [
        None if p is None else node.emit(p if factor is None else R.multiply(p, factor)) for p in x
    ]
    assert real is not None
    if spec.kind == "from_half":
        return real
    return as_complex(real, dtype) if imag is None else ComplexTensor(real, imag)


def _step(
    node: FxNode, kind: Kind, size: Dim, is_inverse: bool
) -> Callable[[fourier.Parts], fourier.Parts]:
    emit, functions = node.emit, node.host.builder.functions

    def apply(x: fourier.Parts) -> fourier.Parts:
        stored = dims.floordiv(size, 2) + 1 if kind == "from_half" else size
        real, imag = (None if p is None else fourier.fit_last(emit, p, stored) for p in x)
        assert real is not None
        if kind == "to_half":
            return fourier.one_sided(emit, functions, real)
        if kind == "from_half":
            return fourier.real_inverse(emit, functions, (real, imag), size), None
        return fourier.transform(emit, functions, (real, imag), inverse=is_inverse)

    return apply


def _along(
    node: FxNode, x: fourier.Parts, axis: int, act: Callable[[fourier.Parts], fourier.Parts]
) -> fourier.Parts:
    """Returns a function of the last axis applied to another axis."""
    rank = len(node.dims_of(x[0]))
    order = [*[k for k in range(rank) if k != axis], axis]
    back = [order.index(k) for k in range(rank)]
    first, second = (None if p is None else node.emit(reorder_axes(p, order)) for p in x)
    assert first is not None
    real, imag = act((first, second))
    return reorder_axes(real, back), None if imag is None else reorder_axes(imag, back)


def _factor(count: Dim, scale: Scale, dtype: str) -> Expr | None:
    """Returns the factor of the result, or None for 1."""
    if scale == "none":
        return None
    if isinstance(count, int):
        count = max(count, 1)
        return number(1 / count if scale == "full" else count**-0.5, dtype)
    divisor = size_number(count, "float64")
    divisor = R.sqrt(divisor) if scale == "root" else divisor
    return cast(R.divide(number(1.0, "float64"), divisor), dtype)


# ---- transforms of several axes


def _axes_and_sizes(node: FxNode, default: Sequence[int] | None) -> tuple[list[int], list[Dim]]:
    """Returns the axes of a transform, and the sizes that are stated or those of the operand."""
    stated = node.arg("s", None) if "s" in node.spec.args else node.arg("n", None)
    if stated is not None and not isinstance(stated, tuple | list):
        stated = (stated,)
    axes = node.arg("dim", None)
    if axes is None:
        axes = default
    if axes is None:
        rank = node.rank()
        axes = range(rank) if stated is None else range(rank - len(stated), rank)
    axes = axes if isinstance(axes, tuple | list | range) else (axes,)
    axes = [node.normalize_axis(int(axis), node.rank()) for axis in axes]
    sizes = node.dims()
    wanted: list[Any] = [None] * len(axes) if stated is None else list(stated)
    return axes, [
        sizes[axis] if size is None or is_number(size, -1) else node.whole(size)
        for axis, size in zip(axes, wanted, strict=True)
    ]


def _last_is_stated(node: FxNode) -> bool:
    stated = node.arg("s", None) if "s" in node.spec.args else node.arg("n", None)
    last = stated[-1] if isinstance(stated, tuple | list) else stated
    return last is not None and last != -1


def _high_level(
    kind: Kind, is_inverse: bool, default: Sequence[int] | None, conjugates: bool
) -> Callable[[FxNode], Any]:
    """Returns the mapping of a function of `torch.fft`.

    `conjugates`: the transform is that of the other direction of the conjugate (`hfft`, `ihfft`).
    """

    def build(node: FxNode) -> Any:
        axes, sizes = _axes_and_sizes(node, default)
        if kind == "from_half" and not _last_is_stated(node):
            sizes[-1] = 2 * (sizes[-1] - 1)
        norm = node.arg("norm", None) or "backward"
        scale: Scale = "root" if norm == "ortho" else "none"
        if norm == ("backward" if is_inverse else "forward"):
            scale = "full"
        x = node.arg("self")
        if conjugates and kind == "from_half" and isinstance(x, ComplexTensor):
            x = conjugate_of(x)
        direction = is_inverse != conjugates
        result = apply_transform(
            node, x, Transform(kind, direction, tuple(axes), tuple(sizes), scale)
        )
        return conjugate_of(result) if conjugates and kind == "to_half" else result

    return build


FUNCTIONS: dict[str, tuple[Kind, bool, bool]] = {
    "fft": ("complex", False, False),
    "ifft": ("complex", True, False),
    "rfft": ("to_half", False, False),
    "irfft": ("from_half", True, False),
    "hfft": ("from_half", False, True),
    "ihfft": ("to_half", True, True),
}
DEFAULT_AXES: dict[str, Sequence[int] | None] = {"": (-1,), "2": (-2, -1), "n": None}
for _name, (_kind, _is_inverse, _conjugates) in FUNCTIONS.items():
    for _suffix, _default in DEFAULT_AXES.items():
        _build = _high_level(_kind, _is_inverse, _default, _conjugates)
        complex_op(f"fft_{_name}{_suffix}")(_build)
        if _kind == "from_half":  # both the operand and the result may be real
            torch_op(f"fft_{_name}{_suffix}")(_build)


@complex_op("_fft_c2c")
def complex_to_complex(node: FxNode) -> Any:
    axes = [node.normalize_axis(a, node.rank()) for a in node.ints("dim")]
    return _core(node, "complex", axes, [node.dims()[a] for a in axes], not node.flag("forward"))


@complex_op("_fft_r2c")
def real_to_complex(node: FxNode) -> Any:
    axes = [node.normalize_axis(a, node.rank()) for a in node.ints("dim")]
    kind: Kind = "to_half" if node.flag("onesided") else "complex"
    return _core(node, kind, axes, [node.dims()[a] for a in axes], False)


@complex_op("_fft_c2r")
def complex_to_real(node: FxNode) -> Any:
    axes = [node.normalize_axis(a, node.rank()) for a in node.ints("dim")]
    sizes = [*[node.dims()[a] for a in axes[:-1]], node.size("last_dim_size")]
    return _core(node, "from_half", axes, sizes, True)


def _core(
    node: FxNode, kind: Kind, axes: Sequence[int], sizes: Sequence[Dim], is_inverse: bool
) -> Any:
    scale = SCALE_CODES[node.plain("normalization")]
    spec = Transform(kind, is_inverse, tuple(axes), tuple(sizes), scale)
    return apply_transform(node, node.arg("self"), spec)


# ---- frequencies and shifts


@torch_op("fft_fftshift", "fft_ifftshift")
def shift(node: FxNode) -> Expr:
    """Builds a roll of each axis by half of its size."""
    axes = node.axes("dim")
    x, is_inverse = node["self"], "ifftshift" in node.spec.target
    for axis in range(node.rank()) if axes is None else axes:
        size = node.dims()[axis]
        step = dims.floordiv(size + 1 if is_inverse else size, 2)
        x = R.roll(x, PrimValue(step) if isinstance(step, Poly) else step, [axis])
    return x


@torch_op("fft_fftfreq", "fft_rfftfreq")
def frequencies(node: FxNode) -> Expr:
    size, dtype = node.size("n"), node.out_dtype()
    (count,) = node.out_dims()
    indices = index_range(count)
    if ".fft_fftfreq" in node.spec.target:
        half = size_number(dims.floordiv(size + 1, 2))
        indices = node.emit(indices)
        wrapped = R.subtract(indices, size_number(size))
        indices = R.where(R.less(indices, half), indices, wrapped)
    unit = as_tensor(node.arg("d", 1.0), "float64")
    step = R.multiply(size_number(size, "float64"), unit)
    return node.fold(cast(R.divide(cast(indices, "float64"), step), dtype))


# ---- windows and short-time transforms


@torch_op("bartlett_window", "blackman_window", "hamming_window", "hann_window", "kaiser_window")
def window_values(node: FxNode) -> Expr:
    """Builds a window of a static length; a periodic one is one element of a longer one short."""
    length = node.plain("window_length")
    count = length + 1 if node.flag("periodic", True) and length > 1 else length
    turns = 2 * np.pi * np.arange(count) / max(count - 1, 1)
    match node.spec.target.split(".")[1]:
        case "bartlett_window":
            values = np.bartlett(count)
        case "blackman_window":
            values = 0.42 - 0.5 * np.cos(turns) + 0.08 * np.cos(2 * turns)
        case "hann_window":
            values = 0.5 - 0.5 * np.cos(turns)
        case "hamming_window":
            values = node.arg("alpha", 0.54) - node.arg("beta", 0.46) * np.cos(turns)
        case _:
            values = np.kaiser(count, node.arg("beta", 12.0))
    return number(values[:length] if length > 1 else np.ones(length), node.out_dtype())


@torch_op("stft")
@complex_op("stft")
def short_time_transform(node: FxNode) -> Any:
    """Builds stft: overlapping frames, weighted by a window, and their transforms."""
    signal, length = node.arg("self"), node.plain("n_fft")
    pad = length // 2 if ".center" in node.spec.target and node.flag("center", True) else 0
    if pad:
        node.fail("center: expected False, found True", "call `torch.stft`, which pads first")
    hop = node.arg("hop_length", None)
    step = length // 4 if hop is None else node.whole(hop)
    window = _window(node, length)
    is_real = not isinstance(signal, ComplexTensor)
    frames = map_parts(lambda x: _frames(node, x, length, step, window), signal)
    onesided = node.arg("onesided", None)
    kind: Kind = "to_half" if is_real and onesided is not False else "complex"
    scale: Scale = "root" if node.flag("normalized") else "none"
    axis = node.rank()
    result = apply_transform(node, frames, Transform(kind, False, (axis,), (length,), scale))
    order = [*range(axis - 1), axis, axis - 1]
    result = ComplexTensor(*[node.emit(R.permute_dims(getattr(result, p), order)) for p in PARTS])
    return result if node.meta().is_complex else join_pairs(result)


def _frames(node: FxNode, x: Expr, length: int, step: Dim, window: Expr | None) -> Expr:
    """Returns overlapping frames of the last axis, weighted by a window."""
    *leading, size = node.dims_of(x)
    count = dims.floordiv(size - length, step) + 1
    starts = R.multiply(index_range(count), size_number(step))
    indices = R.add(reshape_to(starts, (count, 1)), index_range(length))
    frames = R.take(x, node.fold(indices), axis=len(leading))
    return node.emit(frames if window is None else R.multiply(frames, window))


def _window(node: FxNode, length: int) -> Expr | None:
    """Returns the window, zero-padded on both sides to the length of a frame; None for ones."""
    window, stated = node.get("window"), node.arg("win_length", None)
    width = length if stated is None else node.whole(stated)
    if window is None and width == length:
        return None
    dtype = node.out_dtype()
    x = R.full((width,), number(1, dtype)) if window is None else cast(window, dtype)
    before = (length - width) // 2
    after = length - width - before
    return node.emit(R.nn.pad(x, [before, after]) if before or after else x)
