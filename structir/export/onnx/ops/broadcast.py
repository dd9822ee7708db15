"""Mappings of elementwise ops of two and three operands."""

from __future__ import annotations

import math

import numpy as np

from structir.export.onnx.call import OpCall
from structir.export.onnx.registry import direct, exports
from structir.ir.dtype import is_float, numpy_dtype

direct(
    {
        "add": "Add",
        "bitwise_and": "BitwiseAnd",
        "bitwise_or": "BitwiseOr",
        "bitwise_xor": "BitwiseXor",
        "divide": "Div",
        "maximum": "Max",
        "minimum": "Min",
        "multiply": "Mul",
        "power": "Pow",
        "subtract": "Sub",
    }
)
LOGICAL = {"logical_and": "And", "logical_or": "Or", "logical_xor": "Xor"}


COMPARISONS = {
    "equal": "Equal",
    "greater": "Greater",
    "greater_equal": "GreaterOrEqual",
    "less": "Less",
    "less_equal": "LessOrEqual",
}


exports(*COMPARISONS)(lambda call: call.emit(COMPARISONS[call.op], *in_common_dtype(call)))
exports("not_equal")(lambda call: call.emit("Not", call.emit("Equal", *in_common_dtype(call))))


def in_common_dtype(call: OpCall) -> list[str]:
    """Returns both operands in the dtype that represents either; ONNX requires equal ones."""
    dtypes = [call.dtype(name) for name in ("x", "y")]
    if dtypes[0] == dtypes[1]:
        return [call["x"], call["y"]]
    common = str(np.promote_types(*map(numpy_dtype, dtypes)))
    return [call.cast(call[name], common) for name in ("x", "y")]


@exports(*LOGICAL)
def logical(call: OpCall) -> str:
    names = [as_bool(call, name) for name in ("x", "y")]
    return call.emit(LOGICAL[call.op], *names)


def as_bool(call: OpCall, name: str) -> str:
    """Returns an operand as bools."""
    value: str = call[name]
    return value if call.dtype(name) == "bool" else call.cast(value, "bool")


exports("where")(lambda call: call.emit("Where", as_bool(call, "cond"), call["x"], call["y"]))


@exports("ewise_fma")
def fused_multiply_add(call: OpCall) -> str:
    return call.emit("Add", call.emit("Mul", call["x"], call["y"]), call["z"])


exports("mod")(lambda call: call.emit("Mod", call["x"], call["y"], fmod=1))


@exports("floor_divide")
def floor_divide(call: OpCall) -> str:
    x, y = call["x"], call["y"]
    if is_float(call.dtype("x")):
        return call.emit("Floor", call.emit("Div", x, y))
    exact = call.emit("Sub", x, call.emit("Mod", x, y))  # Div of integers truncates
    return call.emit("Div", exact, y)


@exports("floor_mod")
def floor_mod(call: OpCall) -> str:
    x, y = call["x"], call["y"]
    if not is_float(call.dtype("x")):
        return call.emit("Mod", x, y)
    remainder = call.emit("Mod", x, y, fmod=1)  # has the sign of x
    zero = call.constant(0)
    signs = [call.emit("Less", value, zero) for value in (remainder, y)]
    differs = call.emit("And", call.emit("Xor", *signs), not_zero(call, remainder, zero))
    return call.emit("Where", differs, call.emit("Add", remainder, y), remainder)


def not_zero(call: OpCall, value: str, zero: str) -> str:
    """Returns where a value is not zero."""
    return call.emit("Not", call.emit("Equal", value, zero))


@exports("left_shift", "right_shift")
def shift(call: OpCall) -> str:
    left, x, y = call.op == "left_shift", call["x"], call["y"]
    dtype = call.dtype("x")
    if dtype.startswith("uint"):
        return call.emit("BitShift", x, y, direction="LEFT" if left else "RIGHT")
    x, y = call.cast(x, "int64"), call.cast(y, "int64")  # Pow has no small integers
    factor = call.emit("Pow", call.constant(2, "int64"), y)
    if left:
        return call.cast(call.emit("Mul", x, factor), dtype)
    exact = call.emit("Sub", x, call.emit("Mod", x, factor))  # Div truncates
    return call.cast(call.emit("Div", exact, factor), dtype)


@exports("log_add_exp")
def log_add_exp(call: OpCall) -> str | None:
    if not is_float(str(call.out.dtype)):
        return None
    x, y = call["x"], call["y"]
    distance = call.emit("Neg", call.emit("Abs", call.emit("Sub", x, y)))
    rest = call.emit("Log", call.emit("Add", call.emit("Exp", distance), call.constant(1)))
    return call.emit("Add", call.emit("Max", x, y), rest)


@exports("atan2")
def atan2(call: OpCall) -> str | None:
    """ONNX has no atan2: the angle of x > 0, turned by pi where x is negative."""
    if not is_float(str(call.out.dtype)):
        return None
    x, y = call["x"], call["y"]  # atan2(x, y) is the angle of the point (y, x)
    zero, half = call.constant(0), call.constant(math.pi / 2)
    angle = call.emit("Atan", call.emit("Div", x, y))
    is_below = call.emit("Less", x, zero)
    turn = call.emit("Where", is_below, call.constant(-math.pi), call.constant(math.pi))
    is_left = call.emit("Less", y, zero)
    turned = call.emit("Where", is_left, call.emit("Add", angle, turn), angle)
    upright = call.emit("Mul", call.emit("Sign", x), half)
    return call.emit("Where", call.emit("Equal", y, zero), upright, turned)
