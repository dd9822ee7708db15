"""Backward ops by name: gradients of pooling, `take` and `nll_loss`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

from structir.ir.expr import Call, Expr
from structir.lazy import lazy_module
from structir.opdef.attributes import Axis, Ints, Layout
from structir.opdef.call_view import CallView, ResolvedSignature
from structir.opdef.define import op
from structir.opdef.examples import f32, i64
from structir.opdef.index_vars import access_text, per_axis
from structir.opdef.layouts import each
from structir.ops.broadcast import divide, multiply
from structir.ops.create import zeros_like
from structir.ops.elementwise import negative
from structir.ops.layout import expand_dims
from structir.ops.loss import class_axis, classes_and_weights, nll_loss_signature
from structir.ops.pool import windows_of
from structir.ops.reduce import sum_
from structir.ops.scatter import scatter_elements
from structir.projections.scalar_expr import ScalarExpr

np = lazy_module("numpy")
Array = Any


def take_backward_signature(call: CallView) -> ResolvedSignature:
    """Returns the signature of `take` with operand and result exchanged."""
    if call["axis"] is None:
        signature = "output_grad[*s], x[n], indices[*s] @ I -> dx[indices : n]"
    else:
        signature = (
            "output_grad[*p, *s, *t], x[*p, n, *t], indices[*s] @ I -> dx[*p, indices : n, *t]"
        )
    if call.rank("x") is None or call.rank("indices") is None:
        signature = "output_grad[*u], x[*s], indices[*t] @ I -> dx[*s]"
    return ResolvedSignature(signature)


@op(take_backward_signature, name="grad.take_backward", reduce="sum", at={"n": "axis"})
def take_backward(
    output_grad: ScalarExpr, x: ScalarExpr, indices: ScalarExpr, axis: Axis | None = None
) -> ScalarExpr:
    """Computes the gradient of `take` with respect to its operand."""
    return output_grad


def pool_backward_signature(call: CallView) -> ResolvedSignature:
    """Returns the signature in which the body receives the spatial axes whole."""
    windows = windows_of(call, 2, "data")
    sizes = [entry.split(" : ")[-1] for entry in windows.in_axes]
    data = [f"[{n}]" if n not in windows.out_axes else n for n in sizes]
    grad = [f"[{n}]" if n not in sizes else n for n in windows.out_axes]
    operands = f"{access_text('output_grad', grad)}, {access_text('data', data)} -> "
    numbers = {**windows.numbers, **_spatial_attributes(call, windows.numbers)}
    return ResolvedSignature(operands + access_text("dx", sizes), windows.checks, "", numbers)


def _spatial_attributes(call: CallView, numbers: Mapping[str, Any]) -> dict[str, Any]:
    """Orders the window attributes as the data layout, and compares both layouts: `transposed`."""
    layout = call["layout"]
    out_layout = call["out_layout"] or layout
    width_first = layout.index("W") < layout.index("H")
    spatial = {"extent": each(call, "pool_size", 2), "step": numbers["s"]}
    spatial |= {"spacing": numbers["d"], "pad_before": numbers["lo"], "pad_after": numbers["hi"]}
    return {
        **{name: tuple(value)[:: -1 if width_first else 1] for name, value in spatial.items()},
        "transposed": width_first != (out_layout.index("W") < out_layout.index("H")),
    }


@op(pool_backward_signature, name="grad.max_pool2d_backward")
def max_pool2d_backward(
    output_grad: Array,
    data: Array,
    pool_size: Ints = (1, 1),
    strides: Ints = (1, 1),
    padding: Ints = (0, 0, 0, 0),
    dilation: Ints = (1, 1),
    ceil_mode: bool = False,
    count_include_pad: bool = False,
    layout: Layout = "NCHW",
    out_layout: Layout | None = None,
) -> Array:
    """Computes the gradient of `max_pool2d` with respect to its operand."""
    return data


@op(pool_backward_signature, name="grad.avg_pool2d_backward")
def avg_pool2d_backward(
    output_grad: Array,
    data: Array,
    pool_size: Ints = (1, 1),
    strides: Ints = (1, 1),
    padding: Ints = (0, 0, 0, 0),
    dilation: Ints = (1, 1),
    ceil_mode: bool = False,
    count_include_pad: bool = False,
    layout: Layout = "NCHW",
    out_layout: Layout | None = None,
) -> Array:
    """Computes the gradient of `avg_pool2d` with respect to its operand."""
    return data


def nll_loss_backward_signature(call: CallView) -> str:
    """Returns the signature of the loss with the output gradient as an operand."""
    reads, result = nll_loss_signature(call).split(" -> out")
    predictions = reads.split(" @ F")[0].removeprefix("predictions")
    return f"output_grad{result}, {reads} -> dx{predictions} @ F"


@op(nll_loss_backward_signature, name="grad.nll_loss_backward")
def nll_loss_backward(
    output_grad: Array,
    predictions: Array,
    targets: Array,
    weights: Array | None = None,
    reduction: Literal["none", "sum", "mean"] = "mean",
    ignore_index: int = -100,
) -> Array:
    """Computes the gradient of `nll_loss` with respect to its predictions."""
    return predictions


@nll_loss_backward.region
def _(call: Call) -> bool:
    """Returns whether the signature states all reads: a mean also reads every weight in use."""
    return call.attrs.get("reduction") in ("none", "sum")


@nll_loss_backward.decompose
def _(
    output_grad: Expr,
    predictions: Expr,
    targets: Expr,
    weights: Expr | None = None,
    reduction: str = "mean",
    ignore_index: int = -100,
) -> Expr:
    classes, weight = classes_and_weights(predictions, targets, weights, ignore_index)
    axis = class_axis(predictions)
    scale = negative(multiply(output_grad, weight))
    if reduction == "mean":
        scale = divide(scale, sum_(weight))
    indices, updates = expand_dims(classes, axis), expand_dims(scale, axis)
    return scatter_elements(zeros_like(predictions), indices, updates, axis)


@max_pool2d_backward.kernel("cpu")
def _(
    output_grad: Array,
    data: Array,
    dx: Array,
    extent: tuple[int, ...],
    step: tuple[int, ...],
    spacing: tuple[int, ...],
    pad_before: tuple[int, ...],
    transposed: bool,
) -> None:
    if data.size == 0:
        return
    gradient = np.zeros(data.shape, np.float64)
    for i in range(output_grad.shape[1 if transposed else 0]):
        for j in range(output_grad.shape[0 if transposed else 1]):
            cotangent = output_grad[j, i] if transposed else output_grad[i, j]
            ties, maximum = 0, data[0, 0]
            for distributing in range(2):
                for p in range(extent[0]):
                    row = i * step[0] - pad_before[0] + p * spacing[0]
                    for q in range(extent[1]):
                        column = j * step[1] - pad_before[1] + q * spacing[1]
                        if 0 <= row < data.shape[0] and 0 <= column < data.shape[1]:
                            value = data[row, column]
                            if distributing and value == maximum:
                                gradient[row, column] += cotangent / ties
                            elif not distributing and (
                                ties == 0 or value > maximum or value != value
                            ):
                                ties, maximum = 1, value
                            elif not distributing and value == maximum:
                                ties += 1
    for row in range(data.shape[0]):  # numba compiles an assignment of arrays for seconds
        for column in range(data.shape[1]):
            dx[row, column] = gradient[row, column]


@avg_pool2d_backward.kernel("cpu")
def _(
    output_grad: Array,
    data: Array,
    dx: Array,
    extent: tuple[int, ...],
    step: tuple[int, ...],
    spacing: tuple[int, ...],
    pad_before: tuple[int, ...],
    pad_after: tuple[int, ...],
    transposed: bool,
    count_include_pad: bool,
) -> None:
    rows, columns = data.shape
    ends = (rows + pad_after[0], columns + pad_after[1]) if count_include_pad else (rows, columns)
    gradient = np.zeros(data.shape, np.float64)
    for i in range(output_grad.shape[1 if transposed else 0]):
        for j in range(output_grad.shape[0 if transposed else 1]):
            cotangent = output_grad[j, i] if transposed else output_grad[i, j]
            counted = 0
            for distributing in range(2):
                window_count = counted
                for p in range(extent[0]):
                    row = i * step[0] - pad_before[0] + p * spacing[0]
                    for q in range(extent[1]):
                        column = j * step[1] - pad_before[1] + q * spacing[1]
                        if count_include_pad or (row >= 0 and column >= 0):
                            counted += row < ends[0] and column < ends[1]
                        if distributing and 0 <= row < rows and 0 <= column < columns:
                            gradient[row, column] += cotangent / window_count
    for row in range(rows):
        for column in range(columns):
            dx[row, column] = gradient[row, column]


def _windows(data: Array, numbers: dict[str, Any]) -> tuple[Array, Array, Array, Array]:
    """Returns the rows and columns of each window, and masks of those inside the data."""
    size, strides, dilation = (
        per_axis(numbers[n], 2) or () for n in ("pool_size", "strides", "dilation")
    )
    padding = numbers["padding"]
    pads = padding if len(padding) == 4 else per_axis(padding, 2) or ()
    coordinates = []
    for k, length in enumerate(data.shape[2:]):
        extent = dilation[k] * (size[k] - 1) + 1
        span = length + pads[k] + pads[k - 2] - extent
        span += strides[k] - 1 if numbers["ceil_mode"] else 0
        starts = np.arange(span // strides[k] + 1) * strides[k] - pads[k]
        starts = starts[starts < length] if numbers["ceil_mode"] else starts
        coordinates.append(starts[:, None] + np.arange(size[k]) * dilation[k])
    rows, columns = coordinates[0][:, None, :, None], coordinates[1][None, :, None, :]
    inside = (rows >= 0) & (rows < data.shape[2]) & (columns >= 0) & (columns < data.shape[3])
    padded = (rows < data.shape[2] + pads[-2]) & (columns < data.shape[3] + pads[-1])
    return rows, columns, inside, padded


def _scatter_to_windows(
    grad: Array, share: Array, rows: Array, columns: Array, data: Array
) -> Array:
    """Distributes each output gradient over the elements of its window."""
    gradient = np.zeros(data.shape, "float64")
    clipped = [np.clip(p, 0, n - 1) for p, n in zip((rows, columns), data.shape[2:], strict=True)]
    np.add.at(gradient, (slice(None), slice(None), *clipped), grad[..., None, None] * share)
    return gradient.astype(data.dtype)


def _canonical_axes(layout: str) -> list[int]:
    """Returns the axes of a layout in canonical order."""
    return [layout.index(axis) for axis in "NCHW"]


def _for_any_layout(canonical: Callable[..., Array]) -> Callable[..., Array]:
    """Wraps the canonical-layout reference for any layout."""

    def reference(output_grad: Array, data: Array, **numbers: Any) -> Array:
        order = _canonical_axes(numbers["layout"])
        out_order = _canonical_axes(numbers["out_layout"] or numbers["layout"])
        gradient = canonical(
            np.transpose(output_grad, out_order), np.transpose(data, order), numbers
        )
        return np.transpose(gradient, np.argsort(order))

    return reference


@avg_pool2d_backward.reference
@_for_any_layout
def _(output_grad: Array, data: Array, numbers: dict[str, Any]) -> Array:
    rows, columns, inside, padded = _windows(data, numbers)
    counted = padded if numbers["count_include_pad"] else inside
    share = inside / np.maximum(counted.sum(axis=(2, 3), keepdims=True), 1)
    return _scatter_to_windows(output_grad, share, rows, columns, data)


@max_pool2d_backward.reference
@_for_any_layout
def _(output_grad: Array, data: Array, numbers: dict[str, Any]) -> Array:
    rows, columns, inside, _ = _windows(data, numbers)
    clipped = [np.clip(p, 0, n - 1) for p, n in zip((rows, columns), data.shape[2:], strict=True)]
    values = np.where(inside, data[(slice(None), slice(None), *clipped)], -np.inf)
    is_max = inside & (values == values.max(axis=(4, 5), keepdims=True))
    share = is_max / np.maximum(is_max.sum(axis=(4, 5), keepdims=True), 1)
    return _scatter_to_windows(output_grad, share, rows, columns, data)


SECOND = "it is itself a gradient; differentiate the forward op twice"
max_pool2d_backward.non_differentiable(SECOND)
avg_pool2d_backward.non_differentiable(SECOND)
nll_loss_backward.non_differentiable(SECOND)
take_backward.example(f32[2, 2], f32[3, 2], i64[2].below(3), axis=0)
max_pool2d_backward.example(f32[1, 2, 2, 2], f32[1, 2, 4, 4], (2, 2), (2, 2))
avg_pool2d_backward.example(f32[1, 2, 2, 2], f32[1, 2, 4, 4], (2, 2), (2, 2))
nll_loss_backward.example(f32[()], f32[3, 5], i64[3].below(5), f32[5])
