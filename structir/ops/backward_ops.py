"""Named backward ops: adjoints of pooling windows, reads and losses."""

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
from structir.ops.broadcast import divide, multiply, not_equal, where
from structir.ops.create import full_like, zeros_like
from structir.ops.elementwise import astype, negative
from structir.ops.indexing import take
from structir.ops.layout import expand_dims
from structir.ops.loss import likelihood
from structir.ops.pool import windows_of
from structir.ops.reduce import sum_
from structir.ops.scatter import scatter_elements
from structir.projections.scalar_expr import ScalarExpr

np = lazy_module("numpy")
Array = Any


def reversed_take(given: CallView) -> ResolvedSignature:
    """Returns the signature of `take` with operand and result exchanged."""
    if given["axis"] is None:
        line = "output_grad[*s], x[n], indices[*s] @ I -> dx[indices : n]"
    else:
        line = "output_grad[*p, *s, *t], x[*p, n, *t], indices[*s] @ I -> dx[*p, indices : n, *t]"
    if given.rank("x") is None or given.rank("indices") is None:
        line = "output_grad[*u], x[*s], indices[*t] @ I -> dx[*s]"
    return ResolvedSignature(line)


@op(reversed_take, name="grad.take_backward", reduce="sum", at={"n": "axis"})
def take_backward(
    output_grad: ScalarExpr, x: ScalarExpr, indices: ScalarExpr, axis: Axis | None = None
) -> ScalarExpr:
    """Computes the gradient of `take` with respect to its operand."""
    return output_grad


def reversed_pool(given: CallView) -> ResolvedSignature:
    """Returns a signature with whole windowed axes; the reference defines the values."""
    found = windows_of(given, 2, "data")
    sizes = [entry.split(" : ")[-1] for entry in found.read]
    data = [f"[{n}]" if n not in found.made else n for n in sizes]
    grad = [f"[{n}]" if n not in sizes else n for n in found.made]
    line = f"{access_text('output_grad', grad)}, {access_text('data', data)} -> "
    numbers = {**found.numbers, **_in_order(given, found.numbers)}
    return ResolvedSignature(line + access_text("dx", sizes), found.checks, "", numbers)


def _in_order(given: CallView, numbers: Mapping[str, Any]) -> dict[str, Any]:
    """Orders window numbers by the data layout; also returns whether results are transposed."""
    layout = given["layout"]
    made = given["out_layout"] or layout
    turned = layout.index("W") < layout.index("H")
    known = {"extent": each(given, "pool_size", 2), "step": numbers["s"]}
    known |= {"apart": numbers["d"], "before": numbers["lo"], "after": numbers["hi"]}
    return {
        **{name: tuple(value)[:: -1 if turned else 1] for name, value in known.items()},
        "crossed": turned != (made.index("W") < made.index("H")),
    }


@op(reversed_pool, name="grad.max_pool2d_backward")
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


@op(reversed_pool, name="grad.avg_pool2d_backward")
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


def reversed_likelihood(given: CallView) -> str:
    """Returns the signature of the loss with the output gradient as an operand."""
    reads, result = likelihood(given).split(" -> out")
    predictions = reads.split(" @ F")[0].removeprefix("predictions")
    return f"output_grad{result}, {reads} -> dx{predictions} @ F"


@op(reversed_likelihood, name="grad.nll_loss_backward")
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
    """Declares that the mean reads every weight in use, which the signature does not express."""
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
    axis = 0 if predictions.struct_info.ndim == 1 else 1
    kept = not_equal(targets, full_like(targets, ignore_index))
    classes = where(kept, targets, zeros_like(targets))
    weight = astype(kept, predictions.struct_info.dtype)
    if weights is not None:
        weight = multiply(weight, take(weights, classes, axis=0))
    scale = negative(multiply(output_grad, weight))
    if reduction == "mean":
        scale = divide(scale, sum_(weight))
    places, shares = expand_dims(classes, axis), expand_dims(scale, axis)
    return scatter_elements(zeros_like(predictions), places, shares, axis)


@max_pool2d_backward.kernel("cpu")
def _(
    output_grad: Array,
    data: Array,
    dx: Array,
    extent: tuple[int, ...],
    step: tuple[int, ...],
    apart: tuple[int, ...],
    before: tuple[int, ...],
    crossed: bool,
) -> None:
    if data.size == 0:
        return
    made = np.zeros(data.shape, np.float64)
    for i in range(output_grad.shape[1 if crossed else 0]):
        for j in range(output_grad.shape[0 if crossed else 1]):
            back = output_grad[j, i] if crossed else output_grad[i, j]
            hits, most = 0, data[0, 0]
            for sharing in range(2):
                for p in range(extent[0]):
                    row = i * step[0] - before[0] + p * apart[0]
                    for q in range(extent[1]):
                        column = j * step[1] - before[1] + q * apart[1]
                        if 0 <= row < data.shape[0] and 0 <= column < data.shape[1]:
                            value = data[row, column]
                            if sharing and value == most:
                                made[row, column] += back / hits
                            elif not sharing and (hits == 0 or value > most or value != value):
                                hits, most = 1, value
                            elif not sharing and value == most:
                                hits += 1
    dx[:] = made


@avg_pool2d_backward.kernel("cpu")
def _(
    output_grad: Array,
    data: Array,
    dx: Array,
    extent: tuple[int, ...],
    step: tuple[int, ...],
    apart: tuple[int, ...],
    before: tuple[int, ...],
    after: tuple[int, ...],
    crossed: bool,
    count_include_pad: bool,
) -> None:
    rows, columns = data.shape
    ends = (rows + after[0], columns + after[1]) if count_include_pad else (rows, columns)
    made = np.zeros(data.shape, np.float64)
    for i in range(output_grad.shape[1 if crossed else 0]):
        for j in range(output_grad.shape[0 if crossed else 1]):
            back = output_grad[j, i] if crossed else output_grad[i, j]
            counted = 0
            for sharing in range(2):
                whole = counted
                for p in range(extent[0]):
                    row = i * step[0] - before[0] + p * apart[0]
                    for q in range(extent[1]):
                        column = j * step[1] - before[1] + q * apart[1]
                        if count_include_pad or (row >= 0 and column >= 0):
                            counted += row < ends[0] and column < ends[1]
                        if sharing and 0 <= row < rows and 0 <= column < columns:
                            made[row, column] += back / whole
    dx[:] = made


def _windows(data: Array, numbers: dict[str, Any]) -> tuple[Array, Array, Array, Array]:
    """Returns the rows and columns of each window, and masks of those inside the data."""
    size, strides, dilation = (
        per_axis(numbers[n], 2) or () for n in ("pool_size", "strides", "dilation")
    )
    given = numbers["padding"]
    pads = given if len(given) == 4 else per_axis(given, 2) or ()
    places = []
    for k, length in enumerate(data.shape[2:]):
        reach = dilation[k] * (size[k] - 1) + 1
        room = length + pads[k] + pads[k - 2] - reach
        room += strides[k] - 1 if numbers["ceil_mode"] else 0
        starts = np.arange(room // strides[k] + 1) * strides[k] - pads[k]
        starts = starts[starts < length] if numbers["ceil_mode"] else starts
        places.append(starts[:, None] + np.arange(size[k]) * dilation[k])
    rows, columns = places[0][:, None, :, None], places[1][None, :, None, :]
    inside = (rows >= 0) & (rows < data.shape[2]) & (columns >= 0) & (columns < data.shape[3])
    padded = (rows < data.shape[2] + pads[-2]) & (columns < data.shape[3] + pads[-1])
    return rows, columns, inside, padded


def _spread(grad: Array, share: Array, rows: Array, columns: Array, data: Array) -> Array:
    """Distributes each output gradient over the elements of its window."""
    made = np.zeros(data.shape, "float64")
    clipped = [np.clip(p, 0, n - 1) for p, n in zip((rows, columns), data.shape[2:], strict=True)]
    np.add.at(made, (slice(None), slice(None), *clipped), grad[..., None, None] * share)
    return made.astype(data.dtype)


def _order(layout: str) -> list[int]:
    """Returns the axes of a layout in canonical order."""
    return [layout.index(axis) for axis in "NCHW"]


def _pooled_back(way: Callable[..., Array]) -> Callable[..., Array]:
    """Wraps the canonical-layout reference for any layout."""

    def reference(output_grad: Array, data: Array, **numbers: Any) -> Array:
        order = _order(numbers["layout"])
        made_order = _order(numbers["out_layout"] or numbers["layout"])
        made = way(np.transpose(output_grad, made_order), np.transpose(data, order), numbers)
        return np.transpose(made, np.argsort(order))

    return reference


@avg_pool2d_backward.reference
@_pooled_back
def _(output_grad: Array, data: Array, numbers: dict[str, Any]) -> Array:
    rows, columns, inside, padded = _windows(data, numbers)
    counted = padded if numbers["count_include_pad"] else inside
    share = inside / np.maximum(counted.sum(axis=(2, 3), keepdims=True), 1)
    return _spread(output_grad, share, rows, columns, data)


@max_pool2d_backward.reference
@_pooled_back
def _(output_grad: Array, data: Array, numbers: dict[str, Any]) -> Array:
    rows, columns, inside, _ = _windows(data, numbers)
    clipped = [np.clip(p, 0, n - 1) for p, n in zip((rows, columns), data.shape[2:], strict=True)]
    seen = np.where(inside, data[(slice(None), slice(None), *clipped)], -np.inf)
    hit = inside & (seen == seen.max(axis=(4, 5), keepdims=True))
    share = hit / np.maximum(hit.sum(axis=(4, 5), keepdims=True), 1)
    return _spread(output_grad, share, rows, columns, data)


SECOND = (
    "it is a gradient already, in the form of other programs: differentiate the op itself twice"
)
max_pool2d_backward.non_differentiable(SECOND)
avg_pool2d_backward.non_differentiable(SECOND)
nll_loss_backward.non_differentiable(SECOND)
take_backward.example(f32[2, 2], f32[3, 2], i64[2].below(3), axis=0)
max_pool2d_backward.example(f32[1, 2, 2, 2], f32[1, 2, 4, 4], (2, 2), (2, 2))
avg_pool2d_backward.example(f32[1, 2, 2, 2], f32[1, 2, 4, 4], (2, 2), (2, 2))
nll_loss_backward.example(f32[()], f32[3, 5], i64[3].below(5), f32[5])
