"""Mappings of normalizations; those without a mapping are decomposed."""

from __future__ import annotations

from structir.export.onnx.call import OpCall
from structir.export.onnx.registry import exports


@exports("nn.softmax", "nn.log_softmax")
def softmax(call: OpCall) -> str:
    op_type = "Softmax" if call.op == "nn.softmax" else "LogSoftmax"
    return call.emit(op_type, call["x"], axis=call.attr("axis"))


@exports("nn.layer_norm")
def layer_norm(call: OpCall) -> str | None:
    axes, rank = sorted(call.axes("axes", "data")), call.rank("data")
    if axes != list(range(axes[0], rank)) or not (call.attr("center") and call.attr("scale")):
        return None
    operands = [call["data"], call["gamma"], call["beta"]]
    epsilon = float(call.attr("epsilon"))
    return call.emit("LayerNormalization", *operands, axis=axes[0], epsilon=epsilon)


@exports("nn.batch_norm")
def batch_norm(call: OpCall) -> list[str] | None:
    if call.attr("training") or not (call.attr("center") and call.attr("scale")):
        return None
    axis, rank = call.axis("axis", "data"), call.rank("data")
    order = [k for k in range(rank) if k != axis]
    order.insert(1, axis)
    if rank < 2:
        return None
    names = ("gamma", "beta", "moving_mean", "moving_var")
    x = call.transpose(call["data"], order)
    epsilon = float(call.attr("epsilon"))
    y = call.emit("BatchNormalization", x, *[call[n] for n in names], epsilon=epsilon)
    result = call.transpose(y, [order.index(k) for k in range(rank)])
    return [result, call["moving_mean"], call["moving_var"]]


@exports("quantize", "dequantize")
def quantize(call: OpCall) -> str | None:
    x, zero = call["x"], call["zero_point"]
    axis = call.axis("axis", "x")
    if call.op == "dequantize":
        if (
            call.dtype("x") not in ("int8", "uint8", "int16", "uint16")
            or call.out.dtype != "float32"
        ):
            return _dequantized(call, axis)
        zero = call.cast(zero, call.dtype("x"))
        return call.emit("DequantizeLinear", x, call["scale"], zero, axis=axis)
    if call.out.dtype not in ("int8", "uint8", "int16", "uint16"):
        return None
    zero = call.cast(zero, call.out.dtype)
    return call.emit("QuantizeLinear", x, call["scale"], zero, axis=axis)


def _dequantized(call: OpCall, axis: int) -> str:
    after = call.rank("x") - axis - 1
    names = [call.cast(call[name], "float32") for name in ("zero_point", "scale")]
    aligned = [
        call.unsqueeze(n, range(1, after + 1)) if call.rank(p) else n
        for n, p in zip(names, ("zero_point", "scale"), strict=True)
    ]
    shifted = call.emit("Sub", call.cast(call["x"], "float32"), aligned[0])
    return call.cast(call.emit("Mul", shifted, aligned[1]), call.out.dtype)
