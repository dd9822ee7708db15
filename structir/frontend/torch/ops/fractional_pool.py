"""Mappings of max pools whose windows begin at fractions of the input."""

from __future__ import annotations

from structir.frontend.scalars import index_range, number, reshape_to, size_number
from structir.frontend.torch.node import FxNode
from structir.frontend.torch.ops.conv import per_axis
from structir.frontend.torch.registry import torch_op
from structir.frontend.torch.scalars import cast, product
from structir.ir import dims
from structir.ir.dims import Dim
from structir.ir.expr import Expr
from structir.script import R

# The column of `random_samples` for each spatial axis.
SAMPLES = {2: (1, 0), 3: (0, 1, 2)}


@torch_op("fractional_max_pool2d", "fractional_max_pool3d")
def fractional_max_pool(node: FxNode) -> list[Expr]:
    """Returns the maxima, and their flat indices in the spatial plane."""
    count = int(node.spec.target.partition("pool")[2][0])
    kernel, out_sizes = per_axis(node, "kernel_size", count, 1), node.sizes("output_size")
    *leading, _ = node.dims("random_samples")
    x = node["self"]
    sizes = node.dims()[-count:]
    x = node.emit(reshape_to(x, (*leading, product(sizes))))
    position: Expr = number(0, "int64")
    for axis, (size, out_size, extent) in enumerate(zip(sizes, out_sizes, kernel, strict=True)):
        starts = _starts(node, SAMPLES[count][axis], size, out_size, extent)
        starts = reshape_to(starts, (*leading, *_only(axis, out_size, count), *[1] * count))
        offsets = reshape_to(index_range(extent), (*[1] * count, *_only(axis, extent, count)))
        coordinate = R.add(starts, offsets)
        scaled = R.multiply(position, size_number(size))
        position = node.emit(R.add(scaled, coordinate))
    windows = (*leading, product(out_sizes), product(kernel))
    position = node.emit(reshape_to(position, windows))
    flat = reshape_to(position, (*leading, product(windows[-2:])))
    values = R.gather_elements(x, flat, axis=len(leading))
    values = node.emit(reshape_to(node.emit(values), windows))
    best = node.emit(cast(R.argmax(values, axis=-1, keepdims=True), "int64"))
    results = [R.gather_elements(part, best, axis=-1) for part in (values, position)]
    shape = (*node.dims()[:-count], *out_sizes)
    return [reshape_to(node.emit(result), shape) for result in results]


def _only(axis: int, size: Dim, count: int) -> list[Dim]:
    return [size if k == axis else 1 for k in range(count)]


def _starts(node: FxNode, column: int, size: Dim, out_size: Dim, extent: int) -> Expr:
    """Returns where windows begin along an axis, for each plane; the last one ends at the end."""
    samples, rank = node["random_samples"], node.rank("random_samples")
    dtype = node.dtype("random_samples")
    sample = R.strided_slice(samples, [rank - 1], (column,), (column + 1,))
    room = size_number(size - extent, dtype)
    gaps = size_number(dims.dim_max(out_size - 1, 1), dtype)
    step = node.emit(R.divide(room, gaps))
    index = node.emit(index_range(out_size))
    moved = R.multiply(R.add(cast(index, dtype), sample), step)
    first = node.emit(R.multiply(sample, step))
    start = R.subtract(cast(moved, "int64"), cast(first, "int64"))
    is_last = R.equal(index, size_number(out_size - 1))
    return node.emit(R.where(is_last, size_number(size - extent), start))
