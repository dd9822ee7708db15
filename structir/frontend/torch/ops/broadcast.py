"""Mappings of element-wise ops of several operands, which broadcast, in the promoted dtype."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import structir.frontend.special_functions as functions
from structir.frontend.scalars import number
from structir.frontend.torch.node import FxNode
from structir.frontend.torch.promotion import promote_dtypes
from structir.frontend.torch.registry import torch_op
from structir.frontend.torch.scalars import as_tensor, cast, is_number, rounded_once, tensor_info
from structir.ir.dtype import is_float
from structir.ir.expr import Expr, Tuple
from structir.script import R

Binary = Callable[[Expr, Expr], Expr]


def pair(node: FxNode, dtype: str | None = None) -> tuple[Expr, Expr]:
    """Returns both operands in one dtype: `dtype`, or else the promoted dtype."""
    values = node.arg("self"), node.arg("other")
    dtype = promote_dtypes(values) if dtype is None else dtype
    lhs, rhs = (as_tensor(v, dtype) for v in values)
    return lhs, rhs


def _in_result_dtype(op: Binary) -> Callable[[FxNode], Expr]:
    return lambda node: op(*pair(node, node.out_dtype()))


for _names, _op in {
    ("atan2", "arctan2"): R.atan2,
    ("maximum",): R.maximum,
    ("minimum",): R.minimum,
    ("bitwise_and", "__and__"): R.bitwise_and,
    ("bitwise_or", "__or__"): R.bitwise_or,
    ("bitwise_xor", "__xor__"): R.bitwise_xor,
    ("bitwise_left_shift", "__lshift__"): R.left_shift,
    ("bitwise_right_shift", "__rshift__"): R.right_shift,
    ("logaddexp",): R.log_add_exp,
}.items():
    torch_op(*_names)(_in_result_dtype(_op))


def _comparison(op: Binary) -> Callable[[FxNode], Expr]:
    return lambda node: op(*pair(node))


for _names, _op in {
    ("eq",): R.equal,
    ("ne", "not_equal"): R.not_equal,
    ("lt", "less"): R.less,
    ("le", "less_equal"): R.less_equal,
    ("gt", "greater"): R.greater,
    ("ge", "greater_equal"): R.greater_equal,
}.items():
    torch_op(*_names)(_comparison(_op))


def _logical(op: Binary) -> Callable[[FxNode], Expr]:
    return lambda node: op(*pair(node, "bool"))


torch_op("logical_and")(_logical(R.logical_and))
torch_op("logical_or")(_logical(R.logical_or))
torch_op("logical_xor")(_logical(R.logical_xor))


def _keeps_scalar(build: Callable[[FxNode], Expr]) -> Callable[[FxNode], Expr]:
    """Returns the mapping of an op that does not round a scalar `other` to 16 bits, as in torch."""
    wide = rounded_once(build)

    def build_any(node: FxNode) -> Expr:
        other = node.arg("other")
        is_tensor = isinstance(other, Expr) and tensor_info(other).ndim != 0
        return (build if is_tensor else wide)(node)

    return build_any


def _rounded_pair(node: FxNode) -> tuple[Expr, Expr]:
    """Returns both operands in the dtype of the result; torch rounds numbers to 16 bits here."""
    lhs, rhs = (node.rounded(name) for name in ("self", "other"))
    return lhs, rhs


def _scaled(node: FxNode, x: Expr) -> Expr:
    return x if is_number(node.arg("alpha", 1), 1) else R.multiply(x, node.rounded("alpha"))


def _scale_by_argument(node: FxNode, x: Expr, name: str) -> Expr:
    factor = node.arg(name, 1)
    return x if is_number(factor, 1) else R.multiply(x, as_tensor(factor, node.out_dtype()))


@torch_op("add")
@rounded_once
def add(node: FxNode) -> Expr:
    lhs, rhs = _rounded_pair(node)
    return (R.logical_or if _of_bools(node) else R.add)(lhs, _scaled(node, rhs))


@torch_op("sub", "subtract")
@rounded_once
def subtract(node: FxNode) -> Expr:
    lhs, rhs = _rounded_pair(node)
    return R.subtract(lhs, _scaled(node, rhs))


@torch_op("rsub")
@rounded_once
def subtract_from(node: FxNode) -> Expr:
    lhs, rhs = _rounded_pair(node)
    return R.subtract(rhs, _scaled(node, lhs))


@torch_op("mul", "multiply")
@_keeps_scalar
def multiply(node: FxNode) -> Expr:
    return (R.logical_and if _of_bools(node) else R.multiply)(*pair(node, node.out_dtype()))


def _of_bools(node: FxNode) -> bool:
    return node.out_dtype() == "bool"


@torch_op("div", "divide", "true_divide")
@_keeps_scalar
def divide(node: FxNode) -> Expr:
    mode = node.arg("rounding_mode", None)
    lhs, rhs = pair(node, node.out_dtype())
    if mode is None:
        return R.divide(lhs, rhs)
    if mode == "floor":
        return R.floor_divide(lhs, rhs)
    result = R.divide(lhs, rhs)  # integers are rounded toward zero
    return R.trunc(result) if is_float(node.out_dtype()) else result


torch_op("floor_divide")(_keeps_scalar(_in_result_dtype(R.floor_divide)))
torch_op("remainder")(lambda node: R.floor_mod(*pair(node, node.out_dtype())))
torch_op("fmod")(lambda node: R.mod(*pair(node, node.out_dtype())))


@torch_op("fmin", "fmax")
def without_nan(node: FxNode) -> Expr:
    lhs, rhs = (node.emit(v) for v in pair(node, node.out_dtype()))
    extreme = (R.minimum if ".fmin" in node.spec.target else R.maximum)(lhs, rhs)
    if not is_float(node.out_dtype()):
        return extreme
    return R.where(R.isnan(lhs), rhs, R.where(R.isnan(rhs), lhs, extreme))


@torch_op("copysign")
def copy_sign(node: FxNode) -> Expr:
    dtype = node.out_dtype()
    lhs, rhs = pair(node, dtype)
    magnitude = R.abs(lhs)
    condition = functions.is_negative(rhs, dtype, node.emit)
    return R.where(condition, R.negative(magnitude), magnitude)


@torch_op("xlogy", "special_xlogy")
def x_log_y(node: FxNode) -> Expr:
    lhs, rhs = pair(node, node.out_dtype())
    zero = number(0.0, node.out_dtype())
    result = R.where(R.equal(lhs, zero), zero, R.multiply(lhs, R.log(rhs)))
    return R.where(R.isnan(rhs), rhs, result)


@torch_op("hypot")
@rounded_once
def hypotenuse(node: FxNode) -> Expr:
    return functions.hypotenuse(*pair(node, node.out_dtype()), node.out_dtype(), node.emit)


@torch_op("pow", "float_power")
@rounded_once
def power(node: FxNode) -> Expr:
    dtype = node.out_dtype()
    base, exponent = node.arg("self"), node.arg("exponent")
    if isinstance(exponent, int | float) and not isinstance(exponent, bool):
        simple = _known_power(as_tensor(base, dtype), exponent, node)
        if simple is not None:
            return simple
    return R.power(node.rounded("self"), node.rounded("exponent"))


def _known_power(x: Expr, exponent: float, node: FxNode) -> Expr | None:
    """Returns a power as products or a root for common exponents, else None."""
    if exponent in (1, 2, 3, 4) or (exponent == -2 and is_float(node.out_dtype())):
        x = node.emit(x)
        square: Expr = x if exponent == 1 else node.emit(R.multiply(x, x))
        if exponent in (3, -2) and node.narrow_dtype == "bfloat16":  # as in torch
            square = cast(cast(square, "bfloat16"), "float32")
        if exponent == -2:
            return R.divide(number(1, node.out_dtype()), square)
        return square if exponent < 3 else R.multiply(square, x if exponent == 3 else square)
    if is_float(node.out_dtype()):
        one = number(1.0, node.out_dtype())
        if exponent == 0.5:
            return R.sqrt(x)
        if exponent == -0.5:
            return R.rsqrt(x)
        if exponent == -1:
            return R.divide(one, x)
    return None


@torch_op("where")
def where(node: FxNode) -> Expr:
    condition = node.operand("condition", "bool")
    return R.where(condition, *pair(node, node.out_dtype()))


@torch_op("clamp", "clip")
def clamp(node: FxNode) -> Expr:
    dtype = node.out_dtype()
    x = node.operand("self", dtype)
    low, high = node.arg("min", None), node.arg("max", None)
    x = x if low is None else R.maximum(x, as_tensor(low, dtype))
    return x if high is None else R.minimum(x, as_tensor(high, dtype))


@torch_op("clamp_min")
def clamp_min(node: FxNode) -> Expr:
    dtype = node.out_dtype()
    return R.maximum(node.operand("self", dtype), node.operand("min", dtype))


@torch_op("clamp_max")
def clamp_max(node: FxNode) -> Expr:
    dtype = node.out_dtype()
    return R.minimum(node.operand("self", dtype), node.operand("max", dtype))


@torch_op("masked_fill")
def masked_fill(node: FxNode) -> Expr:
    value = node.operand("value", node.out_dtype())
    return R.where(node.operand("mask", "bool"), value, node["self"])


@torch_op("addcmul", "addcdiv")
@rounded_once
def add_scaled_product(node: FxNode) -> Expr:
    op = R.multiply if ".addcmul" in node.spec.target else R.divide
    dtype = node.out_dtype()
    result = op(node.operand("tensor1", dtype), node.operand("tensor2", dtype))
    return R.add(node.operand("self", dtype), _scale_by_argument(node, result, "value"))


@torch_op("lerp")
@rounded_once
def lerp(node: FxNode) -> Expr:
    dtype = node.out_dtype()
    start, end = node["self"], node["end"]
    return R.add(start, R.multiply(node.operand("weight", dtype), R.subtract(end, start)))


@torch_op("isclose")
def is_close(node: FxNode) -> Expr:
    values = node["self"], node["other"]
    dtype = promote_dtypes(values)
    lhs, rhs = (as_tensor(v, dtype if is_float(dtype) else "float64") for v in values)
    dtype_of_operands = node.dtype_of(lhs)
    relative = R.multiply(number(node.arg("rtol", 1e-5), dtype_of_operands), R.abs(rhs))
    tolerance = R.add(number(node.arg("atol", 1e-8), dtype_of_operands), relative)
    is_near = R.logical_and(R.less_equal(R.abs(R.subtract(lhs, rhs)), tolerance), R.isfinite(rhs))
    is_near = R.logical_or(R.equal(lhs, rhs), is_near)
    if not node.flag("equal_nan"):
        return is_near
    return R.logical_or(is_near, R.logical_and(R.isnan(lhs), R.isnan(rhs)))


@torch_op("broadcast_tensors")
def broadcast_tensors(node: FxNode) -> list[Any]:
    return [R.broadcast_to(x, node.out_dims(k)) for k, x in enumerate(node.arg("tensors"))]


@torch_op("cartesian_prod")
def cartesian_product(node: FxNode) -> Expr:
    """Builds the rows of all combinations of elements of vectors; one vector is unchanged."""
    vectors = node.arg("tensors")
    if len(vectors) == 1:
        return vectors[0]
    grids = node.emit(R.meshgrid(Tuple(tuple(vectors)), indexing="ij"))
    columns = [node.emit(R.flatten(grids[k])) for k in range(len(vectors))]
    return R.stack(Tuple(tuple(columns)), axis=1)


def reduce_loss(x: Expr, reduction: int) -> Expr:
    """Returns elementwise losses reduced by torch's code: 0 for none, 1 for the mean, 2 for the
    sum."""
    if reduction == 0:
        return x
    return R.mean(x) if reduction == 1 else R.sum(x)
