"""Mappings of tensor creation (fills, ranges, triangles), copies and dtype conversion."""

from __future__ import annotations

from typing import Any

import numpy as np

from structir.frontend.scalars import constant, index_range, number, reshape_to
from structir.frontend.torch.node import FxNode, are_equal
from structir.frontend.torch.ops.shapes import diagonal_of
from structir.frontend.torch.registry import torch_op
from structir.frontend.torch.scalars import as_tensor, cast
from structir.ir.dims import Poly
from structir.ir.dtype import is_float
from structir.ir.expr import Constant, Expr, PrimValue, ShapeExpr
from structir.script import R


def _full(node: FxNode, value: Any) -> Expr:
    op_name = node.spec.target.split(".")[1]
    has_own_dims = op_name.endswith("_like") or op_name in ("fill", "zero")
    sizes = node.dims() if has_own_dims else node.out_dims()
    return R.full(ShapeExpr(sizes), as_tensor(value, node.out_dtype()))


@torch_op("full", "full_like", "new_full", "fill", "fill.Scalar", "fill.Tensor")
def full(node: FxNode) -> Expr:
    return _full(node, node.arg("fill_value" if "fill_value" in node.spec.args else "value"))


torch_op("ones", "ones_like", "new_ones")(lambda node: _full(node, 1))
torch_op("scalar_tensor")(lambda node: node.operand("s", node.out_dtype()))


@torch_op("zeros", "zeros_like", "new_zeros", "zero", "empty", "empty_like", "new_empty")
@torch_op("empty_strided", "new_empty_strided", "empty_permuted")
def zeros(node: FxNode) -> Expr:
    """Builds zeros, also for uninitialized tensors, which makes results reproducible."""
    return _full(node, 0)


@torch_op("arange")
def arange(node: FxNode) -> Expr:
    start, end, step = (node.arg(n, d) for n, d in (("start", 0), ("end", None), ("step", 1)))
    dtype = node.out_dtype()
    if all(isinstance(v, int | Poly) for v in (start, end, step)):
        result = R.arange(PrimValue(start), PrimValue(end), PrimValue(step), dtype="int64")
        return cast(result, dtype)
    work_dtype = dtype if is_float(dtype) else "float64"
    offsets = R.multiply(index_range(node.out_dims()[0], work_dtype), as_tensor(step, work_dtype))
    return cast(R.add(as_tensor(start, work_dtype), offsets), dtype)


@torch_op("range")
def closed_range(node: FxNode) -> Expr:
    """Returns the numbers from `start` to `end`, which is included, in steps of `step`."""
    dtype, (count,) = node.out_dtype(), node.out_dims()
    work_dtype = dtype if is_float(dtype) else "float64"
    step = as_tensor(node.arg("step", 1), work_dtype)
    offsets = R.multiply(index_range(count, work_dtype), step)
    return cast(R.add(as_tensor(node.arg("start"), work_dtype), offsets), dtype)


@torch_op("linspace")
def linspace(node: FxNode) -> Expr:
    dtype, count = node.out_dtype(), node.size("steps")
    work_dtype = dtype if is_float(dtype) else "float64"
    start, end = node.operand("start", work_dtype), node.operand("end", work_dtype)
    if count == 1:
        return reshape_to(start, (1,))
    step = R.divide(R.subtract(end, start), as_tensor(count - 1, work_dtype))
    return cast(R.add(start, R.multiply(index_range(count, work_dtype), step)), dtype)


@torch_op("eye")
def eye(node: FxNode) -> Expr:
    rows, columns = node.out_dims()
    return R.eye(PrimValue(rows), PrimValue(columns), PrimValue(0), dtype=node.out_dtype())


@torch_op("tril", "triu")
def triangle(node: FxNode) -> Expr:
    op = R.tril if ".tril" in node.spec.target else R.triu
    return op(node["self"], PrimValue(node.size("diagonal", 0)))


@torch_op("diag_embed")
def diagonal_matrices(node: FxNode) -> Expr:
    """Builds diag_embed: the last axis becomes the diagonal of the last two axes."""
    sizes, rank = node.out_dims(), len(node.meta().sizes)
    node.require_default("offset", 0)
    if node.normalize_axis(node.plain("dim1", -2), rank) != rank - 2 or sizes[-1] != sizes[-2]:
        axes = node.plain("dim1", -2), node.plain("dim2", -1)
        node.fail(
            f"dim1, dim2: expected the last two axes, found {axes}",
            "`torch.diag_embed(x).movedim((-2, -1), (dim1, dim2))`",
        )
    indices = index_range(sizes[-1])
    is_diagonal = R.equal(reshape_to(indices, (sizes[-1], 1)), indices)
    return R.where(is_diagonal, R.expand_dims(node["self"], [rank - 2]), number(0, node.dtype()))


@torch_op("tril_indices", "triu_indices")
def triangle_indices(node: FxNode) -> Expr:
    indices_of = np.tril_indices if ".tril" in node.spec.target else np.triu_indices
    indices = indices_of(node.plain("row"), node.plain("offset", 0), node.plain("col"))
    return constant(np.stack(indices), node.out_dtype())


@torch_op("diag")
def diagonal_matrix(node: FxNode) -> Expr:
    offset = node.plain("diagonal", 0)
    if node.rank() != 1:
        return diagonal_of(node, 0, 1, offset)
    (rows, columns), (size,) = node.out_dims(), node.dims()
    row = reshape_to(index_range(rows), (rows, 1))
    column = reshape_to(index_range(columns), (1, columns))
    is_diagonal = R.equal(R.add(row, number(offset, "int64")), column)
    padded = reshape_to(node["self"], (size, 1) if offset >= 0 else (1, size))
    if offset:
        zeros = R.full(
            ShapeExpr((abs(offset), 1)[:: 1 if offset > 0 else -1]), number(0, node.dtype())
        )
        padded = R.concat([padded, zeros], axis=int(offset < 0))
    return R.where(is_diagonal, padded, number(0, node.dtype()))


@torch_op("one_hot")
def one_hot(node: FxNode) -> Expr:
    sizes = node.out_dims()
    classes = index_range(sizes[-1])
    expanded = R.expand_dims(node["self"], [len(sizes) - 1])
    return cast(R.equal(expanded, classes), node.out_dtype())


# ---- copies and dtypes


@torch_op(
    "clone",
    "contiguous",
    "pin_memory",
    "_pin_memory",
    "alias",
    "lift",
    "lift_fresh",
    "positive",
    "resolve_conj",
    "resolve_neg",
    "requires_grad_",
    "_conj",
    "conj",
    "conj_physical",
    "real",
)
def identity(node: FxNode) -> Expr:
    return next(v for v in node.positional() if isinstance(v, Expr))


@torch_op("detach", "detach_")
def detach(node: FxNode) -> Expr:
    x = node["self"]
    if isinstance(x, Constant) or not is_float(node.dtype()):
        return x
    return R.grad.no_grad(x)


@torch_op(
    "_to_copy", "to", "type_as", "_cast_Float", "to_dtype", ":prims.convert_element_type.default"
)
@torch_op("float", "double", "half", "int", "long", "bool", "bfloat16")
def to_dtype(node: FxNode) -> Expr:
    return cast(identity(node), node.out_dtype())


@torch_op("copy")
def copy(node: FxNode) -> Expr:
    """Builds copy: the source broadcasts to the shape of the result."""
    x = cast(node["src"], node.out_dtype())
    sizes = node.out_dims()
    return x if are_equal(sizes, node.dims_of(x)) else R.broadcast_to(x, sizes)
