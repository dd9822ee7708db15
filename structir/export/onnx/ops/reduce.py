"""Mappings of reductions, cumulative ops and sorts."""

from __future__ import annotations

from onnx import helper

from structir.export.onnx.call import OpCall, dims_of
from structir.export.onnx.graph import OnnxGraph
from structir.export.onnx.registry import exports
from structir.frontend.onnx.tensors import element_type

REDUCTIONS = {
    "max": "ReduceMax",
    "mean": "ReduceMean",
    "min": "ReduceMin",
    "prod": "ReduceProd",
    "sum": "ReduceSum",
}


@exports(*REDUCTIONS)
def reduction(call: OpCall) -> str:
    axes = call.attr("axis")
    listed = "" if axes is None else call.ints(call.axes("axis", "x"))
    if axes is not None and not call.axes("axis", "x"):
        return call.emit("Identity", call["x"])
    keep = int(call.attr("keepdims"))
    is_any = (call.op, call.dtype("x")) == ("mean", "bool")  # a mean other than 0 is true
    op_type = "ReduceMax" if is_any else REDUCTIONS[call.op]
    return call.emit(op_type, call["x"], listed, keepdims=keep)


@exports("argmax", "argmin")
def arg_reduction(call: OpCall) -> str:
    op_type = "ArgMax" if call.op == "argmax" else "ArgMin"
    axis, keep = call.attr("axis"), int(call.attr("keepdims"))
    if axis is not None:
        return call.emit(op_type, call["x"], axis=axis, keepdims=keep)
    return call.reshape(call.emit(op_type, call.flat(call["x"]), axis=0), dims_of(call.out))


@exports("cumsum")
def cumsum(call: OpCall) -> str:
    x, axis = call.cast(call["x"], call.out.dtype), call.attr("axis")
    x = call.flat(x) if axis is None else x
    place = call.constant(axis or 0, "int64")
    return call.emit("CumSum", x, place, exclusive=int(call.attr("exclusive")))


@exports("sort", "argsort")
def sort(call: OpCall) -> str:
    values, positions = _ordered(call, call.attr("descending"))
    return values if call.op == "sort" else call.cast(positions, call.out.dtype)


def _ordered(call: OpCall, largest: bool) -> list[str]:
    """Returns the first sorted elements along an axis, as many as the result has, and their
    positions; equal ones keep their order."""
    axis = call.axis("axis", "x")
    count = call.vector((dims_of(call.out)[axis],))
    return call.emit_many("TopK", 2, call["x"], count, axis=axis, largest=int(largest))


@exports("topk")
def topk(call: OpCall) -> str | list[str]:
    values, positions = _ordered(call, call.attr("largest"))
    positions = call.cast(positions, call.attr("dtype"))
    return {"values": values, "indices": positions}.get(call.attr("ret_type"), [values, positions])


@exports("cumprod")
def cumprod(call: OpCall) -> str | None:
    """Writes a Scan: ONNX has a cumulative sum only."""
    x, axis, sizes = call.cast(call["x"], call.out.dtype), call.attr("axis"), call.dims("x")
    if axis is None:
        x, axis, sizes = call.flat(x), 0, dims_of(call.out)
    if not sizes:
        return None
    axis %= len(sizes)
    others = [size for k, size in enumerate(sizes) if k != axis]
    names, dtype = call.context.graph.names, str(call.out.dtype)
    body = OnnxGraph(names)
    state, element = (names.fresh(f"{call.stem}_step") for _ in range(2))
    for name in (state, element):
        body.record(name, dtype)
    (after,) = body.emit("Mul", [state, element], 1, call.stem)
    copied = state if call.attr("exclusive") else after
    (output,) = body.emit("Identity", [copied], 1, call.stem)
    inputs, outputs = (
        [
            helper.make_tensor_value_info(n, element_type(dtype), [None] * (len(sizes) - 1))
            for n in ns
        ]
        for ns in ((state, element), (after, output))
    )
    ones = call.expand(call.constant(1), others)
    return call.emit_many(
        "Scan",
        2,
        *(ones, x),
        body=body.proto(names.fresh("body"), inputs, outputs),
        num_scan_inputs=1,
        scan_input_axes=[axis],
        scan_output_axes=[axis],
    )[1]
