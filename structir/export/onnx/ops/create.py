"""Mappings of ops that create tensors, and of ops on shapes."""

from __future__ import annotations

from structir.export.onnx.call import OpCall, dims_of
from structir.export.onnx.registry import exports
from structir.frontend.onnx.tensors import element_type
from structir.ir.dtype import is_float


@exports("zeros", "ones", "zeros_like", "ones_like")
def constant_fill(call: OpCall) -> str:
    value = call.constant(int(call.op.startswith("ones")))
    return call.expand(value, dims_of(call.out))


@exports("full", "full_like")
def full(call: OpCall) -> str:
    value = call.cast(call["fill_value"], call.out.dtype)
    return call.expand(value, dims_of(call.out))


@exports("eye", "eye_like")
def eye(call: OpCall) -> str | None:
    diagonal = call.attr("k")
    if not isinstance(diagonal, int) or len(dims_of(call.out)) != 2:
        return None
    zeros = call.expand(call.constant(0), dims_of(call.out))
    return call.emit("EyeLike", zeros, k=diagonal, dtype=element_type(str(call.out.dtype)))


@exports("arange")
def arange(call: OpCall) -> str | None:
    start, end, step = (call.attr(name) for name in ("start", "end", "step"))
    start, end = (0, start) if end is None else (start, end)
    dtype = str(call.out.dtype)
    if any(isinstance(value, float) for value in (start, end, step)):
        return _float_steps(call, start, step, dtype if is_float(dtype) else "float64")
    bounds = [call.cast(call.scalar(value), dtype) for value in (start, end, step)]
    return call.emit("Range", *bounds)


def _float_steps(call: OpCall, start: float, step: float, dtype: str) -> str:
    """Returns start + i*step for each index; a Range of floats may have another length."""
    (count,) = dims_of(call.out)
    numbers = [call.scalar(value) for value in (0, count, 1)]
    index = call.cast(call.emit("Range", *numbers), dtype)
    scaled = call.emit("Mul", index, call.constant(step, dtype))
    return call.cast(call.emit("Add", call.constant(start, dtype), scaled), call.out.dtype)


@exports("hamming_window")
def hamming_window(call: OpCall) -> str | None:
    size = call.attr("window_size")
    if (call.attr("alpha"), call.attr("beta")) != (0.54, 0.46) or not isinstance(size, int):
        return None
    if size < 2:
        return None
    periodic = int(call.attr("periodic"))
    dtype = element_type(str(call.out.dtype))
    return _hamming(call, size if periodic else size - 1, size, dtype)


def _hamming(call: OpCall, period: int, size: int, dtype: int) -> str:
    """Returns 0.54 - 0.46*cos(2*pi*i/period); ONNX's own window has other coefficients."""
    steps = call.emit("Range", *[call.constant(v, "float32") for v in (0, size, 1)])
    angle = call.emit("Mul", steps, call.constant(6.283185307179586 / period, "float32"))
    wave = call.emit("Mul", call.emit("Cos", angle), call.constant(0.46, "float32"))
    window = call.emit("Sub", call.constant(0.54, "float32"), wave)
    return call.emit("Cast", window, to=dtype)


@exports("tril", "triu")
def triangle(call: OpCall) -> str:
    k = call.scalar(call.attr("k"))
    return call.emit("Trilu", call["x"], k, upper=int(call.op == "triu"))


@exports("one_hot")
def one_hot(call: OpCall) -> str:
    values = [call.attr("off_value"), call.attr("on_value")]
    dtype = "float32" if is_float(str(call.out.dtype)) else "int64"  # what runtimes support
    pair = call.constant([getattr(v, "value", v) for v in values], dtype)
    is_scalar = call.rank("indices") == 0
    indices = call.unsqueeze(call.cast(call["indices"], "int64"), [0] if is_scalar else [])
    operands = [indices, call.scalar(call.attr("depth")), pair]
    result = call.emit("OneHot", *operands, axis=-1 if is_scalar else call.attr("axis"))
    result = call.reshape(result, dims_of(call.out)) if is_scalar else result
    return call.cast(result, call.out.dtype)


@exports("size")
def size(call: OpCall) -> str:
    return call.cast(call.emit("Size", call["x"]), call.out.dtype)


exports("shape_of")(lambda call: call.emit("Shape", call["x"]))
exports("shape_to_tensor")(lambda call: call.emit("Identity", call.vector(call.attr("shape"))))
exports("tensor_to_shape")(lambda call: call.cast(call["x"], "int64"))
