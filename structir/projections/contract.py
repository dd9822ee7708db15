"""Computes sums of products of reads as batched matrix products or general contractions."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from math import prod
from typing import Any

from structir.ir.dtype import dtype_of, is_float
from structir.lazy import lazy_module
from structir.projections.access import LoadedView, LoopSpace, Mask, intersect_masks
from structir.projections.scalar_expr import ScalarExpr
from structir.projections.spec import product_of_reads
from structir.projections.values import computing_dtype

np = lazy_module("numpy")

Array = Any


def contract(
    value: ScalarExpr,
    fetched: Mapping[str, LoadedView],
    exists: Mask,
    space: LoopSpace,
    parallel: int,
) -> Array | None:
    """Returns the sum over the reduced axes, those from `parallel` on; None if it is not a
    contraction.

    A contraction sums a product of at least two different reads of one dtype.
    """
    names = product_of_reads(value)
    if names is None or len(names) < 2 or 0 in space.shape:
        return None
    arrays = [_fill_absent(fetched[name]) for name in names]
    if exists is not None and not _zeros_vanish(arrays, [fetched[n].exists for n in names], exists):
        return None
    arrays = [a.astype(computing_dtype(dtype_of(a)), copy=False) for a in arrays]
    if len({a.dtype for a in arrays}) > 1 or arrays[0].dtype == bool:
        return None
    unused = [
        k for k in range(parallel, len(space.shape)) if not any(_varies(a, k) for a in arrays)
    ]
    count = prod(space.shape[k] for k in unused)
    # NaN and infinity are results like others; BLAS may set flags for elements that it ignores.
    with np.errstate(all="ignore"):
        if len(arrays) == 2:
            product = matrix_product(arrays[0], arrays[1], space.shape, parallel)
        else:
            product = _einsum(arrays, space.shape, parallel)
        product = product if count == 1 else product * count
    return np.broadcast_to(product, space.shape[:parallel])


def _fill_absent(read: LoadedView) -> Array:
    """Returns the values of a read, with 0 at absent points."""
    if read.exists is None:
        return read.values
    return np.where(read.exists, read.values, np.zeros((), read.values.dtype))


def _zeros_vanish(arrays: list[Array], masks: list[Mask], exists: Array) -> bool:
    """Whether absent points contribute 0: some factor is 0 there, and all factors are finite."""
    absent_somewhere = [m for m in masks if m is not None]
    if not absent_somewhere or not np.array_equal(
        reduce(intersect_masks, absent_somewhere), exists
    ):
        return False
    return all(bool(np.isfinite(a).all()) for a in arrays if is_float(dtype_of(a)))


def _varies(array: Array, axis: int) -> bool:
    return bool(array.shape[axis] != 1)


def matrix_product(lhs: Array, rhs: Array, shape: tuple[int, ...], parallel: int) -> Array:
    """Returns the product of two arrays over one space, summed over the axes from `parallel` on."""
    axes = range(len(shape))
    summed = [k for k in axes if k >= parallel and shape[k] > 1]
    lhs = _sum(lhs, [k for k in summed if _varies(lhs, k) and not _varies(rhs, k)])
    rhs = _sum(rhs, [k for k in summed if _varies(rhs, k) and not _varies(lhs, k)])
    batch = [k for k in range(parallel) if _varies(lhs, k) and _varies(rhs, k)]
    rows = [k for k in range(parallel) if _varies(lhs, k) and not _varies(rhs, k)]
    columns = [k for k in range(parallel) if _varies(rhs, k) and not _varies(lhs, k)]
    inner = [k for k in range(parallel, len(shape)) if _varies(lhs, k) and _varies(rhs, k)]
    product = _as_matrices(lhs, batch, rows, inner) @ _as_matrices(rhs, batch, inner, columns)
    order = [*batch, *rows, *columns]
    spread = product.reshape([shape[k] for k in order])
    full = np.transpose(spread, np.argsort(order)) if order else spread
    return full.reshape([shape[k] if k in order else 1 for k in range(parallel)])


def _sum(array: Array, axes: list[int]) -> Array:
    return array.sum(axis=tuple(axes), keepdims=True, dtype=array.dtype) if axes else array


def _as_matrices(array: Array, *groups: list[int]) -> Array:
    """Returns the array with one axis per group of axes."""
    axes = [k for group in groups for k in group]
    squeezed = array.squeeze(tuple(k for k in range(array.ndim) if k not in axes))
    ordered = np.transpose(squeezed, [sorted(axes).index(k) for k in axes])
    return ordered.reshape([prod(array.shape[k] for k in group) for group in groups])


def _einsum(arrays: list[Array], shape: tuple[int, ...], parallel: int) -> Array:
    operands: list[Any] = []
    for array in arrays:
        axes = [k for k in range(array.ndim) if _varies(array, k)]
        operands += [array.squeeze(tuple(k for k in range(array.ndim) if k not in axes)), axes]
    present = {k for axes in operands[1::2] for k in axes}
    output_axes = [k for k in range(parallel) if k in present]
    total = np.einsum(*operands, output_axes, optimize=True)
    return total.reshape([shape[k] if k in output_axes else 1 for k in range(parallel)])
