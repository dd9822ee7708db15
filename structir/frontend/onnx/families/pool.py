"""Pools: over windows, and over all spatial axes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from structir.frontend.onnx.node import Node
from structir.frontend.onnx.padding import padded
from structir.frontend.onnx.registry import onnx_op
from structir.frontend.onnx.scalars import like
from structir.frontend.onnx.windows import Window, window_of
from structir.ir.dtype import is_float
from structir.ir.expr import Expr
from structir.script import R

Pool = Callable[..., Expr]
MAX: dict[int, Pool] = {1: R.nn.max_pool1d, 2: R.nn.max_pool2d, 3: R.nn.max_pool3d}
MEAN: dict[int, Pool] = {1: R.nn.avg_pool1d, 2: R.nn.avg_pool2d, 3: R.nn.avg_pool3d}


def _window(node: Node) -> Window:
    sizes = tuple(node.attr("kernel_shape"))
    if not 1 <= len(sizes) <= 3:
        node.fail(f"a pool over {len(sizes)} axes is not supported")
    return window_of(node, sizes)


def _pooled(pools: dict[int, Pool], x: Expr, window: Window, ceil: bool, **more: Any) -> Expr:
    return pools[len(window.sizes)](
        x,
        pool_size=list(window.sizes),
        strides=list(window.strides),
        padding=window.padding,
        dilation=list(window.dilations),
        ceil_mode=ceil,
        **more,
    )


def _lowest(dtype: str) -> float:
    return -math.inf if is_float(dtype) else float(np.iinfo(dtype).min)


@onnx_op("MaxPool")
def max_pool(node: Node) -> Any:
    window = _window(node)
    if node.wants(1):
        node.fail("MaxPool with its positions is not supported")
    x = node[0]
    if not window.is_static:
        lowest = _lowest(node.dtype())
        x = padded(node, x, [0, 0, *window.before], [0, 0, *window.after], "constant", lowest)
        none = (0,) * len(window.sizes)
        window = Window(window.sizes, window.strides, window.dilations, none, none)
    return _pooled(MAX, x, window, node.flag("ceil_mode"))


@onnx_op("AveragePool")
def average_pool(node: Node) -> Expr:
    window = _window(node)
    if not window.is_static:
        node.fail("automatic padding of an average over symbolic sizes is not supported")
    counted = node.flag("count_include_pad")
    return _pooled(MEAN, node[0], window, node.flag("ceil_mode"), count_include_pad=counted)


@onnx_op("LpPool")
def lp_pool(node: Node) -> Expr:
    window, p = _window(node), float(node.attr("p", 2))
    if not window.is_static:
        node.fail("automatic padding of a norm over symbolic sizes is not supported")
    raised = R.power(R.abs(node[0]), like(node, p))
    mean = _pooled(MEAN, raised, window, node.flag("ceil_mode"), count_include_pad=True)
    total = R.multiply(mean, like(node, math.prod(window.sizes)))
    return R.power(total, like(node, 1 / p))


def _over_all(op: Any) -> Callable[[Node], Expr]:
    return lambda node: op(node[0], axis=list(range(2, node.rank())), keepdims=True)


onnx_op("GlobalAveragePool")(_over_all(R.mean))
onnx_op("GlobalMaxPool")(_over_all(R.max))


@onnx_op("GlobalLpPool")
def global_lp_pool(node: Node) -> Expr:
    p = float(node.attr("p", 2))
    axes = list(range(2, node.rank()))
    total = R.sum(R.power(R.abs(node[0]), like(node, p)), axis=axes, keepdims=True)
    return R.power(total, like(node, 1 / p))
