"""Sorting and selection along an axis."""

from __future__ import annotations

from math import prod
from typing import Any, Literal

from structir.errors import ShapeMismatchError
from structir.ir.dtype import dtype_name, is_float
from structir.ir.expr import Call, Expr
from structir.ir.struct_info import known_dims
from structir.lazy import lazy_module
from structir.opdef.adjoint_op import Cotangent, Emit, component
from structir.opdef.attributes import Axes, Axis, DType
from structir.opdef.call_view import CallView, ResolvedSignature
from structir.opdef.define import op
from structir.opdef.examples import ExactValues, Sample, f32, i64
from structir.opdef.index_vars import access_text, index_vars
from structir.ops.broadcast import equal, where
from structir.ops.create import zeros_like
from structir.ops.elementwise import astype
from structir.ops.layout import expand_dims
from structir.ops.ordering import first_of_order, index_of_rank, order_of_keys, sort_keys
from structir.ops.reduce import reduce_signature, sum_
from structir.ops.reshape import reshape
from structir.ops.scatter import scatter_elements
from structir.projections.values import computing_dtype

np = lazy_module("numpy")
Array = Any


def sortable(x: Array) -> Array:
    """Returns the elements in a dtype that NumPy sorts: it misplaces NaNs of narrow floats."""
    if x.dtype.kind not in "fV":
        return x
    return x.astype(computing_dtype(dtype_name(x.dtype)), copy=False)


def stable_order(x: Array, descending: bool) -> Array:
    """Computes a stable argsort."""
    x = sortable(x)
    if not descending:
        return np.argsort(x, axis=-1, kind="stable")
    length = x.shape[-1]
    return length - 1 - np.flip(np.argsort(np.flip(x, -1), axis=-1, kind="stable"), -1)


def precedes(row: Array, k: int, j: int, descending: bool) -> bool:
    """Returns whether element `k` of a row precedes element `j` in sorted order."""
    a, b = row[k], row[j]
    if descending:
        before, after = a > b or (a != a and b == b), b > a or (b != b and a == a)
    else:
        before, after = a < b or (b != b and a == a), b < a or (a != a and b == b)
    return before or (not after and k < j)


def rank_of(row: Array, k: int, descending: bool) -> int:
    """Returns the rank of an element: the number of elements that precede it."""
    rank = 0
    for j in range(row.shape[0]):
        if precedes(row, j, k, descending):
            rank += 1
    return rank


@op("x[*p, [i], *t] -> y[*p, [i], *t]", at={"i": "axis"})
def sort(x: Array, axis: Axis = -1, descending: bool = False) -> Array:
    """Sorts along an axis."""
    if x.dtype.kind not in "fiub":
        return np.take_along_axis(x, stable_order(x, descending), -1)
    result = np.sort(x, axis=-1)
    result = np.flip(result, -1) if descending else result
    if x.dtype.kind == "f":  # NaNs, and zeros of both signs, compare equal and differ
        rows = ((x != x) | ((x == 0) & np.signbit(x))).any(-1)
        if rows.any():
            order = stable_order(x[rows], descending)
            result[rows] = np.take_along_axis(x[rows], order, -1)
    return result


@sort.kernel("cpu")
def _(x: Array, y: Array, descending: bool) -> None:
    keys, bits = sort_keys(x, descending)
    order = order_of_keys(keys, bits)
    for k in range(len(order)):
        y[k] = x[order[k]]


@sort.kernel("cuda")  # a thread allocates no buffer: each element computes its rank
def _(x: Array, y: Array, descending: bool) -> None:
    for k in range(x.shape[0]):
        y[rank_of(x, k, descending)] = x[k]


@sort.gradient
def _(call: Call, result: Expr, cotangent: Cotangent, emit: Emit) -> list[Cotangent]:
    """Computes the adjoint: scatters the cotangent to the original positions."""
    (x,) = call.args
    return [
        scatter_elements(
            zeros_like(x), argsort(x, **call.attrs), cotangent, call.attrs.get("axis", -1)
        )
    ]


@op("x[*p, [i], *t] -> y[*p, [i], *t] @ dtype", at={"i": "axis"})
def argsort(x: Array, axis: Axis = -1, descending: bool = False, dtype: DType = "int32") -> Array:
    """Computes the stable sort permutation along an axis."""
    return stable_order(x, descending).astype(dtype)


@argsort.kernel("cpu")
def _(x: Array, y: Array, descending: bool) -> None:
    keys, bits = sort_keys(x, descending)
    order = order_of_keys(keys, bits)
    for k in range(len(order)):
        y[k] = order[k]


@argsort.kernel("cuda")
def _(x: Array, y: Array, descending: bool) -> None:
    for k in range(x.shape[0]):
        y[rank_of(x, k, descending)] = k


def topk_signature(call: CallView) -> ResolvedSignature:
    """Returns the signature of the first `k` values, positions, or both; all for k <= 0."""
    rank, count = call.rank("x"), call["k"]
    sizes = call.dims("x")
    variable = "k0" if count > 0 else "i"
    if rank is not None and sizes is not None and count > 0:
        size = sizes[call.axis("axis", rank)]
        variable = "i" if isinstance(size, int) and count > size else variable
    results = {
        "values": f"values[*p, [{variable}], *t]",
        "indices": f"positions[*p, [{variable}], *t] @ dtype",
    }
    requested = [text for name, text in results.items() if call["ret_type"] in ("both", name)]
    signature = f"x[*p, [i], *t] -> {', '.join(requested)}"
    return ResolvedSignature(signature, "k0 == k, k0 <= i" if variable == "k0" else "")


@op(topk_signature, at={"i": "axis"}, reads_sizes=True)
def topk(
    x: Array,
    k: int = 1,
    axis: Axis = -1,
    ret_type: Literal["both", "values", "indices"] = "both",
    largest: bool = True,
    dtype: DType = "int32",
) -> Any:
    """Computes the `k` largest or smallest elements along an axis in order, and their positions."""
    order = stable_order(x, largest)[..., : k if k > 0 else None]
    values, positions = np.take_along_axis(x, order, -1), order.astype(dtype)
    return {"both": (values, positions), "values": values, "indices": positions}[ret_type]


@topk.as_written
def _(call: Call, values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Rejects a `k` above a size that is known only at run time; a static size limits `k`."""
    info: Any = call.args[0].struct_info
    axis, count = call.attrs.get("axis", -1), call.attrs.get("k", 1)
    if info.ndim is not None and count > np.shape(values[0])[axis]:
        sizes = known_dims(info)
        if sizes is None or not isinstance(sizes[axis], int):
            size = np.shape(values[0])[axis]
            raise ShapeMismatchError(
                f"topk: k: expected at most {size} (axis {axis} of x), found {count}"
            )
    return values


@topk.kernel("cpu")
def _(x: Array, values: Array | None, positions: Array | None, largest: bool) -> None:
    count = x.shape[0]
    if values is not None:
        count = values.shape[0]
    if positions is not None:
        count = positions.shape[0]
    order = first_of_order(x, count, largest)
    if values is not None:
        for k in range(values.shape[0]):
            values[k] = x[order[k]]
    if positions is not None:
        for k in range(positions.shape[0]):
            positions[k] = order[k]


@topk.kernel("cuda")
def _(x: Array, values: Array | None, positions: Array | None, largest: bool) -> None:
    count, last = x.shape[0], -1
    if values is not None:
        count = values.shape[0]
    if positions is not None:
        count = positions.shape[0]
    for rank in range(count):
        best = -1
        for k in range(x.shape[0]):
            is_remaining = last < 0 or precedes(x, last, k, largest)
            if is_remaining and (best < 0 or precedes(x, k, best, largest)):
                best = k
        if values is not None:
            values[rank] = x[best]
        if positions is not None:
            positions[rank] = best
        last = best


@topk.gradient
def _(call: Call, result: Expr, cotangent: Cotangent, emit: Emit) -> list[Cotangent]:
    """Computes the adjoint: scatters the cotangent to the selected elements."""
    (x,), both = call.args, call.attrs.get("ret_type", "both") == "both"
    if both:
        positions = component(result, 1, emit)
    else:
        positions = emit(topk(x, **{**call.attrs, "ret_type": "indices"}))
    values = component(cotangent, 0, emit)
    if values is None:
        return [None]
    return [scatter_elements(zeros_like(x), positions, values, call.attrs.get("axis", -1))]


NO_ELEMENT = "x: expected at least 1 element, found none"
DESCENDING = "boundaries: expected ascending numbers, found a decrease"
NO_ROW = "sample_indices: expected row indices of prob, found one out of range"


def median_signature(call: CallView) -> ResolvedSignature:
    """Returns the signature of a median; along one axis, also of its position."""
    signature = reduce_signature(call)
    result = signature.split("-> out")[1].split(" @")[0]
    rank, axis = call.rank("x"), call["axis"]
    single = isinstance(axis, int) or (axis is not None and len(axis) == 1)
    position = f", position{result} @ int64" if single else ""
    if rank is None or (axis is None and not call["keepdims"]):
        return ResolvedSignature(f"x[*s] -> value{result}{position}")
    axes = call.axes("axis", rank)
    read = [f"[{i}]" if k in axes else i for k, i in enumerate(index_vars(rank))]
    return ResolvedSignature(f"{access_text('x', read)} -> value{result}{position}")


@op(median_signature)
def median(x: Array, axis: Axes | None = None, keepdims: bool = False) -> Any:
    """Computes the lower median along one axis with its position, or over several axes.

    The median of no elements is NaN; integers, and a position, need an element.
    """
    return x


@median.reference
def _(x: Array, axis: Any = None, keepdims: bool = False) -> Any:
    axes = tuple(range(x.ndim)) if axis is None else (axis,) if isinstance(axis, int) else axis
    axes = tuple([a % x.ndim for a in axes])
    kept_axes = tuple([k for k in range(x.ndim) if k not in axes])
    shape = tuple([x.shape[k] for k in kept_axes])
    rows = np.transpose(x, (*kept_axes, *axes)).reshape(*shape, prod(x.shape[k] for k in axes))
    single = isinstance(axis, int) or (axis is not None and len(axis) == 1)
    if rows.shape[-1] == 0:
        is_nan = not single and is_float(dtype_name(x.dtype))
        if prod(shape) and not is_nan:
            raise ValueError(NO_ELEMENT)
        value = np.full(shape, np.nan if is_nan else 0, x.dtype)
        position = np.zeros(shape, "int64")
    else:
        order = stable_order(rows, descending=False)
        middle = order[..., (rows.shape[-1] - 1) // 2 : (rows.shape[-1] - 1) // 2 + 1]
        value, position = np.take_along_axis(rows, middle, -1)[..., 0], middle[..., 0]
    if keepdims:
        value, position = np.expand_dims(value, axes), np.expand_dims(position, axes)
    return (value, position.astype("int64")) if single else value


median.rejects_values(NO_ELEMENT)


@median.kernel("cpu")
def _(x: Array, value: Array, position: Array | None) -> None:
    elements = np.atleast_1d(np.asarray(x)).ravel()  # a scalar has no whole axis
    if elements.size == 0:
        if position is not None or value.dtype.type(0.5) != 0.5:  # of integers and booleans
            raise ValueError(NO_ELEMENT)
        value[...] = np.nan
        return
    middle = index_of_rank(elements, (len(elements) - 1) // 2)
    for index in np.ndindex(value.shape):
        value[index] = elements[middle]
    if position is not None:
        for index in np.ndindex(position.shape):
            position[index] = middle


@median.gradient
def _(call: Call, result: Expr, cotangent: Cotangent, emit: Emit) -> list[Cotangent]:
    """Computes the adjoint: divides the cotangent among the elements equal to the median."""
    (x,), axis = call.args, call.attrs.get("axis")
    value, gradient = component(result, 0, emit), component(cotangent, 0, emit)
    if gradient is None:
        return [None]
    if axis is not None and not call.attrs.get("keepdims", False):
        value, gradient = emit(expand_dims(value, axis)), emit(expand_dims(gradient, axis))
    is_median = emit(equal(x, value))
    count = sum_(astype(is_median, gradient.struct_info.dtype), axis, True)
    if axis is None:
        count = reshape(count, gradient.struct_info.dims)
    return [where(is_median, gradient / count, zeros_like(x))]


def bucketize_signature(call: CallView) -> ResolvedSignature:
    """Returns the signature in which each result reads all boundaries."""
    dtype, rank = "int32" if call["out_int32"] else "int64", call.rank("x")
    entries = ["*s"] if rank is None else [f"[{i}]" for i in index_vars(rank)]
    reads = f"{access_text('x', entries)} @ T1, boundaries[[m]] @ T2"
    return ResolvedSignature(f"{reads} -> {access_text('y', entries)} @ {dtype}")


@op(bucketize_signature)
def bucketize(x: Array, boundaries: Array, out_int32: bool = False, right: bool = False) -> Array:
    """Computes the bucket of each element: the number of sorted boundaries below it."""
    x, boundaries = sortable(x), sortable(boundaries)
    previous, following = boundaries[:-1], boundaries[1:]
    # As in a sorted array, NaN comes after every number.
    if np.any((following < previous) | ((previous != previous) & (following == following))):
        raise ShapeMismatchError(f"bucketize: {DESCENDING}")
    buckets = np.searchsorted(boundaries, x, "right" if right else "left")
    return buckets.astype("int32" if out_int32 else "int64")


bucketize.rejects_values(DESCENDING)


@bucketize.kernel("cpu")
def _(x: Array, boundaries: Array, y: Array, right: bool) -> None:
    for k in range(1, boundaries.shape[0]):
        previous, following = boundaries[k - 1], boundaries[k]
        if following < previous or (previous != previous and following == following):
            raise ValueError(DESCENDING)
    elements = np.asarray(x)
    for index in np.ndindex(elements.shape):
        element, low, high = elements[index], 0, boundaries.shape[0]
        while low < high:
            middle = (low + high) // 2
            edge = boundaries[middle]
            less = edge < element or (element != element and edge == edge)
            if less or (right and (edge == element or element != element)):
                low = middle + 1
            else:
                high = middle
        y[index] = low


@op("prob[[r], [v]] @ F, uniform_sample[n, 1] @ F2, sample_indices[n, 1] @ I -> out[n, 1] @ dtype")
def multinomial_from_uniform(
    prob: Array, uniform_sample: Array, sample_indices: Array, dtype: DType = "int64"
) -> Array:
    """Samples a class from rows of probabilities, by uniform random numbers."""
    return prob


@multinomial_from_uniform.reference
def _(prob: Array, uniform: Array, rows: Array, dtype: str = "int64") -> Array:
    if np.any((rows < 0) | (rows >= len(prob))):
        raise IndexError(NO_ROW)
    edges = np.cumsum(prob.astype("float64"), axis=-1)[rows[:, 0]]
    classes = np.sum(edges < uniform * edges[:, -1:], axis=-1, keepdims=True)
    return np.minimum(classes, prob.shape[-1] - 1).astype(dtype)


multinomial_from_uniform.rejects_values(NO_ROW)


@multinomial_from_uniform.kernel("cpu")
def _(prob: Array, uniform_sample: float, sample_indices: int, out: Array) -> None:
    if not 0 <= sample_indices < prob.shape[0]:
        raise IndexError(NO_ROW)
    row = prob[sample_indices]
    total = 0.0
    for weight in row:
        total += np.float64(weight)
    threshold, edge, sampled = uniform_sample * total, 0.0, 0
    for weight in row:
        edge += np.float64(weight)
        if edge < threshold:
            sampled += 1
    out[0] = min(sampled, row.shape[0] - 1)


sort.example(f32[3, 7], descending=True)
topk.example(f32[3, 7], k=2)
argsort.example(f32[3, 7])
median.example(f32[3, 5], axis=1)
bucketize.example(f32[3], ExactValues("float32", (-1.0, 0.5, 2.0)))
multinomial_from_uniform.example(
    Sample("float32", (2, 4), fractions=True),
    Sample("float32", (3, 1), fractions=True),
    i64[3, 1].below(2),
)
