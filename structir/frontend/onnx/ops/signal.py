"""Mappings of Fourier transforms, as matrix products, and of mel weight matrices."""

from __future__ import annotations

import numpy as np

from structir.frontend.fourier import (
    fit_last,
    one_sided,
    real_inverse,
    slice_last,
    transform,
)
from structir.frontend.onnx.node import OnnxNode
from structir.frontend.onnx.registry import onnx_op
from structir.frontend.scalars import constant, index_range, reshape_to, size_number
from structir.ir import dims
from structir.ir.dims import Dim
from structir.ir.expr import Expr, Tuple
from structir.script import R

onnx_op("DFT")(lambda node: _dft(node, node.attr("axis")))
onnx_op("DFT", since=20)(lambda node: _dft(node, node.ints(2)[0] if node.has(2) else -2))


def _dft(node: OnnxNode, axis: int) -> Expr:
    rank = node.rank()
    position = node.normalize_axis(axis, rank)
    inverse, is_onesided = node.flag("inverse"), node.flag("onesided")
    size: Dim = node.dims()[position]
    length = (
        node.sizes(1)[0] if node.has(1) else (size - 1) * 2 if inverse and is_onesided else size
    )
    if dims.at_least(0, length) is True:
        raise node.wrong(f"dft_length: expected at least 1, found {dims.text(length)}")
    order = [*[k for k in range(rank - 1) if k != position], position, rank - 1]
    needed = dims.floordiv(length, 2) + 1 if inverse and is_onesided else length
    x = node.emit(R.permute_dims(node[0], [*order[:-2], rank - 1, position]))
    x = node.emit(R.permute_dims(fit_last(node.emit, x, needed), [*range(rank - 2), -1, -2]))
    result = fourier_transform(node, x, length, inverse, is_onesided)
    inverse_order = [order.index(k) for k in range(rank)]
    return R.permute_dims(result, inverse_order)


def fourier_transform(
    node: OnnxNode, x: Expr, length: Dim, inverse: bool, is_onesided: bool
) -> Expr:
    """Returns the transform over axis -2; axis -1 holds real and imaginary parts."""
    sizes, emit, functions = node.tensor_info(x).dims, node.emit, node.importer.builder.functions
    real, *others = [
        emit(R.squeeze(R.strided_slice(x, [-1], (k,), (k + 1,)), [-1])) for k in range(sizes[-1])
    ]
    parts = real, others[0] if others else None
    scale = size_number(length, node.dtype())
    if inverse and is_onesided:
        return R.expand_dims(R.divide(real_inverse(emit, functions, parts, length), scale), [-1])
    if is_onesided and not others:
        return _joined(one_sided(emit, functions, real))
    out_real, out_imaginary = transform(emit, functions, parts, inverse=inverse)
    if is_onesided:
        bins = dims.floordiv(length, 2) + 1
        out_real, out_imaginary = slice_last(out_real, 0, bins), slice_last(out_imaginary, 0, bins)
    result = _joined((out_real, out_imaginary))
    return R.divide(result, scale) if inverse else result


def _joined(parts: tuple[Expr, Expr]) -> Expr:
    return R.stack(Tuple(parts), axis=-1)


@onnx_op("STFT")
def stft(node: OnnxNode) -> Expr:
    """Builds STFT: overlapping frames, weighted by a window, and their transforms."""
    step = node.sizes(1)[0]
    length = node.sizes(3)[0] if node.has(3) else node.dims(2)[0]
    count = dims.floordiv(node.dims()[1] - length, step) + 1
    starts = index_range(count)
    offsets = index_range(length)
    indices = R.add(
        reshape_to(R.multiply(starts, size_number(step)), (count, 1)),
        reshape_to(offsets, (1, length)),
    )
    x = node[0] if node.rank() == 3 else R.expand_dims(node[0], [2])
    frames = R.take(x, indices, axis=1)
    if node.has(2):
        frames = R.multiply(frames, reshape_to(node[2], (length, 1)))
    return fourier_transform(node, node.emit(frames), length, False, node.flag("onesided"))


@onnx_op("MelWeightMatrix")
def mel_weight_matrix(node: OnnxNode) -> Expr:
    bands, length, rate = (int(node.constant(k).item()) for k in range(3))
    low, high = (float(node.constant(k).item()) for k in (3, 4))
    bins = length // 2 + 1
    edges = 2595 * np.log10(1 + np.array([low, high]) / 700)
    points = np.arange(bands + 2) * ((edges[1] - edges[0]) / (bands + 2)) + edges[0]
    hertz = 700 * (10 ** (points / 2595) - 1)
    bin_edges = np.floor((length + 1) * hertz / rate).astype(np.int64)
    result = np.zeros((bins, bands))
    for band in range(bands):
        lower, middle, upper = bin_edges[band : band + 3]
        if lower == middle:
            result[middle, band] = 1
        else:
            result[lower : middle + 1, band] = np.arange(middle - lower + 1) / (middle - lower)
        if upper > middle:
            result[middle:upper, band] = (upper - np.arange(middle, upper)) / (upper - middle)
    dtype = node.dtype_attr("output_datatype", "float32") or "float32"
    return constant(result, dtype)
