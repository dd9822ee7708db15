"""Reductions over axes."""

from __future__ import annotations

from structir.ir.dtype import NARROW_FLOATS, is_float
from structir.ir.expr import Expr
from structir.opdef.attributes import Axes, Axis
from structir.opdef.call_view import CallView
from structir.opdef.define import op
from structir.opdef.examples import f32
from structir.opdef.index_vars import access_text, axes_of_any_rank, index_vars
from structir.ops.broadcast import subtract
from structir.ops.elementwise import astype, sqrt, square
from structir.projections.scalar_expr import ScalarExpr


def reduce_signature(call: CallView, dtype: str = "T") -> str:
    """Returns `x[i0, i1] -> out[i0]`; reduced axes are omitted, or 1 with keepdims."""
    rank, keep = call.rank("x"), call["keepdims"]
    if call["axis"] is None and not keep:
        return f"x[*s] -> out[] @ {dtype}"
    axes_and_variables = axes_of_any_rank(call["axis"]) if rank is None else None
    if rank is None and axes_and_variables is None:
        return f"x[*s] -> out[*u] @ {dtype}"
    axes, variables = axes_and_variables or (call.axes("axis", rank or 0), index_vars(rank or 0))
    out = ["1" if k in axes else i for k, i in enumerate(variables) if keep or k not in axes]
    return f"{access_text('x', variables)} -> {access_text('out', out)} @ {dtype}"


def arg_reduce_signature(call: CallView) -> str:
    """Returns the signature of a reduction to positions."""
    return reduce_signature(call, "int64")


@op(reduce_signature, reduce="sum")
def sum_(x: ScalarExpr, axis: Axes | None = None, keepdims: bool = False) -> ScalarExpr:
    """Computes the sum over axes; over all by default."""
    return x


@op(reduce_signature, reduce="prod")
def prod(x: ScalarExpr, axis: Axes | None = None, keepdims: bool = False) -> ScalarExpr:
    """Computes the product over axes; over all by default."""
    return x


@op(reduce_signature, reduce="max")
def max_(x: ScalarExpr, axis: Axes | None = None, keepdims: bool = False) -> ScalarExpr:
    """Computes the maximum over axes; over all by default."""
    return x


@op(reduce_signature, reduce="min")
def min_(x: ScalarExpr, axis: Axes | None = None, keepdims: bool = False) -> ScalarExpr:
    """Computes the minimum over axes; over all by default."""
    return x


@op(reduce_signature, reduce="mean")
def mean(x: ScalarExpr, axis: Axes | None = None, keepdims: bool = False) -> ScalarExpr:
    """Computes the mean over axes; over all by default."""
    return x


@op(arg_reduce_signature, reduce="argmax")
def argmax(x: ScalarExpr, axis: Axis | None = None, keepdims: bool = False) -> ScalarExpr:
    """Computes the index of the first maximum along an axis; over all by default."""
    return x


@op(arg_reduce_signature, reduce="argmin")
def argmin(x: ScalarExpr, axis: Axis | None = None, keepdims: bool = False) -> ScalarExpr:
    """Computes the index of the first minimum along an axis; over all by default."""
    return x


@op(reduce_signature, parts=True)
def variance(x: Expr, axis: Axes | None = None, keepdims: bool = False) -> Expr:
    """Computes the population variance; integer results are truncated."""
    exact = as_exact(x)
    distance = subtract(exact, mean(exact, axis=axis, keepdims=True))
    return as_operand_dtype(mean(square(distance), axis=axis, keepdims=keepdims), x)


@op(reduce_signature, parts=True)
def std(x: Expr, axis: Axes | None = None, keepdims: bool = False) -> Expr:
    """Computes the population standard deviation; integer results are truncated."""
    return as_operand_dtype(sqrt(variance(as_exact(x), axis=axis, keepdims=keepdims)), x)


def as_exact(x: Expr) -> Expr:
    """Converts integers to float64, and floats of 16 bits or less, whose squares overflow, to
    float32."""
    dtype = x.struct_info.dtype
    if dtype in NARROW_FLOATS:
        return astype(x, "float32")
    return x if _is_floating(x) else astype(x, "float64")


def as_operand_dtype(result: Expr, x: Expr) -> Expr:
    """Converts a result of exact operands to the dtype of the operand."""
    dtype = x.struct_info.dtype
    is_exact = _is_floating(x) and dtype not in NARROW_FLOATS
    return result if is_exact else astype(result, dtype)


def _is_floating(x: Expr) -> bool:
    dtype = x.struct_info.dtype
    return dtype is None or is_float(dtype)


sum_.example(f32[2, 3, 4], axis=(0, 2), keepdims=True)
mean.example(f32[2, 3, 4], axis=-1)
variance.example(f32[2, 3, 4], axis=1)
std.example(f32[2, 3, 4])
argmax.example(f32[2, 3, 4], axis=1)
prod.example(f32[3, 4], axis=1)
max_.example(f32[3, 4], axis=0, keepdims=True)
min_.example(f32[3, 4])
argmin.example(f32[3, 4], axis=1)
