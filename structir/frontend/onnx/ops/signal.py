"""Mappings of Fourier transforms, as matrix products, and of mel weight matrices."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from structir.frontend.onnx.node import STATIC_SHAPE, OnnxNode
from structir.frontend.onnx.ops.shapes import reshape_to
from structir.frontend.onnx.padding import emit_pad
from structir.frontend.onnx.registry import onnx_op
from structir.frontend.onnx.scalars import constant, number, size_number
from structir.ir import dims
from structir.ir.dims import Dim
from structir.ir.expr import Constant, Expr, PrimValue, Tuple
from structir.script import R


@onnx_op("DFT")
def dft_by_attribute(node: OnnxNode) -> Expr:
    return _dft(node, node.attr("axis"))


@onnx_op("DFT", since=20)
def dft(node: OnnxNode) -> Expr:
    return _dft(node, node.ints(2)[0] if node.has(2) else -2)


def _dft(node: OnnxNode, axis: int) -> Expr:
    rank = node.rank()
    position = node.normalize_axis(axis, rank)
    inverse, is_onesided = node.flag("inverse"), node.flag("onesided")
    size: Dim = node.dims()[position]
    length = (
        node.sizes(1)[0] if node.has(1) else (size - 1) * 2 if inverse and is_onesided else size
    )
    order = [*[k for k in range(rank - 1) if k != position], position, rank - 1]
    needed = dims.floordiv(length, 2) + 1 if inverse and is_onesided else length
    x = _fit_length(node, node.emit(R.permute_dims(node[0], order)), size, needed)
    result = fourier_transform(node, x, length, inverse, is_onesided)
    inverse_order = [order.index(k) for k in range(rank)]
    return R.permute_dims(result, inverse_order)


def _fit_length(node: OnnxNode, x: Expr, size: Dim, target_size: Dim) -> Expr:
    """Returns a tensor truncated or zero-padded along an axis to a size."""
    axis = len(node.tensor_info(x).dims) - 2
    if dims.equal(size, target_size) is True:
        return x
    if dims.at_least(size, target_size) is True:
        return R.strided_slice(x, [axis], (0,), (target_size,))
    if dims.at_least(target_size, size) is not True:
        node.fail(
            f"cannot decide whether the signal of {dims.text(size)} elements is shorter than "
            f"dft_length = {dims.text(target_size)}",
            STATIC_SHAPE,
        )
    after: list[Dim] = [0] * (axis + 2)
    after[axis] = target_size - size
    return node.emit(emit_pad(node, x, [0] * (axis + 2), after, "constant"))


def fourier_transform(
    node: OnnxNode, x: Expr, length: Dim, inverse: bool, is_onesided: bool
) -> Expr:
    """Returns the transform over axis -2; axis -1 holds real and imaginary parts."""
    sizes = node.tensor_info(x).dims
    dtype, rank = node.dtype(), len(sizes)
    real = R.squeeze(R.strided_slice(x, [rank - 1], (0,), (1,)), [rank - 1])
    imaginary = None
    if sizes[-1] == 2:
        imaginary = R.squeeze(R.strided_slice(x, [rank - 1], (1,), (2,)), [rank - 1])
    bins = dims.floordiv(length, 2) + 1
    rows = bins if inverse and is_onesided else length
    columns = bins if is_onesided and not inverse else length
    cosines, sines = (_angles(node, rows, columns, length, f, dtype) for f in (R.cos, R.sin))
    if inverse and is_onesided:
        return _real_inverse(node, real, imaginary, cosines, sines, length)
    signed_sines = sines if inverse else node.emit(R.negative(sines))
    out_real, out_imaginary = R.matmul(real, cosines), R.matmul(real, signed_sines)
    if imaginary is not None:
        out_real = R.subtract(out_real, R.matmul(imaginary, signed_sines))
        out_imaginary = R.add(out_imaginary, R.matmul(imaginary, cosines))
    result = R.stack(Tuple((out_real, out_imaginary)), axis=rank - 1)
    return R.divide(result, size_number(length, dtype)) if inverse else result


def _angles(
    node: OnnxNode, rows: Dim, columns: Dim, length: Dim, function: Any, dtype: str
) -> Expr:
    """Returns cos or sin of 2 pi j k / length; j k is reduced modulo the length for accuracy."""

    def index_vector(size: Dim, shape: tuple[Dim, ...]) -> Expr:
        indices = R.arange(PrimValue(0), PrimValue(size), PrimValue(1), dtype="int64")
        return reshape_to(indices, shape)

    turns = R.multiply(index_vector(rows, (rows, 1)), index_vector(columns, (1, columns)))
    turns_fraction = R.divide(
        R.astype(R.mod(turns, size_number(length)), "float64"), size_number(length, "float64")
    )
    angles = function(R.multiply(turns_fraction, number(2 * math.pi, "float64")))
    value = node.importer.fold_constant(R.astype(angles, dtype))
    return value if isinstance(value, Constant) else node.emit(value)


def _real_inverse(
    node: OnnxNode, real: Expr, imaginary: Expr | None, cosines: Expr, sines: Expr, length: Dim
) -> Expr:
    """Returns the real signal of a one-sided spectrum: all bins but the first and last count
    twice."""
    dtype = node.dtype()
    bins = dims.floordiv(length, 2) + 1
    indices = R.arange(PrimValue(0), PrimValue(bins), PrimValue(1), dtype="int64")
    doubled = R.multiply(indices, constant(2))
    counts_once = R.logical_or(R.equal(indices, constant(0)), R.equal(doubled, size_number(length)))
    weight = R.where(counts_once, number(1, dtype), number(2, dtype))
    total = R.matmul(R.multiply(real, weight), cosines)
    if imaginary is not None:
        total = R.subtract(total, R.matmul(R.multiply(imaginary, weight), sines))
    result = R.divide(total, size_number(length, dtype))
    return R.expand_dims(result, [-1])


@onnx_op("STFT")
def stft(node: OnnxNode) -> Expr:
    """Builds STFT: overlapping frames, weighted by a window, and their transforms."""
    step = node.sizes(1)[0]
    length = node.sizes(3)[0] if node.has(3) else node.dims(2)[0]
    count = dims.floordiv(node.dims()[1] - length, step) + 1
    starts = R.arange(PrimValue(0), PrimValue(count), PrimValue(1), dtype="int64")
    offsets = R.arange(PrimValue(0), PrimValue(length), PrimValue(1), dtype="int64")
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
