"""Mappings of ops that read and write elements at indices."""

from __future__ import annotations

from structir.export.onnx.call import OpCall
from structir.export.onnx.registry import exports

REDUCTIONS = {"update": "none", "add": "add", "mul": "mul", "min": "min", "max": "max"}


@exports("take")
def take(call: OpCall) -> str | None:
    axis, indices = call.attr("axis") or 0, call["indices"]
    axis %= call.rank("x")
    if call.attr("mode") == "nan":
        return None
    if call.attr("mode") in ("clip", "wrap"):
        dtype = call.dtype("indices")
        length = call.cast(call.scalar(call.dims("x")[axis]), dtype)
        indices = _inside(call, indices, length, dtype)
    return call.emit("Gather", call["x"], call.cast(indices, "int64"), axis=axis)


def _inside(call: OpCall, indices: str, length: str, dtype: str) -> str:
    """Returns indices that are clipped to an axis, or taken modulo its size."""
    if call.attr("mode") == "wrap":
        return call.emit("Mod", indices, length)
    last = call.emit("Sub", length, call.constant(1, dtype))
    return call.emit("Min", call.emit("Max", indices, call.constant(0, dtype)), last)


@exports("gather_elements")
def gather_elements(call: OpCall) -> str:
    indices = call.cast(call["indices"], "int64")
    return call.emit("GatherElements", call["data"], indices, axis=call.attr("axis"))


@exports("gather_nd")
def gather_nd(call: OpCall) -> str:
    indices = call.cast(call["indices"], "int64")
    return call.emit("GatherND", call["data"], indices, batch_dims=call.attr("batch_dims"))


@exports("index_tensor")
def index_tensor(call: OpCall) -> str | None:
    indices = _coordinates(call)
    return None if indices is None else call.emit("GatherND", call["data"], indices)


def _coordinates(call: OpCall) -> str | None:
    """Returns broadcast index tensors as coordinates along a new last axis."""
    infos = call.info("indices")
    if any(info.dtype == "bool" or info.ndim is None for info in infos):
        return None
    names = [call.cast(name, "int64") for name in call["indices"]]
    total = names[0]
    for name in names[1:]:  # the sum has the broadcast shape
        total = call.emit("Add", total, name)
    shape = call.emit("Shape", total)
    rank = max(info.ndim for info in infos)
    parts = [call.unsqueeze(call.emit("Expand", name, shape), [rank]) for name in names]
    return call.emit("Concat", *parts, axis=rank)


@exports("index_put")
def index_put(call: OpCall) -> str | None:
    indices = _coordinates(call)
    if indices is None:
        return None
    updates = call.emit("Expand", call["values"], call.emit("Shape", _selected(call, indices)))
    reduction = "add" if call.attr("accumulate") else "none"
    return call.emit("ScatterND", call["data"], indices, updates, reduction=reduction)


def _selected(call: OpCall, indices: str) -> str:
    return call.emit("GatherND", call["data"], indices)


@exports("reverse_sequence")
def reverse_sequence(call: OpCall) -> str | None:
    axes = call.attr("seq_axis"), call.attr("batch_axis")
    if sorted(axes) != [0, 1]:
        return None
    lengths = call.cast(call["seq_lengths"], "int64")
    return call.emit("ReverseSequence", call["x"], lengths, time_axis=axes[0], batch_axis=axes[1])


@exports("scatter_elements", "scatter_nd")
def scatter(call: OpCall) -> str | None:
    reduction = REDUCTIONS.get(call.attr("reduction"))
    if reduction is None:
        return None
    operands = [call["data"], call.cast(call["indices"], "int64"), call["updates"]]
    if call.op == "scatter_nd":
        return call.emit("ScatterND", *operands, reduction=reduction)
    axis = call.attr("axis")
    return call.emit("ScatterElements", *operands, axis=axis, reduction=reduction)


exports("nonzero")(lambda call: call.emit("NonZero", call["x"]))


@exports("unique")
def unique(call: OpCall) -> str | list[str]:
    axis = call.attr("axis")
    results = call.emit_many("Unique", 4, call["x"], axis=axis, sorted=int(call.attr("sorted")))
    flags = [call.attr(f"return_{name}") for name in ("index", "inverse", "counts")]
    selected = [results[0], *[name for name, flag in zip(results[1:], flags, strict=True) if flag]]
    return selected if any(flags) else selected[0]
