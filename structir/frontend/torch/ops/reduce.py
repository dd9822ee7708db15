"""Mappings of reductions, norms, cumulative ops, sorting and searching."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce as folded
from typing import Any

from structir.frontend.scalars import index_range, number, reshape_to
from structir.frontend.special_functions import running_log_sum_exp
from structir.frontend.torch.node import FxNode
from structir.frontend.torch.ops.shapes import slice_between
from structir.frontend.torch.registry import torch_op
from structir.frontend.torch.scalars import as_tensor, cast, is_number, product, rounded_once
from structir.ir import dims
from structir.ir.dtype import NARROW_FLOATS
from structir.ir.expr import Expr, Tuple
from structir.script import R


def axes_of(node: FxNode, name: str = "dim") -> list[int] | None:
    """Returns the axes to reduce, or None for all."""
    return node.axes(name)


def _over(op: Any, dtype: Callable[[FxNode], str] | None = None) -> Callable[[FxNode], Expr]:
    def build(node: FxNode) -> Expr:
        x = cast(node["self"], node.out_dtype() if dtype is None else dtype(node))
        if not node.rank():
            return x
        return op(x, axis=axes_of(node), keepdims=node.flag("keepdim"))

    return build


torch_op("sum")(_over(R.sum))
torch_op("prod")(_over(R.prod))
torch_op("mean")(_over(R.mean))
torch_op("amax")(_over(R.max))
torch_op("amin")(_over(R.min))


@torch_op("nansum", "nanmean")
def without_nan(node: FxNode) -> Expr:
    x = node.emit(cast(node["self"], node.out_dtype()))
    axes, keepdims = axes_of(node), node.flag("keepdim")
    is_nan = node.emit(R.isnan(x))
    total = R.sum(R.where(is_nan, number(0, node.out_dtype()), x), axis=axes, keepdims=keepdims)
    if ".nansum" in node.spec.target:
        return total
    count = R.sum(cast(R.logical_not(is_nan), node.out_dtype()), axis=axes, keepdims=keepdims)
    return R.divide(total, count)


@torch_op("count_nonzero")
def count_nonzero(node: FxNode) -> Expr:
    is_nonzero = R.not_equal(node["self"], number(0, node.dtype()))
    return R.sum(cast(is_nonzero, "int64"), axis=axes_of(node))


@torch_op("any", "all")
def any_or_all(node: FxNode) -> Expr:
    op = R.max if ".any" in node.spec.target else R.min
    flags = node.operand("self", "bool")
    if not node.rank():
        return cast(flags, node.out_dtype())
    result = op(cast(flags, "uint8"), axis=axes_of(node), keepdims=node.flag("keepdim"))
    return cast(result, node.out_dtype())


@torch_op("_is_any_true", "_is_all_true")
def any_or_all_elements(node: FxNode) -> Expr:
    op = R.max if "any" in node.spec.target else R.min
    return cast(op(cast(node["self"], "uint8")), "bool")


@torch_op("max", "min")
def extreme(node: FxNode) -> Any:
    """Builds max or min: of all elements, of two tensors, or along an axis with its indices."""
    is_max = ".max" in node.spec.target
    if "other" in node.spec.args:
        dtype = node.out_dtype()
        pair = node.operand("self", dtype), node.operand("other", dtype)
        return (R.maximum if is_max else R.minimum)(*pair)
    x, op = node["self"], R.max if is_max else R.min
    if "dim" not in node.spec.args:
        return cast(op(_wide(node, x)), node.out_dtype()) if node.rank() else x
    if not node.rank():
        return [x, number(0, "int64")]
    axis, keepdims = node.axis(), node.flag("keepdim")
    x = node.emit(_wide(node, x))
    position = (R.argmax if is_max else R.argmin)(x, axis=axis, keepdims=keepdims)
    return [cast(op(x, axis=axis, keepdims=keepdims), node.out_dtype()), cast(position, "int64")]


def _wide(node: FxNode, x: Expr) -> Expr:
    return cast(x, "int8") if node.dtype_of(x) == "bool" else x


@torch_op("aminmax")
def min_and_max(node: FxNode) -> list[Expr]:
    axes = None if node.arg("dim", None) is None else [node.axis()]
    keepdims = node.flag("keepdim")
    return [op(node["self"], axis=axes, keepdims=keepdims) for op in (R.min, R.max)]


@torch_op("argmax", "argmin")
def arg_extreme(node: FxNode) -> Expr:
    op = R.argmax if ".argmax" in node.spec.target else R.argmin
    if not node.rank():
        return number(0, "int64")
    axis = None if node.arg("dim", None) is None else node.axis()
    return cast(op(_wide(node, node["self"]), axis=axis, keepdims=node.flag("keepdim")), "int64")


def variance_of(node: FxNode) -> tuple[Expr, Expr]:
    """Returns the variance over the axes, and the mean."""
    x, axes, keepdims = node["self"], axes_of(node), node.flag("keepdim")
    correction: Any = node.arg("correction", None)
    if correction is None:
        correction = int(node.flag("unbiased", True))
    mean = R.mean(x, axis=axes, keepdims=keepdims)
    variance = R.variance(x, axis=axes, keepdims=keepdims)
    if is_number(correction, 0):
        return variance, mean
    sizes = node.dims()
    count = product(sizes if axes is None else [sizes[a] for a in axes])
    count_value, dtype = as_tensor(count, node.out_dtype()), node.out_dtype()
    divisor = R.maximum(R.subtract(count_value, number(correction, dtype)), number(0, dtype))
    return R.multiply(variance, R.divide(count_value, divisor)), mean


@torch_op("var")
@rounded_once
def variance(node: FxNode) -> Expr:
    return variance_of(node)[0]


torch_op("std")(rounded_once(lambda node: R.sqrt(variance_of(node)[0])))
torch_op("var_mean")(rounded_once(lambda node: list(variance_of(node))))


@torch_op("std_mean")
@rounded_once
def deviation_and_mean(node: FxNode) -> list[Expr]:
    variance_value, mean = variance_of(node)
    return [R.sqrt(variance_value), mean]


@torch_op("logsumexp")
def log_sum_exp(node: FxNode) -> Expr:
    x, axes = cast(node["self"], node.out_dtype()), axes_of(node)
    maximum = node.emit(R.max(x, axis=axes, keepdims=True))
    finite = node.emit(R.where(R.isfinite(maximum), maximum, number(0.0, node.out_dtype())))
    total = R.log(R.sum(R.exp(R.subtract(x, finite)), axis=axes, keepdims=True))
    result = R.add(total, finite)
    if node.flag("keepdim") or not node.rank():
        return result
    return R.squeeze(result, axes if axes is not None else list(range(node.rank())))


@torch_op("linalg_vector_norm", "norm", "frobenius_norm")
def norm(node: FxNode) -> Expr:
    order = node.arg("ord" if "vector" in node.spec.target else "p", 2)
    axes, keepdims = axes_of(node), node.flag("keepdim")
    return norm_along(node, R.abs(node.float_operand()), order, axes, keepdims)


@torch_op("dist")
def distance(node: FxNode) -> Expr:
    difference = R.subtract(node.float_operand("self"), node.float_operand("other"))
    return norm_along(node, R.abs(difference), float(node.arg("p", 2)), None, False)


def norm_along(
    node: FxNode, magnitude: Expr, order: Any, axes: Any, keepdims: bool = False
) -> Expr:
    """Returns the norm of an order along axes, from absolute values.

    Powers of floats of 16 bits overflow, so they are computed in float32.
    """
    own = node.out_dtype()
    dtype = "float32" if own in NARROW_FLOATS else own
    axes = axes if node.dims_of(magnitude := node.emit(magnitude)) else None
    result = _norm_of(node.emit(cast(magnitude, dtype)), dtype, order, axes, keepdims)
    return cast(node.emit(result), own)


def _norm_of(magnitude: Expr, dtype: str, order: Any, axes: Any, keepdims: bool) -> Expr:
    order = 2 if order is None else order
    if order in (float("inf"), float("-inf")):
        return (R.max if order > 0 else R.min)(magnitude, axis=axes, keepdims=keepdims)
    if order == 0:
        is_nonzero = cast(R.not_equal(magnitude, number(0.0, dtype)), dtype)
        return R.sum(is_nonzero, axis=axes, keepdims=keepdims)
    if order == 1:
        return R.sum(magnitude, axis=axes, keepdims=keepdims)
    if order == 2:
        return R.sqrt(R.sum(R.multiply(magnitude, magnitude), axis=axes, keepdims=keepdims))
    total = R.sum(R.power(magnitude, number(order, dtype)), axis=axes, keepdims=keepdims)
    return R.power(total, number(1 / order, dtype))


def _cumulative(op: Any) -> Callable[[FxNode], Expr]:
    def build(node: FxNode) -> Expr:
        x = cast(node["self"], node.out_dtype())
        return op(x, axis=node.axis()) if node.rank() else x

    return build


torch_op("cumsum")(_cumulative(R.cumsum))
torch_op("cumprod")(_cumulative(R.cumprod))


@torch_op("cummax", "cummin")
def running_extreme(node: FxNode) -> list[Expr]:
    x, op = node.emit(_wide(node, node["self"])), R.cummax
    if ".cummin" in node.spec.target:
        op = R.cummin
    if not node.rank():
        return [node["self"], number(0, "int64")]
    result = node.emit(op(x, axis=node.axis()))
    return [cast(node.emit(result[0]), node.out_dtype()), node.emit(result[1])]


@torch_op("logcumsumexp")
def log_of_prefix_sums(node: FxNode) -> Expr:
    """Builds logcumsumexp in float64."""
    if not node.rank():
        return node["self"]
    x = node.emit(cast(node["self"], "float64"))
    return cast(running_log_sum_exp(x, node.axis(), "float64", node.emit), node.out_dtype())


@torch_op("trace")
def trace(node: FxNode) -> Expr:
    rows, columns = node.dims()
    is_diagonal = R.equal(reshape_to(index_range(rows), (rows, 1)), index_range(columns))
    return R.sum(
        R.where(is_diagonal, cast(node["self"], node.out_dtype()), number(0, node.out_dtype()))
    )


@torch_op("diff")
def differences(node: FxNode) -> Expr:
    """Returns the n-th differences; for n = 0, `prepend` and `append` are ignored as in torch."""
    count, axis, dtype = node.plain("n", 1), node.axis("dim", -1), node.out_dtype()
    operands = [node.get(name) for name in ("prepend", "self", "append")]
    parts = [cast(x, dtype) for x in operands if x is not None] if count else [node["self"]]
    joined = R.concat(Tuple(tuple(parts)), axis=axis) if len(parts) > 1 else parts[0]
    difference = R.logical_xor if dtype == "bool" else R.subtract
    return folded(lambda x, _: _step(node, x, axis, difference), range(count), joined)


def _step(node: FxNode, x: Expr, axis: int, difference: Any) -> Expr:
    """Returns the first differences along an axis; an empty axis stays empty."""
    size = node.dims_of(x := node.emit(x))[axis]
    if dims.equal(size, 0) is True:
        return x
    shorter = dims.dim_max(size - 1, 0)
    return difference(
        slice_between(node, x, axis, 1, size), slice_between(node, x, axis, 0, shorter)
    )
