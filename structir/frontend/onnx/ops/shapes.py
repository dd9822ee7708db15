"""Mappings of shape queries, reshaping and axis permutation."""

from __future__ import annotations

import math
from math import prod
from typing import Any

import numpy as np

from structir.frontend.onnx.node import OnnxNode
from structir.frontend.onnx.registry import carries, onnx_op
from structir.frontend.onnx.sizes import run_time_sizes, sizes_of
from structir.frontend.onnx.values import Elements, OnnxValue, as_elements, as_expression
from structir.frontend.scalars import constant, reshape_to, size_number
from structir.ir import dims
from structir.ir.dims import Dim, Poly
from structir.ir.expr import Expr, ShapeExpr
from structir.script import R


@onnx_op("Shape")
def shape(node: OnnxNode) -> OnnxValue:
    rank = node.rank()
    start, end = node.attr("start", 0), node.attr("end", rank)
    sizes = node.dims()[slice(start, end)]
    elements = as_elements(list(sizes), (len(sizes),))
    return OnnxValue(as_expression(elements, "int64"), elements)


@onnx_op("Size")
def size(node: OnnxNode) -> OnnxValue:
    elements = as_elements([prod(node.dims())], ())
    return OnnxValue(as_expression(elements, "int64"), elements)


@onnx_op("Reshape")
def reshape_by_operand(node: OnnxNode) -> Expr:
    if node.version < 5 and not node.has(1):
        return reshape_to(node[0], _resolve_sizes(node, list(node.attr("shape"))))
    if node.elements(1) is not None:
        return reshape_to(node[0], _resolve_sizes(node, list(node.sizes(1))))
    return reshape_to(node[0], _run_time_shape(node))


def _resolve_sizes(node: OnnxNode, sizes: list[Dim]) -> list[Dim]:
    """Returns the sizes of a Reshape with 0 and -1 resolved where possible."""
    if not node.flag("allowzero"):
        input_dims = node.info().dims
        for position, size in enumerate(sizes):
            if isinstance(size, int) and size == 0:
                if not isinstance(input_dims, tuple) or position >= len(input_dims):
                    node.fail(
                        f"shape[{position}] is 0, but the operand has no axis {position} to copy"
                    )
                sizes[position] = input_dims[position]
    if sizes.count(-1) > 1:
        node.fail(f"shape: expected at most one -1, found {sizes.count(-1)}")
    input_dims = node.info().dims
    if -1 in sizes and isinstance(input_dims, tuple):
        known_product = prod(s for s in sizes if not (isinstance(s, int) and s == -1))
        quotient = dims.exact_quotient(prod(input_dims), known_product) if known_product != 0 else 0
        if quotient is None and dims.at_least(known_product, 1) is True:
            quotient = dims.floordiv(prod(input_dims), known_product)
        if quotient is not None:
            sizes[sizes.index(-1)] = quotient
    return sizes


def _run_time_shape(node: OnnxNode) -> tuple[Dim, ...]:
    """Returns the data-dependent sizes of a Reshape."""
    (count,) = node.static_dims(1)
    input_dims = node.dims()
    requested = R.astype(node[1], "int64")
    zero, minus = constant(0), constant(-1)
    if not node.flag("allowzero"):
        copied = [input_dims[i] if i < len(input_dims) else 0 for i in range(count)]
        requested = R.where(
            R.equal(requested, zero), R.shape_to_tensor(ShapeExpr(tuple(copied))), requested
        )
    requested = node.emit(requested)
    is_inferred = node.emit(R.equal(requested, minus))
    known_product = R.prod(R.where(is_inferred, constant(1), requested))
    total = size_number(prod(input_dims))
    quotient = R.floor_divide(total, R.maximum(known_product, constant(1)))
    sources = frozenset() if node.values[1] is None else node.values[1].sources
    return run_time_sizes(node, R.where(is_inferred, quotient, requested), sources)


@onnx_op("Flatten")
def flatten(node: OnnxNode) -> Expr:
    sizes, axis = node.dims(), node.attr("axis")
    axis = axis + len(sizes) if axis < 0 else axis
    if not 0 <= axis <= len(sizes):
        node.fail(f"axis {axis} is out of range for rank {len(sizes)}")
    return reshape_to(node[0], (prod(sizes[:axis]), prod(sizes[axis:])))


def axes_of(node: OnnxNode, position: int = 1, name: str = "axes") -> tuple[int, ...] | None:
    """Returns the axes from an attribute or an operand, or None if absent."""
    if node.has(position) and name not in node.attributes:
        return node.ints(position)
    axes = node.attr(name, None)
    return None if axes is None else tuple(axes)


@onnx_op("Squeeze")
def squeeze(node: OnnxNode) -> Expr:
    sizes, axes = node.dims(), axes_of(node)
    if axes is None:
        symbolic = [d for d in sizes if isinstance(d, Poly)]
        if symbolic:
            node.require_sources(symbolic)
            node.fail(
                f"axes: expected an operand or attribute for a shape with symbolic sizes {sizes}",
                f'`helper.make_node("Squeeze", ["{node.inputs[0]}", "axes"], ...)`',
            )
        axes = tuple([i for i, d in enumerate(sizes) if d == 1])
    axis_set = {node.normalize_axis(a, len(sizes)) for a in axes}
    for position in axis_set:
        if dims.equal(sizes[position], 1) is False:
            node.fail(f"axis {position}: expected size 1, found {dims.text(sizes[position])}")
    return R.squeeze(node[0], sorted(axis_set)) if axis_set else node[0]


@onnx_op("Unsqueeze")
def unsqueeze(node: OnnxNode) -> Expr:
    axes = axes_of(node) or ()
    if len(axes) == 1 and node.info().ndim is None:
        return R.expand_dims(node[0], list(axes))
    rank = node.rank() + len(axes)
    axis_list = sorted({node.normalize_axis(a, rank) for a in axes})
    if len(axis_list) < len(axes):
        node.fail(f"axes: expected distinct axes, found {list(axes)}")
    return R.expand_dims(node[0], axis_list) if axis_list else node[0]


@onnx_op("Transpose")
def transpose(node: OnnxNode) -> Expr:
    order, rank = node.attr("perm", None), node.info().ndim
    if order is None and rank is None:
        return R.permute_dims(node[0])
    if order is None:
        order = tuple(reversed(range(node.rank())))
    return R.permute_dims(node[0], list(order)) if node.rank() else node[0]


@onnx_op("Expand")
def expand(node: OnnxNode) -> Expr:
    if node.elements(1) is None:
        sizes = sizes_of(node, 1)
        ones = R.full(ShapeExpr(sizes), constant(True, "bool"))
        return R.where(ones, node[0], node[0])
    return R.broadcast_to(node[0], ShapeExpr(broadcast_sizes(node, node.dims(), node.sizes(1))))


def broadcast_sizes(node: OnnxNode, lhs: tuple[Dim, ...], rhs: tuple[Dim, ...]) -> tuple[Dim, ...]:
    """Returns the shape that two shapes broadcast to."""
    rank = max(len(lhs), len(rhs))
    lhs_sizes = (1,) * (rank - len(lhs)) + lhs
    rhs_sizes = (1,) * (rank - len(rhs)) + rhs
    return tuple([_broadcast_dim(a, b) for a, b in zip(lhs_sizes, rhs_sizes, strict=True)])


def _broadcast_dim(a: Dim, b: Dim) -> Dim:
    if isinstance(b, int) and b == 1:
        return a
    if isinstance(a, int) and a == 1:
        return b
    return a if isinstance(a, int) else b


@onnx_op("Tile")
def tile(node: OnnxNode) -> Expr:
    if node.version < 6:
        node.fail(
            f"expected opset 6 or later, found {node.version}",
            "export the model again: `torch.onnx.export(..., opset_version=13)`",
        )
    return R.tile(node[0], ShapeExpr(sizes_of(node, 1)))


@onnx_op("DepthToSpace")
def depth_to_space(node: OnnxNode) -> Expr:
    n, c, h, w = node.dims()
    b = node.attr("blocksize")
    out_channels = dims.exact_quotient(c, b * b)
    if out_channels is None:
        node.fail(f"axis 1 of the input: expected a multiple of {b * b}, found {dims.text(c)}")
    if node.choice("mode", ("DCR", "CRD"), "DCR") == "DCR":
        split_shape, order = (n, b, b, out_channels, h, w), [0, 3, 4, 1, 5, 2]
    else:
        split_shape, order = (n, out_channels, b, b, h, w), [0, 1, 4, 2, 5, 3]
    return reshape_to(
        R.permute_dims(reshape_to(node[0], split_shape), order), (n, out_channels, h * b, w * b)
    )


@onnx_op("SpaceToDepth")
def space_to_depth(node: OnnxNode) -> Expr:
    n, c, h, w = node.dims()
    b = node.attr("blocksize")
    rows, columns = dims.floordiv(h, b), dims.floordiv(w, b)
    split_blocks = reshape_to(node[0], (n, c, rows, b, columns, b))
    by_column = node.choice("mode", ("DCR", "CRD"), "DCR") == "CRD"
    reordered = R.permute_dims(
        split_blocks, [0, 1, 3, 5, 2, 4] if by_column else [0, 3, 5, 1, 2, 4]
    )
    return reshape_to(reordered, (n, c * b * b, rows, columns))


# ---- known elements


carries("Identity")(lambda node, x: (x, node.dtype()))


@carries("Squeeze")
def _squeeze(node: OnnxNode, x: Elements, *rest: Elements) -> Any:
    axes = axes_of(node)
    return x.squeeze(axes), node.dtype()


@carries("Unsqueeze")
def _unsqueeze(node: OnnxNode, x: Elements, *rest: Elements) -> Any:
    return np.expand_dims(x, axes_of(node) or ()), node.dtype()


@carries("Reshape")
def _reshape(node: OnnxNode, x: Elements, shape: Elements) -> Any:
    sizes = [int(s) for s in shape.ravel()]
    if not node.flag("allowzero"):
        sizes = [x.shape[i] if s == 0 else s for i, s in enumerate(sizes)]
    return x.reshape(sizes), node.dtype()


carries("Transpose")(lambda node, x: (x.transpose(node.attr("perm", None)), node.dtype()))


@carries("Expand")
def _expand(node: OnnxNode, x: Elements, shape: Elements) -> Any:
    target = np.broadcast_shapes(x.shape, tuple([int(s) for s in shape.ravel()]))
    return (np.broadcast_to(x, target), node.dtype()) if math.prod(target) <= 64 else None


@carries("Tile")
def _tile(node: OnnxNode, x: Elements, repeats: Elements) -> Any:
    times = [int(r) for r in repeats.ravel()]
    return (np.tile(x, times), node.dtype()) if math.prod(times) * x.size <= 64 else None
