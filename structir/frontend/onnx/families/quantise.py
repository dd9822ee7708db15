"""Between floating-point numbers and small integers, and products of quantised operands."""

from __future__ import annotations

from structir.frontend.onnx.families.cast import converted
from structir.frontend.onnx.families.conv import convolved, with_bias
from structir.frontend.onnx.families.shapes import shaped
from structir.frontend.onnx.node import Node
from structir.frontend.onnx.registry import MICROSOFT, onnx_op
from structir.frontend.onnx.scalars import number
from structir.ir.dtype import SIGNED, is_float
from structir.ir.expr import Expr
from structir.script import R


def limits(dtype: str) -> tuple[int, int]:
    """The least and the greatest number of an integer dtype."""
    bits = int(dtype.lstrip("uint"))
    return (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if dtype in SIGNED else (0, 2**bits - 1)


def spread(node: Node, place: int, axis: int | None, like: int = 0) -> Expr:
    """A scale or a zero point, to be met with the operand: one number, one for each element of an
    axis, or one for each block along it."""
    x, rank, own = node[place], node.rank(like), node.rank(place)
    block = node.attr("block_size", 0)
    if own == rank and rank > 1 and block:
        axis = node.counted(axis or 0, rank)
        repeated = R.repeat(x, int(block), axis=axis)
        size = node.dims(like)[axis]
        return R.strided_slice(repeated, [axis], (0,), (size,)) if rank else repeated
    if own == 0:
        return x
    sizes = node.dims(place)
    if own == 1 and sizes[0] == 1:
        return shaped(x, ())
    if own != 1 or axis is None:
        return x
    axis = node.counted(axis, rank)
    return shaped(x, (sizes[0], *[1] * (rank - 1 - axis)))


@onnx_op("QuantizeLinear")
@onnx_op("QuantizeLinear", domain=MICROSOFT)
def quantize_linear(node: Node) -> Expr:
    axis = node.attr("axis", 1) if node.rank() else None
    dtype = node.dtype(2) if node.has(2) else node.dtype_attr("output_dtype", "uint8") or "uint8"
    precision = node.dtype_attr("precision", None)
    x, scale = node[0], spread(node, 1, axis)
    wide = precision or node.dtype(1)
    if not is_float(node.dtype()) or node.dtype() != wide:
        x = R.astype(x, wide)
    scale = scale if node.dtype(1) == wide else R.astype(scale, wide)
    zero = spread(node, 2, axis) if node.has(2) else None
    return quantised(node, R.divide(x, scale), zero, dtype)


def quantised(node: Node, x: Expr, zero: Expr | None, dtype: str) -> Expr:
    """Scaled numbers, shifted and rounded to a dtype, no further than it reaches."""
    if is_float(dtype):
        return converted(node, x, dtype, node.flag("saturate", 1))
    wide = R.round(R.astype(x, "float32"))
    if zero is not None:
        wide = R.add(wide, R.astype(zero, "float32"))
    low, high = limits(dtype)
    made: Expr = R.astype(R.clip(wide, float(low), float(high)), "int32")
    return R.astype(made, dtype) if dtype != "int32" else made


@onnx_op("DequantizeLinear")
@onnx_op("DequantizeLinear", domain=MICROSOFT)
def dequantize_linear(node: Node) -> Expr:
    axis = node.attr("axis", 1) if node.rank() else None
    dtype = node.dtype_attr("output_dtype", None) or node.dtype(1)
    scale = spread(node, 1, axis)
    x = node[0]
    if node.has(2) and not is_float(node.dtype()):
        x = R.subtract(R.astype(x, "int32"), R.astype(spread(node, 2, axis), "int32"))
    x = R.multiply(R.astype(x, node.dtype(1)), scale)
    return x if dtype == node.dtype(1) else R.astype(x, dtype)


def less_zero(node: Node, place: int, zero: int, axis: int | None) -> Expr:
    """An integer operand as int32, its zero point taken off."""
    x = R.astype(node[place], "int32")
    if not node.has(zero):
        return x
    return R.subtract(x, R.astype(spread(node, zero, axis, place), "int32"))


@onnx_op("MatMulInteger")
def mat_mul_integer(node: Node) -> Expr:
    left_axis = -2 if node.rank(0) > 1 else None
    right_axis = -1 if node.rank(1) > 1 else None
    left = less_zero(node, 0, 2, left_axis)
    return R.matmul(left, less_zero(node, 1, 3, right_axis))


@onnx_op("ConvInteger")
def conv_integer(node: Node) -> Expr:
    return convolved(node, less_zero(node, 0, 2, None), less_zero(node, 1, 3, 0))


@onnx_op("QLinearMatMul")
def q_linear_mat_mul(node: Node) -> Expr:
    left_axis = -2 if node.rank(0) > 1 else None
    right_axis = -1 if node.rank(3) > 1 else None
    left = less_zero(node, 0, 2, left_axis)
    product = R.matmul(left, less_zero(node, 3, 5, right_axis))
    scale = R.divide(
        R.multiply(spread(node, 1, left_axis), spread(node, 4, right_axis, 3)), node[6]
    )
    scaled = R.multiply(R.astype(product, "float32"), R.astype(scale, "float32"))
    return quantised(node, scaled, spread(node, 7, None), node.dtype(7))


@onnx_op("QLinearConv")
def q_linear_conv(node: Node) -> Expr:
    product = _q_convolved(node)
    behind = [1] * (node.rank() - 2)
    weights = node[4] if node.rank(4) == 0 else shaped(node[4], (-1, *behind))
    scale = R.divide(R.multiply(spread(node, 1, None), weights), spread(node, 6, None))
    scaled = R.multiply(R.astype(product, "float32"), scale)
    return quantised(node, scaled, spread(node, 7, None), node.dtype(7))


def _q_convolved(node: Node) -> Expr:
    weights = R.astype(node[3], "int32")
    if node.has(5):
        weights = R.subtract(weights, R.astype(spread(node, 5, 0, 3), "int32"))
    x = less_zero(node, 0, 2, None)
    return with_bias(node, convolved(node, x, weights, 3), 8)


@onnx_op("DynamicQuantizeLinear")
def dynamic_quantize_linear(node: Node) -> list[Expr]:
    x = node[0]
    zero = number(0, "float32")
    low = node.emit(R.minimum(R.min(x), zero))
    high = R.maximum(R.max(x), zero)
    scale = node.emit(R.divide(R.subtract(high, low), number(255, "float32")))
    safe = node.emit(R.where(R.equal(scale, zero), number(1, "float32"), scale))
    shift = R.clip(R.round(R.divide(R.negative(low), safe)), 0.0, 255.0)
    point = node.emit(R.astype(R.astype(shift, "int32"), "uint8"))
    return [quantised(node, R.divide(x, safe), point, "uint8"), scale, point]
