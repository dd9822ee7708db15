"""Prefix sums, products, maxima and minima along an axis."""

from __future__ import annotations

from typing import Any

from structir.ir.dtype import dtype_name, is_float, numpy_dtype
from structir.ir.expr import Call, Expr
from structir.lazy import lazy_module
from structir.opdef.adjoint_op import Cotangent, Emit, component
from structir.opdef.attributes import Axis, DType
from structir.opdef.call_view import CallView, ResolvedSignature
from structir.opdef.define import op
from structir.opdef.examples import f32
from structir.opdef.index_vars import access_text, index_vars
from structir.ops.broadcast import add, multiply
from structir.ops.create import zeros_like
from structir.ops.elementwise import astype
from structir.ops.reshape import reshape
from structir.ops.scatter import scatter_elements
from structir.ops.shapes import shape_of
from structir.projections.conversion import convert_dtype
from structir.projections.scalar_expr import ScalarExpr, cast
from structir.projections.values import computing_dtype

np = lazy_module("numpy")
Array = Any


def scan_signature(call: CallView) -> ResolvedSignature:
    """Returns the signature of a triangular reduction: element `j` is read for `i` if j <= i."""
    order = "<" if call["exclusive"] else "<="
    if call["axis"] is None:
        signature = "x[*s] -> out[i] @ dtype or T"
        return ResolvedSignature(signature, "i == flat(*s)", f"flat(*s) {order} i")
    rank = call.rank("x")
    if rank is None:
        return ResolvedSignature("x[*s] -> out[*s] @ dtype or T")
    in_variables, out_variables = index_vars(rank), index_vars(rank)
    axis = call.axis("axis", rank)
    in_variables[axis], out_variables[axis] = "j", "i"
    signature = (
        f"{access_text('x', in_variables)} -> {access_text('out', out_variables)} @ dtype or T"
    )
    return ResolvedSignature(signature, "i == j", f"j {order} i")


@op(scan_signature, reduce="sum")
def cumsum(
    x: ScalarExpr, axis: Axis | None = None, dtype: DType | None = None, exclusive: bool = False
) -> ScalarExpr:
    """Computes the cumulative sum along an axis; over the flattened tensor by default.

    With `dtype`, elements are converted before they are combined.
    """
    return x if dtype is None else cast(x, dtype)


@op(scan_signature, reduce="prod")
def cumprod(
    x: ScalarExpr, axis: Axis | None = None, dtype: DType | None = None, exclusive: bool = False
) -> ScalarExpr:
    """Computes the cumulative product along an axis; over the flattened tensor by default.

    With `dtype`, elements are converted before they are combined.
    """
    return x if dtype is None else cast(x, dtype)


def _accumulated(function: Any, x: Array, axis: Any, dtype: Any, exclusive: bool) -> Array:
    """Combines the elements before each one in order; integers wrap."""
    target = numpy_dtype(dtype or dtype_name(x.dtype))
    kind = dtype_name(target)
    wide = computing_dtype(kind) if is_float(kind) else "uint64" if kind == "uint64" else "int64"
    elements = convert_dtype(x, kind).astype(wide)
    if axis is None:
        elements, axis = elements.reshape(-1), 0
    if exclusive:
        shape = [1 if k == axis % elements.ndim else n for k, n in enumerate(elements.shape)]
        first = np.full(shape, function.identity, wide)
        elements = np.concatenate([first, elements], axis).take(range(elements.shape[axis]), axis)
    return function.accumulate(elements, axis=axis).astype(target)


@cumsum.reference
def _(x: Array, axis: Any = None, dtype: Any = None, exclusive: bool = False) -> Array:
    return _accumulated(np.add, x, axis, dtype, exclusive)


@cumprod.reference
def _(x: Array, axis: Any = None, dtype: Any = None, exclusive: bool = False) -> Array:
    return _accumulated(np.multiply, x, axis, dtype, exclusive)


RECURRENCE = "a[*p, [i], *t] @ F, x[*p, [i], *t] @ F -> out[*p, [i], *t] @ F"


@op(RECURRENCE, at={"i": "axis"})
def linear_recurrence(a: Array, x: Array, axis: Axis = -1, reverse: bool = False) -> Array:
    """Computes the state before each element: 0 first, then `a * state + x` of the element.

    With `reverse`, elements are read from the last to the first.
    """
    order = range(x.shape[-1])
    state, result = np.zeros(x.shape[:-1]), np.empty_like(x)
    for k in reversed(order) if reverse else order:
        result[..., k] = state
        state = a[..., k] * state + x[..., k]
    return result


@linear_recurrence.kernel("cpu")
def _(a: Array, x: Array, out: Array, reverse: bool) -> None:
    first, step = 0, 1
    if reverse:
        first, step = x.shape[0] - 1, -1
    state = 0.0
    for count in range(x.shape[0]):
        k = first + step * count
        out[k] = state
        state = a[k] * state + x[k]


@linear_recurrence.gradient
def _(call: Call, result: Expr, cotangent: Cotangent, emit: Emit) -> list[Cotangent]:
    """Computes the adjoints: the recurrence over cotangents in the opposite direction."""
    reverse = not call.attrs.get("reverse", False)
    axis = call.attrs.get("axis", -1)
    gradient = emit(linear_recurrence(call.args[0], cotangent, axis=axis, reverse=reverse))
    return [multiply(gradient, result), gradient]


@cumprod.gradient
def _(call: Call, result: Expr, cotangent: Cotangent, emit: Emit) -> list[Cotangent]:
    """Multiplies the product of the elements before each one by the sum, over the results that it
    is part of, of the cotangent times the product of the elements between.

    The sum is a linear recurrence, so that no element is a divisor and zeros need no case.
    """
    (x,), info = call.args, cotangent.struct_info
    axis, exclusive = call.attrs.get("axis"), call.attrs.get("exclusive", False)
    wide = computing_dtype(info.dtype)
    elements, along = emit(astype(astype(x, info.dtype), wide)), -1 if axis is None else axis
    if axis is None:
        elements = emit(reshape(elements, (-1,)))
    cotangent = emit(astype(cotangent, wide))
    before = emit(cumprod(elements, axis=along, exclusive=True))
    later = cotangent if exclusive else emit(multiply(elements, cotangent))
    total = emit(linear_recurrence(elements, later, axis=along, reverse=True))
    if not exclusive:
        total = emit(add(cotangent, total))
    gradient = emit(astype(multiply(before, total), x.struct_info.dtype))
    return [gradient if axis is not None else reshape(gradient, emit(shape_of(x)))]


RUNNING = "x[*p, [i], *t] -> values[*p, [i], *t], positions[*p, [i], *t] @ int64"


def running_extreme(x: Array, is_max: bool) -> tuple[Array, Array]:
    """Computes the running extremes of the last axis, and the last positions that have them.

    NaN is more extreme than any number.
    """
    values, positions = x.copy(), np.zeros(x.shape, "int64")
    for k in range(1, x.shape[-1]):
        element, best = x[..., k], values[..., k - 1]
        replaces = (element >= best) if is_max else (element <= best)
        replaces = (replaces & (best == best)) | (element != element)
        values[..., k] = np.where(replaces, element, best)
        positions[..., k] = np.where(replaces, k, positions[..., k - 1])
    return values, positions


def running_row(x: Array, values: Array, positions: Array, is_max: bool) -> None:
    """Computes the running extremes of one row, and their positions."""
    best = 0
    for k in range(x.shape[0]):
        element, extreme = x[k], x[best]
        replaces = element >= extreme if is_max else element <= extreme
        if (replaces and extreme == extreme) or element != element:
            best = k
        values[k] = x[best]
        positions[k] = best


@op(RUNNING, at={"i": "axis"})
def cummax(x: Array, axis: Axis = -1) -> Any:
    """Computes the running maximum along an axis, and the last position that has it."""
    return running_extreme(x, True)


@op(RUNNING, at={"i": "axis"})
def cummin(x: Array, axis: Axis = -1) -> Any:
    """Computes the running minimum along an axis, and the last position that has it."""
    return running_extreme(x, False)


@cummax.kernel("cpu")
def _(x: Array, values: Array, positions: Array) -> None:
    running_row(x, values, positions, True)


@cummin.kernel("cpu")
def _(x: Array, values: Array, positions: Array) -> None:
    running_row(x, values, positions, False)


@cummax.gradient
@cummin.gradient
def _(call: Call, result: Expr, cotangent: Cotangent, emit: Emit) -> list[Cotangent]:
    """Computes the adjoint: adds the cotangent to the element that is the extreme."""
    (x,), values = call.args, component(cotangent, 0, emit)
    if values is None:
        return [None]
    positions, axis = component(result, 1, emit), call.attrs.get("axis", -1)
    return [scatter_elements(zeros_like(x), positions, values, axis, reduction="add")]


cumsum.example(f32[3, 4], axis=1)
cumprod.example(f32[3, 4], exclusive=True)
linear_recurrence.example(f32[3, 4], f32[3, 4], reverse=True)
cummax.example(f32[3, 5], axis=1)
cummin.example(f32[3, 5], axis=0)
