"""Attention: weights from queries and keys, spent on values."""

from __future__ import annotations

import math
from typing import Any

from structir.frontend.torch.node import FxNode, are_equal
from structir.frontend.torch.registry import torch_op
from structir.frontend.torch.scalars import (
    as_tensor,
    cast,
    index_range,
    number,
    reshape_to,
    size_number,
)
from structir.ir import dims
from structir.ir.dims import Dim
from structir.ir.expr import Expr
from structir.script import R


@torch_op("scaled_dot_product_attention", "_scaled_dot_product_flash_attention_for_cpu")
def attention(node: FxNode) -> Any:
    query, key, value = node["query"], node["key"], node["value"]
    dtype = node.dtype("query")
    if float(node.arg("dropout_p", 0.0)) != 0.0:
        node.fail("attention with dropout is not supported")
    if node.flag("enable_gqa"):
        key, value = (_shared(node, x) for x in (key, value))
    rank = node.rank("query")
    turned = R.permute_dims(key, [*range(rank - 2), rank - 1, rank - 2])
    scores = R.multiply(R.matmul(query, turned), _scale(node, dtype))
    if node.flag("is_causal"):
        allowed = _causal(node.dims("query")[-2], node.dims("key")[-2])
        scores = R.where(allowed, scores, number(-math.inf, dtype))
    mask = node.get("attn_mask")
    if mask is not None:
        if node.dtype_of(mask) == "bool":
            scores = R.where(mask, scores, number(-math.inf, dtype))
        else:
            scores = R.add(scores, cast(mask, dtype))
    scores = node.emit(scores)
    weights = R.nn.softmax(scores, axis=rank - 1)
    if mask is not None and node.dtype_of(mask) == "bool":  # a row that sees nothing gives 0
        seen = R.max(cast(mask, "int8"), axis=[node.rank("attn_mask") - 1], keepdims=True)
        weights = R.where(cast(seen, "bool"), weights, number(0.0, dtype))
    result = R.matmul(weights, value)
    if len(node.spec.outputs) == 1:
        return result
    most = node.emit(R.max(scores, axis=[rank - 1], keepdims=True))
    total = R.log(R.sum(R.exp(R.subtract(scores, most)), axis=[rank - 1], keepdims=True))
    return [result, R.squeeze(R.add(total, most), [rank - 1])]


def _scale(node: FxNode, dtype: str) -> Expr:
    stated = node.arg("scale", None)
    if stated is not None:
        return as_tensor(stated, dtype)
    width: Dim = node.dims("query")[-1]
    if isinstance(width, int):
        return number(1 / math.sqrt(width), dtype)
    return R.rsqrt(size_number(width, dtype))


def _causal(length: Dim, total: Dim) -> Expr:
    """Returns the causal mask: True where a key is not after the query."""
    return R.less_equal(
        reshape_to(index_range(total), (1, total)), reshape_to(index_range(length), (length, 1))
    )


def _shared(node: FxNode, x: Expr) -> Expr:
    """Returns keys or values for every head of the queries, where several share them."""
    heads, own = node.dims("query")[-3], node.dims_of(x)
    if are_equal((heads,), (own[-3],)):
        return x
    each = dims.floordiv(heads, own[-3])
    spread = R.broadcast_to(R.expand_dims(x, [len(own) - 2]), (*own[:-2], each, *own[-2:]))
    return node.emit(reshape_to(spread, (*own[:-3], heads, *own[-2:])))
