"""Mappings of products, convolutions and pools."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from structir.export.onnx.call import OpCall, dims_of
from structir.export.onnx.ops.affine_einsum import from_index_spec
from structir.export.onnx.registry import exports
from structir.ir.dtype import is_float
from structir.opdef.layouts import SPATIAL, each, padding
from structir.opdef.subscript_results import parsed_subscripts
from structir.opdef.subscripts import NamedAxis, RowAxes, Subscripts, Term, names_axes

CONVOLUTIONS = [f"nn.conv{n}d" for n in (1, 2, 3)]
POOLS = [f"nn.{kind}_pool{n}d" for kind in ("max", "avg") for n in (1, 2, 3)]


def with_dtype(call: OpCall, name: str, operand: str) -> str:
    """Returns a value cast to the dtype of the result, if it has another one."""
    return name if call.out.dtype == call.dtype(operand) else call.cast(name, call.out.dtype)


@exports("matmul")
def matmul(call: OpCall) -> str:
    operands = [with_dtype(call, call[name], name) for name in ("lhs", "rhs")]
    return call.emit("MatMul", *operands)


@exports("outer")
def outer(call: OpCall) -> str:
    return call.emit("Mul", call.unsqueeze(call["x"], [1]), call.unsqueeze(call["y"], [0]))


@exports("einsum")
def einsum(call: OpCall) -> str | None:
    subscripts = call.attr("subscripts")
    equation: str | None = subscripts.replace(" ", "")
    if names_axes(subscripts):
        equation = _equation(parsed_subscripts(subscripts, len(call["operands"])))
    if equation is None:
        return from_index_spec(call)
    return call.emit("Einsum", *call["operands"], equation=equation)


def _equation(subscripts: Subscripts) -> str | None:
    """Returns subscripts with names as letters; None with other axes or several axis packs."""
    axes = [axis for term in subscripts.terms for axis in term]
    names = list(dict.fromkeys(axis.name for axis in axes if isinstance(axis, NamedAxis)))
    packs = {axis.name for axis in axes if isinstance(axis, RowAxes)}
    is_plain = all(isinstance(axis, NamedAxis | RowAxes) for axis in axes)
    if not is_plain or subscripts.where or "_" in names or len(packs) > 1 or len(names) > 26:
        return None
    letters = {name: chr(ord("a") + k) for k, name in enumerate(names)}

    def text(term: Term) -> str:
        return "".join([letters[a.name] if isinstance(a, NamedAxis) else "..." for a in term])

    operands = ",".join(map(text, subscripts.operands))
    return f"{operands}->{text(subscripts.result)}"


def to_order(call: OpCall, name: str, layout: str | None, target: str) -> str | None:
    """Returns a tensor transposed from a layout to another; None for a blocked layout."""
    if layout is None or layout == target:
        return name
    if sorted(layout) != sorted(target):
        return None
    return call.transpose(name, [layout.index(axis) for axis in target])


@exports(*CONVOLUTIONS, *[f"{name}_transpose" for name in CONVOLUTIONS])
def convolution(call: OpCall) -> str | None:
    is_transposed = call.op.endswith("_transpose")
    count = int(call.op.removesuffix("_transpose")[-2])
    data, kernel = f"NC{SPATIAL[count]}", f"{'IO' if is_transposed else 'OI'}{SPATIAL[count]}"
    x = to_order(call, call["x"], call.attr("data_layout"), data)
    weight = to_order(call, call["weight"], call.attr("kernel_layout"), kernel)
    out_layout = call.attr("out_layout") or call.attr("data_layout") or data
    if x is None or weight is None or sorted(out_layout) != sorted(data):
        return None
    low, high = padding(call.view, count)
    result = call.emit(
        "ConvTranspose" if is_transposed else "Conv",
        x,
        weight,
        strides=each(call.view, "strides", count),
        dilations=each(call.view, "dilation", count),
        pads=[*low, *high],
        group=call.attr("groups"),
        output_padding=each(call.view, "output_padding", count) if is_transposed else None,
    )
    result = with_dtype(call, result, "x")
    return call.transpose(result, [data.index(axis) for axis in out_layout])


@exports(*POOLS)
def pool(call: OpCall) -> str | None:
    count, is_max = int(call.op[-2]), "max" in call.op
    data = f"NC{SPATIAL[count]}"
    x = to_order(call, call["x"], call.attr("layout"), data)
    out_layout = call.attr("out_layout") or call.attr("layout") or data
    if x is None or sorted(out_layout) != sorted(data) or not is_float(call.dtype("x")):
        return None
    low, high = padding(call.view, count)
    if call.attr("ceil_mode") and _may_start_in_padding(call, count, high):
        return None  # versions of ONNX count such windows in two ways
    result = call.emit(
        "MaxPool" if is_max else "AveragePool",
        x,
        kernel_shape=each(call.view, "pool_size", count),
        strides=each(call.view, "strides", count),
        dilations=each(call.view, "dilation", count),
        pads=[*low, *high],
        ceil_mode=int(call.attr("ceil_mode")),
        count_include_pad=None if is_max else int(call.attr("count_include_pad")),
    )
    return call.transpose(result, [data.index(axis) for axis in out_layout])


def _may_start_in_padding(call: OpCall, count: int, high: Sequence[int]) -> bool:
    """Returns whether the last window of a rounded-up count may start in the end padding."""
    sizes, dilation = each(call.view, "pool_size", count), each(call.view, "dilation", count)
    extents = [d * (size - 1) + 1 for size, d in zip(sizes, dilation, strict=True)]
    strides = each(call.view, "strides", count)
    return any(e - after < step for e, after, step in zip(extents, high, strides, strict=True))


@exports("nn.adaptive_avg_pool1d", "nn.adaptive_avg_pool2d", "nn.adaptive_avg_pool3d")
def adaptive_pool(call: OpCall) -> str | None:
    """Returns the mean over equal windows; other windows have no ONNX form."""
    count = int(call.op[-2])
    layout = call.attr("layout") or f"NC{SPATIAL[count]}"
    axes = [layout.index(axis) for axis in SPATIAL[count]]
    sizes: list[Any] = [call.dims("x")[axis] for axis in axes]
    output: list[Any] = [dims_of(call.out)[axis] for axis in axes]
    if (call.attr("out_layout") or layout) != layout:
        return None
    if all(size == 1 for size in output):
        return call.emit("ReduceMean", call["x"], call.ints(axes), keepdims=1)
    if not all(isinstance(n, int) for n in (*sizes, *output)):
        return None
    result: str = call["x"]
    for axis, size, count in zip(axes, sizes, output, strict=True):
        result = _window_means(call, result, axis, int(size), int(count))
    return result


def _window_means(call: OpCall, x: str, axis: int, size: int, count: int) -> str:
    """Returns the means of adaptive windows along one axis: a product with constant weights."""
    weights = np.zeros((count, size))
    for k in range(count):
        begin, end = k * size // count, -(-(k + 1) * size // count)
        weights[k, begin:end] = 1 / (end - begin)
    letters = "abcdefgh"[: call.rank("x")]
    equation = f"{letters},z{letters[axis]}->{letters.replace(letters[axis], 'z')}"
    return call.emit("Einsum", x, call.constant(weights), equation=equation)
