"""Mappings of elementwise ops of one operand, and of activations."""

from __future__ import annotations

import numpy as np

from structir.export.onnx.call import OpCall
from structir.export.onnx.registry import direct, exports
from structir.ir.dtype import is_float, numpy_dtype

direct(
    {
        "abs": "Abs",
        "acos": "Acos",
        "acosh": "Acosh",
        "asin": "Asin",
        "asinh": "Asinh",
        "atan": "Atan",
        "atanh": "Atanh",
        "cos": "Cos",
        "cosh": "Cosh",
        "erf": "Erf",
        "exp": "Exp",
        "grad.end_checkpoint": "Identity",
        "grad.no_grad": "Identity",
        "grad.start_checkpoint": "Identity",
        "log": "Log",
        "sigmoid": "Sigmoid",
        "sign": "Sign",
        "sin": "Sin",
        "sinh": "Sinh",
        "sqrt": "Sqrt",
        "tan": "Tan",
        "tanh": "Tanh",
    }
)
ROUNDINGS = {"ceil": "Ceil", "floor": "Floor", "round": "Round"}


@exports(*ROUNDINGS)
def rounding(call: OpCall) -> str:
    x = call["x"]
    return call.emit(ROUNDINGS[call.op] if is_float(call.dtype("x")) else "Identity", x)


@exports("trunc")
def trunc(call: OpCall) -> str:
    x = call["x"]
    if not is_float(call.dtype("x")):
        return call.emit("Identity", x)
    return call.emit("Mul", call.emit("Sign", x), call.emit("Floor", call.emit("Abs", x)))


@exports("bitwise_not")
def bitwise_not(call: OpCall) -> str:
    return call.emit("Not" if call.dtype("x") == "bool" else "BitwiseNot", call["x"])


@exports("negative")
def negative(call: OpCall) -> str:
    if is_signed(call.dtype("x")):
        return call.emit("Neg", call["x"])
    return call.emit("Sub", call.constant(0), call["x"])  # Neg has no unsigned integers


@exports("nn.relu")
def relu(call: OpCall) -> str:
    return call.emit("Relu" if is_signed(call.dtype("x")) else "Identity", call["x"])


def is_signed(dtype: str) -> bool:
    """Returns whether a dtype has negative numbers."""
    return dtype != "bool" and not dtype.startswith("uint")


exports("square")(lambda call: call.emit("Mul", call["x"], call["x"]))
exports("rsqrt")(lambda call: call.emit("Reciprocal", call.emit("Sqrt", call["x"])))


@exports("isnan", "isinf")
def test_of_floats(call: OpCall) -> str:
    if not is_float(call.dtype("x")):
        return call.emit("Not", call.emit("Equal", call["x"], call["x"]))
    return call.emit({"isnan": "IsNaN", "isinf": "IsInf"}[call.op], call["x"])


@exports("isfinite")
def is_finite(call: OpCall) -> str:
    x = call["x"]
    if not is_float(call.dtype("x")):
        return call.emit("Equal", x, x)
    return call.emit("Not", call.emit("Or", call.emit("IsNaN", x), call.emit("IsInf", x)))


@exports("logical_not")
def logical_not(call: OpCall) -> str:
    x = call["x"]
    if call.dtype("x") == "bool":
        return call.emit("Not", x)
    return call.cast(call.emit("Not", call.cast(x, "bool")), call.out.dtype)


@exports("astype", "wrap_param")
def astype(call: OpCall) -> str:
    return call.cast(call["x"], call.out.dtype)


@exports("clip")
def clip(call: OpCall) -> str:
    dtype = str(call.out.dtype)
    low, high = [call.attr(name) for name in ("min", "max")]
    if not is_float(dtype):
        limits = np.iinfo(numpy_dtype(dtype))
        low, high = [min(max(bound, limits.min), limits.max) for bound in (low, high)]
    above = call.emit("Max", call["x"], call.constant(low))
    return call.emit("Min", above, call.constant(high))


exports("nn.relu6")(lambda call: call.emit("Clip", call["x"], call.constant(0), call.constant(6)))
exports("nn.silu")(lambda call: call.emit("Mul", call["x"], call.emit("Sigmoid", call["x"])))


@exports("nn.gelu", "nn.gelu_tanh")
def gelu(call: OpCall) -> str:
    approximate = "tanh" if call.op.endswith("tanh") else "none"
    return call.emit("Gelu", call["x"], approximate=approximate)


exports("nn.selu")(lambda call: call.emit("Selu", call["x"]))


@exports("nn.leakyrelu")
def leaky_relu(call: OpCall) -> str:
    return call.emit("LeakyRelu", call["x"], alpha=float(call.attr("alpha")))


@exports("nn.softplus")
def softplus(call: OpCall) -> str:
    beta, x = call.constant(call.attr("beta")), call["x"]
    scaled = call.emit("Mul", x, beta)
    smooth = call.emit("Div", call.emit("Softplus", scaled), beta)
    is_linear = call.emit("Greater", scaled, call.constant(call.attr("threshold")))
    return call.emit("Where", is_linear, x, smooth)


@exports("nn.prelu")
def prelu(call: OpCall) -> str:
    after = call.rank("x") - call.axis("axis", "x") - 1
    slope = call.unsqueeze(call["alpha"], range(1, after + 1))
    return call.emit("PRelu", call["x"], slope)
