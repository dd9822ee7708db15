"""Mappings of the fused layers that torch's transformer modules use for inference."""

from __future__ import annotations

import math
from typing import Any

from structir.frontend.scalars import number
from structir.frontend.torch.node import FxNode
from structir.frontend.torch.registry import torch_op
from structir.frontend.torch.scalars import cast
from structir.ir.expr import Expr, ShapeExpr
from structir.script import R

PADDING_MASK = 1  # torch's number of a mask over (batch, length)


@torch_op("_native_multi_head_attention")
def native_multi_head_attention(node: FxNode) -> list[Any]:
    """Builds self-attention of (batch, length, width); other forms are rejected."""
    if node.spec.args["query"] != node.spec.args["key"]:
        node.fail("key: expected the query: only self-attention is supported")
    if node.flag("need_weights", True) and node.is_result_used(1):
        node.fail("need_weights: expected False, found True", "pass `need_weights=False`")
    return [_self_attention(node, node["query"], node.plain("num_head")), None]


@torch_op("_transformer_encoder_layer_fwd")
def transformer_encoder_layer(node: FxNode) -> Expr:
    x, first = node["src"], node.flag("norm_first")
    activation = R.nn.gelu if node.flag("use_gelu") else R.nn.relu

    def norm(value: Expr, layer: int) -> Expr:
        weight, bias = node[f"norm_weight_{layer}"], node[f"norm_bias_{layer}"]
        epsilon = float(node.arg("eps"))
        return node.emit(R.nn.layer_norm(value, weight, bias, [2], epsilon=epsilon))

    attended = _self_attention(node, norm(x, 1) if first else x, node.plain("num_heads"))
    x = node.emit(R.add(x, attended))
    x = x if first else norm(x, 1)
    hidden = activation(_linear(node, norm(x, 2) if first else x, "ffn_weight_1", "ffn_bias_1"))
    x = node.emit(R.add(x, _linear(node, hidden, "ffn_weight_2", "ffn_bias_2")))
    return x if first else norm(x, 2)


def _linear(node: FxNode, x: Expr, weight: str, bias: str) -> Expr:
    return node.emit(R.add(R.matmul(x, R.permute_dims(node[weight], [1, 0])), node[bias]))


def _self_attention(node: FxNode, x: Expr, heads: int) -> Expr:
    """Returns the attention of the heads of a packed projection, projected."""
    dtype, (batch, length, width) = node.dtype_of(x), node.dims_of(x)
    packed = _linear(node, x, "qkv_weight", "qkv_bias")
    size = node.plain("embed_dim") // heads
    split = node.emit(R.reshape(packed, ShapeExpr((batch, length, 3, heads, size))))
    parts = R.split(R.permute_dims(split, [2, 0, 3, 1, 4]), 3, axis=0)
    query, key, value = (node.emit(R.squeeze(parts[k], [0])) for k in range(3))
    transposed = R.permute_dims(key, [0, 1, 3, 2])
    scores = R.multiply(R.matmul(query, transposed), number(1 / math.sqrt(size), dtype))
    mask = node.get("mask")
    if mask is not None:
        is_padding = node.plain("mask_type", 0) == PADDING_MASK
        masked = cast(R.expand_dims(mask, [1, 2]) if is_padding else mask, "bool")
        scores = R.where(masked, number(-math.inf, dtype), scores)
    result = R.matmul(R.nn.softmax(scores, axis=3), value)
    joined = R.reshape(R.permute_dims(result, [0, 2, 1, 3]), ShapeExpr((batch, length, width)))
    return _linear(node, node.emit(joined), "proj_weight", "proj_bias")
