"""Discrete Fourier transforms of the last axis, as matrix products of real and imaginary parts.

A symbolic size is transformed by a kernel. A static size of up to `MAX_DENSE` elements is one
product with a matrix of n x n elements. A larger static size is split into factors (Cooley-Tukey);
a larger prime becomes a convolution of a power of 2 (Bluestein). Each level of factors has tables
of n rotations, so static sizes are limited to `MAX_SIZE`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, MutableMapping
from typing import Any

import numpy as np

from structir.errors import Diagnostic, DiagnosticError
from structir.frontend.fourier_kernel import DTYPES, fourier_function
from structir.frontend.scalars import constant, dims_of, index_range, size_number
from structir.ir import dims
from structir.ir.dims import Dim
from structir.ir.expr import Call, Expr, ShapeExpr, Tuple
from structir.ir.node import Node
from structir.script import R

MAX_DENSE = 256
MAX_SIZE = 2**20
Emit = Callable[[Expr], Expr]  # binds a value to a variable
Functions = MutableMapping[str, Node]  # of the module that is built
Parts = tuple[Expr, Expr | None]  # real and imaginary part; None for a real tensor


def transform(
    emit: Emit, functions: Functions, x: Parts, *, inverse: bool = False
) -> tuple[Expr, Expr]:
    """Returns the unscaled transform of the last axis.

    Raises DiagnosticError if its static size exceeds `MAX_SIZE`.
    """
    size = dims_of(x[0])[-1]
    if isinstance(size, int) and size > MAX_SIZE:
        message = f"Fourier transform: expected a size of at most {MAX_SIZE}, found {size}"
        hint = f"split the signal into frames of at most {MAX_SIZE} elements"
        raise DiagnosticError(Diagnostic(message, hint=hint, code="E0109"))
    if _is_for_kernel(x[0]):
        return _kernel_transform(emit, functions, x, inverse)
    return _transform(emit, x, inverse)


def _is_for_kernel(x: Expr) -> bool:
    return not isinstance(dims_of(x)[-1], int) and _dtype(x) in DTYPES


def _kernel_transform(
    emit: Emit, functions: Functions, x: Parts, inverse: bool
) -> tuple[Expr, Expr]:
    """Returns the transform by the kernel of a symbolic size."""
    sizes, dtype = dims_of(x[0]), _dtype(x[0])
    function, required = fourier_function(dtype, inverse)
    functions.update(required)
    shape = ShapeExpr((math.prod(sizes[:-1]), sizes[-1]))
    real = emit(R.reshape(x[0], shape))
    imag = emit(R.zeros_like(real) if x[1] is None else R.reshape(x[1], shape))
    result: Any = emit(Call(function, (real, imag)))
    first, second = (emit(R.reshape(emit(result[k]), ShapeExpr(sizes))) for k in range(2))
    return first, second


def _transform(emit: Emit, x: Parts, inverse: bool) -> tuple[Expr, Expr]:
    size = dims_of(x[0])[-1]
    if not isinstance(size, int) or size <= MAX_DENSE:
        return _dense(emit, x, size, size, inverse)
    factor = next(k for k in range(math.isqrt(size), 0, -1) if size % k == 0)
    if factor == 1:
        return _chirp_transform(emit, x, size, inverse)
    return _split_transform(emit, x, factor, size // factor, inverse)


def one_sided(emit: Emit, functions: Functions, x: Expr) -> tuple[Expr, Expr]:
    """Returns the first n // 2 + 1 elements of the transform of a real tensor."""
    size = dims_of(x)[-1]
    bins = dims.floordiv(size, 2) + 1
    if size <= MAX_DENSE if isinstance(size, int) else not _is_for_kernel(x):
        return _dense(emit, (x, None), size, bins, False)
    real, imaginary = transform(emit, functions, (x, None))
    return slice_last(real, 0, bins), slice_last(imaginary, 0, bins)


def real_inverse(emit: Emit, functions: Functions, x: Parts, size: Dim) -> Expr:
    """Returns the unscaled inverse transform, a real tensor of `size` elements, of its first
    size // 2 + 1 coefficients."""
    if not isinstance(size, int):
        if _dtype(x[0]) in DTYPES:
            mirrored = _mirrored(emit, x, size)
            return transform(emit, functions, mirrored, inverse=True)[0]
        return _dense_real_inverse(emit, x, size)
    if size <= MAX_DENSE:
        return _dense_real_inverse(emit, x, size)
    pieces = [None if p is None else R.flip(slice_last(p, 1, (size + 1) // 2), axis=-1) for p in x]
    if pieces[1] is not None:
        pieces[1] = R.negative(pieces[1])
    real, imaginary = [
        None if p is None or m is None else emit(R.concat(Tuple((p, m)), axis=-1))
        for p, m in zip(x, pieces, strict=True)
    ]
    assert real is not None
    return transform(emit, functions, (real, imaginary), inverse=True)[0]


def _mirrored(emit: Emit, x: Parts, size: Dim) -> Parts:
    """Returns all `size` coefficients of a real signal: coefficient n - k is conjugate to k."""
    real, imaginary = x
    index, bins = index_range(size), size_number(dims_of(real)[-1], "int64")
    is_stored = emit(R.less(index, bins))
    opposite = R.subtract(size_number(size, "int64"), index)
    source = emit(R.where(is_stored, index, opposite))
    axis = len(dims_of(real)) - 1
    all_real = emit(R.take(real, source, axis=axis))
    if imaginary is None:
        return all_real, None
    values = emit(R.take(imaginary, source, axis=axis))
    return all_real, emit(R.where(is_stored, values, R.negative(values)))


def fit_last(emit: Emit, x: Expr, target: Dim) -> Expr:
    """Returns a tensor truncated or zero-padded along the last axis to a size."""
    *leading, size = dims_of(x)
    common = dims.dim_min(size, target)
    if dims.at_least(size, target) is True:
        common = target
    if dims.at_least(target, size) is True:
        common = size
    if dims.equal(common, size) is not True:
        x = slice_last(x, 0, common)
    if dims.equal(common, target) is True:
        return x
    zeros = R.full(ShapeExpr((*leading, target - common)), constant(0, _dtype(x)))
    return emit(R.concat(Tuple((x, zeros)), axis=-1))


def slice_last(x: Expr, start: Dim, end: Dim) -> Expr:
    """Returns the elements from `start` to `end` (exclusive) of the last axis."""
    return R.strided_slice(x, [-1], (start,), (end,))


def _dense(emit: Emit, x: Parts, size: Dim, bins: Dim, inverse: bool) -> tuple[Expr, Expr]:
    """Returns the first `bins` elements of the transform as products with two matrices."""
    real, imaginary = x
    cosines, sines = _angles(emit, size, bins, size, _dtype(real), 1 if inverse else -1)
    out_real, out_imaginary = R.matmul(real, cosines), R.matmul(real, sines)
    if imaginary is not None:
        out_real = R.subtract(out_real, R.matmul(imaginary, sines))
        out_imaginary = R.add(out_imaginary, R.matmul(imaginary, cosines))
    return emit(out_real), emit(out_imaginary)


def _dense_real_inverse(emit: Emit, x: Parts, size: Dim) -> Expr:
    """Returns the real inverse: all coefficients but the first and the middle one count twice."""
    real, imaginary = x
    dtype, bins = _dtype(real), dims_of(real)[-1]
    cosines, sines = _angles(emit, bins, size, size, dtype, 1)
    weight = _weights(emit, bins, size, dtype)
    total = R.matmul(R.multiply(real, weight), cosines)
    if imaginary is not None:
        total = R.subtract(total, R.matmul(R.multiply(imaginary, weight), sines))
    return emit(total)


def _weights(emit: Emit, bins: Dim, size: Dim, dtype: str) -> Expr:
    if isinstance(bins, int) and isinstance(size, int):
        k = np.arange(bins)
        return constant(np.where((k == 0) | (2 * k == size), 1, 2), dtype)
    indices = index_range(bins)
    is_middle = R.equal(R.multiply(indices, constant(2, "int64")), size_number(size, "int64"))
    counts_once = R.logical_or(R.equal(indices, constant(0, "int64")), is_middle)
    return emit(R.where(counts_once, constant(1, dtype), constant(2, dtype)))


def _split_transform(
    emit: Emit, x: Parts, rows: int, columns: int, inverse: bool
) -> tuple[Expr, Expr]:
    """Returns a transform of rows x columns elements: of the columns, then of the rows.

    Index j = j1 * columns + j2 becomes k = k1 + rows * k2.
    """
    leading, dtype = dims_of(x[0])[:-1], _dtype(x[0])
    inner = _transform(emit, _each(x, _swapped, (*leading, rows, columns)), inverse)
    turns = np.outer(np.arange(columns), np.arange(rows)) / (rows * columns)
    twisted = _rotate(emit, inner, turns * (1 if inverse else -1), dtype)
    outer = _transform(emit, _each(twisted, _swapped, None), inverse)
    real, imaginary = _each(outer, _swapped, None)
    assert imaginary is not None
    shape = ShapeExpr((*leading, rows * columns))
    return emit(R.reshape(real, shape)), emit(R.reshape(imaginary, shape))


def _each(x: Parts, act: Callable[[Expr, Any], Expr], argument: Any) -> Parts:
    return act(x[0], argument), None if x[1] is None else act(x[1], argument)


def _swapped(x: Expr, shape: tuple[Dim, ...] | None) -> Expr:
    """Returns a tensor, reshaped unless `shape` is None, with its last two axes exchanged."""
    x = x if shape is None else R.reshape(x, ShapeExpr(shape))
    rank = len(dims_of(x))
    return R.permute_dims(x, [*range(rank - 2), rank - 1, rank - 2])


def _chirp_transform(emit: Emit, x: Parts, size: int, inverse: bool) -> tuple[Expr, Expr]:
    """Returns a transform as the convolution of x w(j) with 1 / w(j), where w(j) is the rotation
    by j * j / 2n turns: 2 j k = j * j + k * k - (k - j) ** 2."""
    dtype, sign = _dtype(x[0]), 1 if inverse else -1
    turns = sign * (np.arange(size, dtype="int64") ** 2 % (2 * size)) / (2 * size)
    length = 1 << (2 * size - 1).bit_length()
    kernel = np.zeros(length, complex)
    kernel[:size] = np.exp(-2j * np.pi * turns)
    kernel[length - size + 1 :] = kernel[1:size][::-1]
    spectrum = np.fft.fft(kernel) / length
    padded = [fit_last(emit, p, length) for p in _rotate(emit, x, turns, dtype)]
    product = _multiply_constant(
        emit, _transform(emit, (padded[0], padded[1]), False), spectrum, dtype
    )
    result = [slice_last(p, 0, size) for p in _transform(emit, product, True)]
    return _rotate(emit, (result[0], result[1]), turns, dtype)


def _rotate(emit: Emit, x: Parts, turns: Any, dtype: str) -> tuple[Expr, Expr]:
    return _multiply_constant(emit, x, np.exp(2j * np.pi * turns), dtype)


def _multiply_constant(emit: Emit, x: Parts, factor: Any, dtype: str) -> tuple[Expr, Expr]:
    """Returns the product with constant complex numbers."""
    (real, imaginary), c, s = x, constant(factor.real, dtype), constant(factor.imag, dtype)
    out_real, out_imaginary = R.multiply(real, c), R.multiply(real, s)
    if imaginary is not None:
        out_real = R.subtract(out_real, R.multiply(imaginary, s))
        out_imaginary = R.add(out_imaginary, R.multiply(imaginary, c))
    return emit(out_real), emit(out_imaginary)


def _angles(
    emit: Emit, rows: Dim, columns: Dim, size: Dim, dtype: str, sign: int
) -> tuple[Expr, Expr]:
    """Returns cos and `sign` * sin of 2 pi j k / size; j k is reduced modulo the size for
    accuracy."""
    if isinstance(rows, int) and isinstance(columns, int) and isinstance(size, int):
        turns = np.outer(np.arange(rows), np.arange(columns)) % max(size, 1)
        angles = turns * (2 * math.pi / max(size, 1))
        return constant(np.cos(angles), dtype), constant(sign * np.sin(angles), dtype)
    j = R.reshape(index_range(rows), ShapeExpr((rows, 1)))
    products = R.floor_mod(R.multiply(j, index_range(columns)), size_number(size, "int64"))
    fraction = R.divide(R.astype(products, "float64"), size_number(size, "float64"))
    radians = emit(R.multiply(fraction, constant(sign * 2 * math.pi, "float64")))
    return emit(R.astype(R.cos(radians), dtype)), emit(R.astype(R.sin(radians), dtype))


def _dtype(x: Expr) -> str:
    return x.struct_info.dtype
