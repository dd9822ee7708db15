"""Mappings of scaled dot-product attention."""

from __future__ import annotations

import math
from typing import Any

from structir.frontend.scalars import index_range, number, reshape_to, size_number
from structir.frontend.torch.node import FxNode, are_equal
from structir.frontend.torch.registry import torch_op
from structir.frontend.torch.scalars import as_tensor, cast, rounded_once
from structir.ir import dims
from structir.ir.dims import Dim
from structir.ir.expr import Expr
from structir.script import R


@torch_op("scaled_dot_product_attention", "_scaled_dot_product_flash_attention_for_cpu")
@rounded_once
def attention(node: FxNode) -> Any:
    result, scores = _attend(node, node.get("attn_mask"))
    if len(node.spec.outputs) == 1:
        return result
    axis = len(node.dims_of(scores)) - 1
    maximum = node.emit(R.max(scores, axis=[axis], keepdims=True))
    total = R.log(R.sum(R.exp(R.subtract(scores, maximum)), axis=[axis], keepdims=True))
    return [result, R.squeeze(R.add(total, maximum), [axis])]


@torch_op(
    "_scaled_dot_product_efficient_attention",
    "_scaled_dot_product_flash_attention",
    "_scaled_dot_product_cudnn_attention",
    "_scaled_dot_product_fused_attention_overrideable",
)
@rounded_once
def fused_attention_of_devices(node: FxNode) -> list[Expr | None]:
    """Builds the attention kernels of other devices, which torch decomposes attention into where a
    program was exported there. The other results serve its backward pass only."""
    result, _ = _attend(node, node.get("attn_bias"))
    return [result, *[None] * (len(node.spec.outputs) - 1)]


def _attend(node: FxNode, mask: Expr | None) -> tuple[Expr, Expr]:
    """Returns the attention, and the scores before the softmax."""
    query, key, value = node["query"], node["key"], node["value"]
    dtype = node.dtype("query")
    if float(node.arg("dropout_p", 0.0)) != 0.0:
        node.fail(
            f"dropout_p: expected 0.0, found {node.arg('dropout_p')}",
            "call `model.eval()` before torch.export.export, or pass `dropout_p=0.0`",
        )
    if node.flag("enable_gqa"):
        key, value = (_repeat_shared_heads(node, x) for x in (key, value))
    key_rank = len(node.dims_of(key))
    transposed = R.permute_dims(key, [*range(key_rank - 2), key_rank - 1, key_rank - 2])
    scores = R.multiply(R.matmul(query, transposed), _scale(node, dtype))
    if node.flag("is_causal"):
        allowed = _causal(node.dims("query")[-2], node.dims("key")[-2])
        scores = R.where(allowed, scores, number(-math.inf, dtype))
    sees_any = None
    if mask is not None:
        sees_any, bias = _sees_any_and_bias(node, mask)
        scores = R.add(scores, bias)
    scores = node.emit(scores)
    result = R.matmul(R.nn.softmax(scores, axis=-1), value)
    if sees_any is not None:
        result = R.where(sees_any, result, number(0.0, dtype))
    return result, scores


def _sees_any_and_bias(node: FxNode, mask: Expr) -> tuple[Expr, Expr]:
    """Returns whether each query sees any key, and the term that a mask adds to the scores.

    The attention of a query that sees no key is 0; its scores are not masked, to be finite.
    """
    axis, dtype = [len(node.dims_of(mask)) - 1], node.dtype("query")
    lowest, zero = number(-math.inf, dtype), number(0.0, dtype)
    if node.dtype_of(mask) == "bool":
        sees_any = cast(R.max(cast(mask, "uint8"), axis=axis, keepdims=True), "bool")
        sees_any = node.fold(sees_any)
        is_seen = R.logical_or(mask, R.logical_not(sees_any))
        return sees_any, node.fold(R.where(is_seen, zero, lowest))
    mask = node.fold(cast(mask, dtype))
    sees_any = node.fold(R.not_equal(R.max(mask, axis=axis, keepdims=True), lowest))
    return sees_any, node.fold(R.where(sees_any, mask, zero))


def _scale(node: FxNode, dtype: str) -> Expr:
    scale = node.arg("scale", None)
    if scale is not None:
        return as_tensor(scale, dtype)
    head_size: Dim = node.dims("query")[-1]
    if isinstance(head_size, int):
        return number(1 / math.sqrt(head_size), dtype)
    return R.rsqrt(size_number(head_size, dtype))


def _causal(length: Dim, total: Dim) -> Expr:
    """Returns the causal mask: True where a key is not after the query."""
    return R.less_equal(
        reshape_to(index_range(total), (1, total)), reshape_to(index_range(length), (length, 1))
    )


def _repeat_shared_heads(node: FxNode, x: Expr) -> Expr:
    """Returns keys or values repeated for each query head of a group (grouped-query attention)."""
    heads, dims_of_x = node.dims("query")[-3], node.dims_of(x)
    if are_equal((heads,), (dims_of_x[-3],)):
        return x
    group_size = dims.floordiv(heads, dims_of_x[-3])
    repeated = R.broadcast_to(
        R.expand_dims(x, [len(dims_of_x) - 2]), (*dims_of_x[:-2], group_size, *dims_of_x[-2:])
    )
    return node.emit(reshape_to(repeated, (*dims_of_x[:-3], heads, *dims_of_x[-2:])))
