"""Mappings of convolutions, plain and transposed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from structir.frontend.scalars import reshape_to
from structir.frontend.torch.node import FxNode
from structir.frontend.torch.ops.padding import emit_pad
from structir.frontend.torch.registry import torch_op
from structir.ir import dims
from structir.ir.dims import Dim, Poly
from structir.ir.expr import Expr
from structir.script import R

CONVOLUTIONS: dict[int, Callable[..., Expr]] = {1: R.nn.conv1d, 2: R.nn.conv2d, 3: R.nn.conv3d}
TRANSPOSED: dict[int, Callable[..., Expr]] = {
    1: R.nn.conv1d_transpose,
    2: R.nn.conv2d_transpose,
    3: R.nn.conv3d_transpose,
}


def per_axis(node: FxNode, name: str, count: int, default: int) -> list[int]:
    """Returns an argument with one number per spatial axis; a single number is repeated."""
    value = list(node.ints(name, (default,))) or [default]
    return value * count if len(value) == 1 else value


@torch_op("conv1d", "conv2d", "conv3d", "convolution", "_convolution")
def convolution(node: FxNode) -> Expr:
    count = node.rank("weight") - 2
    if count not in CONVOLUTIONS:
        node.fail(f"weight: expected 1 to 3 spatial axes, found {count}")
    if node.flag("transposed"):
        return conv_transpose(node)
    x, is_unbatched = _with_batch_axis(node, count)
    before, after = _padding(node, count)
    if any(isinstance(p, Poly) for p in (*before, *after)):
        x = emit_pad(node, x, [0, 0, *before], [0, 0, *after])
        before, after = [0] * count, [0] * count
    result = CONVOLUTIONS[count](
        x,
        node["weight"],
        strides=per_axis(node, "stride", count, 1),
        padding=[*before, *after],
        dilation=per_axis(node, "dilation", count, 1),
        groups=node.plain("groups", 1),
    )
    return _add_bias(node, result, count, is_unbatched)


@torch_op("conv_tbc")
def convolution_of_time_first(node: FxNode) -> Expr:
    """Builds a convolution of operands with the axes time, batch and channels."""
    padding = [node.plain("pad", 0)] * 2
    x, weight = R.permute_dims(node["self"], [1, 2, 0]), R.permute_dims(node["weight"], [2, 1, 0])
    result = R.nn.conv1d(x, weight, padding=padding)
    return R.add(R.permute_dims(result, [2, 0, 1]), node["bias"])


def _with_batch_axis(node: FxNode, count: int) -> tuple[Expr, bool]:
    """Returns the operand with a batch axis, and whether the axis was added."""
    if node.rank("input") == count + 2:
        return node["input"], False
    return R.expand_dims(node["input"], [0]), True


def _padding(node: FxNode, count: int) -> tuple[list[Dim], list[Dim]]:
    padding = node.arg("padding", 0)
    if padding == "valid":
        return [0] * count, [0] * count
    if padding == "same":
        dilation = per_axis(node, "dilation", count, 1)
        kernel = node.dims("weight")[2:]
        totals = [(k - 1) * d for d, k in zip(dilation, kernel, strict=True)]
        halves = [dims.floordiv(t, 2) for t in totals]
        return halves, [t - h for t, h in zip(totals, halves, strict=True)]
    same: list[Dim] = [*per_axis(node, "padding", count, 0)]
    return same, same


def _add_bias(node: FxNode, result: Expr, count: int, is_unbatched: bool) -> Expr:
    bias = node.get("bias")
    if bias is not None:
        result = R.add(result, reshape_to(bias, (1, *node.dims("bias"), *[1] * count)))
    return R.squeeze(result, [0]) if is_unbatched else result


@torch_op("conv_transpose1d", "conv_transpose2d", "conv_transpose3d")
def conv_transpose(node: FxNode) -> Any:
    count = node.rank("weight") - 2
    x, is_unbatched = _with_batch_axis(node, count)
    result = TRANSPOSED[count](
        x,
        node["weight"],
        strides=per_axis(node, "stride", count, 1),
        padding=per_axis(node, "padding", count, 0) * 2,
        output_padding=per_axis(node, "output_padding", count, 0),
        dilation=per_axis(node, "dilation", count, 1),
        groups=node.plain("groups", 1),
    )
    return _add_bias(node, result, count, is_unbatched)
