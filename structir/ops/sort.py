"""Sorting and selection along an axis."""

from __future__ import annotations

from math import prod
from typing import Any, Literal

from structir.errors import ShapeMismatchError
from structir.ir.expr import Call, Expr
from structir.lazy import lazy_module
from structir.opdef.adjoint_op import Cotangent, Emit, component
from structir.opdef.attributes import Axes, Axis, DType
from structir.opdef.call_view import CallView, ResolvedSignature, known_dims
from structir.opdef.define import op
from structir.opdef.examples import ExactValues, Sample, f32, i64
from structir.opdef.index_vars import access_text, index_vars
from structir.ops.broadcast import equal, where
from structir.ops.create import zeros_like
from structir.ops.elementwise import astype
from structir.ops.layout import expand_dims
from structir.ops.reduce import reduced, sum_
from structir.ops.reshape import reshape
from structir.ops.scatter import scatter_elements

np = lazy_module("numpy")
Array = Any
FEW = 64  # elements that are found by passing all others by them


def ordered(x: Array, descending: bool) -> Array:
    """Computes a stable argsort."""
    if not descending:
        return np.argsort(x, axis=-1, kind="stable")
    length = x.shape[-1]
    return length - 1 - np.flip(np.argsort(np.flip(x, -1), axis=-1, kind="stable"), -1)


def merged_order(row: Array, descending: bool) -> Array:
    """Computes a stable argsort of a row by merging runs; NaN sorts last."""
    count = row.shape[0]
    order, other = np.empty(count, np.int64), np.empty(count, np.int64)
    for k in range(count):
        order[k] = k
    width = 1
    while width < count:
        for start in range(0, count, 2 * width):
            middle, end = min(start + width, count), min(start + 2 * width, count)
            left, right = start, middle
            for place in range(start, end):
                first = right >= end
                if left < middle and not first:
                    a, b = row[order[left]], row[order[right]]
                    if descending:
                        first = not (a < b or (b != b and a == a))
                    else:
                        first = not (b < a or (a != a and b == b))
                if first:
                    other[place] = order[left]
                    left += 1
                else:
                    other[place] = order[right]
                    right += 1
        order, other = other, order
        width *= 2
    return order


def first_order(row: Array, wanted: int, descending: bool) -> Array:
    """Computes the positions of the first k elements, with a bounded selection."""
    if wanted > FEW or 4 * wanted > row.shape[0]:
        return merged_order(row, descending)
    order, held = np.empty(wanted, np.int64), 0
    for place in range(row.shape[0]):
        a, k = row[place], held
        while k > 0:
            b = row[order[k - 1]]
            before = a < b or (b != b and a == a)
            if descending:
                before = a > b or (a != a and b == b)
            if not before:
                break
            if k < wanted:
                order[k] = order[k - 1]
            k -= 1
        if k < wanted:
            order[k] = place
            held = min(held + 1, wanted)
    return order


def stands_before(row: Array, one: int, other: int, descending: bool) -> bool:
    """Returns whether one element of a row precedes another in order."""
    a, b = row[one], row[other]
    if descending:
        before, after = a > b or (a != a and b == b), b > a or (b != b and a == a)
    else:
        before, after = a < b or (b != b and a == a), b < a or (a != a and b == b)
    return before or (not after and one < other)


def place_of(row: Array, one: int, descending: bool) -> int:
    """Returns the rank of an element: the number of elements that precede it."""
    place = 0
    for other in range(row.shape[0]):
        if stands_before(row, other, one, descending):
            place += 1
    return place


@op("x[*p, [i], *t] -> y[*p, [i], *t]", at={"i": "axis"})
def sort(x: Array, axis: Axis = -1, descending: bool = False) -> Array:
    """Sorts along an axis."""
    return np.take_along_axis(x, ordered(x, descending), -1)


@sort.kernel("cpu")
def _(x: Array, y: Array, descending: bool) -> None:
    order = merged_order(x, descending)
    for k in range(len(order)):
        y[k] = x[order[k]]


@sort.kernel("cuda")  # without memory of its own
def _(x: Array, y: Array, descending: bool) -> None:
    for k in range(x.shape[0]):
        y[place_of(x, k, descending)] = x[k]


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
    return ordered(x, descending).astype(dtype)


@argsort.kernel("cpu")
def _(x: Array, y: Array, descending: bool) -> None:
    order = merged_order(x, descending)
    for k in range(len(order)):
        y[k] = order[k]


@argsort.kernel("cuda")
def _(x: Array, y: Array, descending: bool) -> None:
    for k in range(x.shape[0]):
        y[place_of(x, k, descending)] = k


def chosen(given: CallView) -> ResolvedSignature:
    """Returns the signature of the first `k` values, positions, or both; all for k <= 0."""
    rank, count = given.rank("x"), given["k"]
    sizes = given.dims("x")
    letter = "k0" if count > 0 else "i"
    if rank is not None and sizes is not None and count > 0:
        size = sizes[given.axis("axis", rank)]
        letter = "i" if isinstance(size, int) and count > size else letter
    results = {
        "values": f"values[*p, [{letter}], *t]",
        "indices": f"positions[*p, [{letter}], *t] @ dtype",
    }
    wanted = [text for name, text in results.items() if given["ret_type"] in ("both", name)]
    line = f"x[*p, [i], *t] -> {', '.join(wanted)}"
    return ResolvedSignature(line, "k0 == k, k0 <= i" if letter == "k0" else "")


@op(chosen, at={"i": "axis"}, reads_sizes=True)
def topk(
    x: Array,
    k: int = 1,
    axis: Axis = -1,
    ret_type: Literal["both", "values", "indices"] = "both",
    largest: bool = True,
    dtype: DType = "int32",
) -> Any:
    """Computes the `k` largest or smallest elements along an axis in order, and their positions."""
    order = ordered(x, largest)[..., : k if k > 0 else None]
    values, positions = np.take_along_axis(x, order, -1), order.astype(dtype)
    return {"both": (values, positions), "values": values, "indices": positions}[ret_type]


@topk.as_written
def _(call: Call, values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Declares that fewer elements than `k` are allowed only where their number is static."""
    info: Any = call.args[0].struct_info
    axis, count = call.attrs.get("axis", -1), call.attrs.get("k", 1)
    if info.ndim is not None and count > np.shape(values[0])[axis]:
        sizes = known_dims(info)
        if sizes is None or not isinstance(sizes[axis], int):
            size = np.shape(values[0])[axis]
            raise ShapeMismatchError(f"topk: k is {count}, but axis {axis} has size {size}")
    return values


@topk.kernel("cpu")
def _(x: Array, values: Array | None, positions: Array | None, largest: bool) -> None:
    wanted = x.shape[0]
    if values is not None:
        wanted = values.shape[0]
    if positions is not None:
        wanted = positions.shape[0]
    order = first_order(x, wanted, largest)
    if values is not None:
        for k in range(values.shape[0]):
            values[k] = x[order[k]]
    if positions is not None:
        for k in range(positions.shape[0]):
            positions[k] = order[k]


@topk.kernel("cuda")
def _(x: Array, values: Array | None, positions: Array | None, largest: bool) -> None:
    wanted, last = x.shape[0], -1
    if values is not None:
        wanted = values.shape[0]
    if positions is not None:
        wanted = positions.shape[0]
    for place in range(wanted):
        first = -1
        for k in range(x.shape[0]):
            left = last < 0 or stands_before(x, last, k, largest)
            if left and (first < 0 or stands_before(x, k, first, largest)):
                first = k
        if values is not None:
            values[place] = x[first]
        if positions is not None:
            positions[place] = first
        last = first


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


def halved(given: CallView) -> ResolvedSignature:
    """Returns the signature of a median; along one axis, also of its position."""
    made = reduced(given)
    result = made.split("-> out")[1].split(" @")[0]
    rank, axis = given.rank("x"), given["axis"]
    single = isinstance(axis, int) or (axis is not None and len(axis) == 1)
    position = f", position{result} @ int64" if single else ""
    if rank is None or (axis is None and not given["keepdims"]):
        return ResolvedSignature(f"x[*s] -> value{result}{position}")
    axes = given.axes("axis", rank)
    read = [f"[{i}]" if k in axes else i for k, i in enumerate(index_vars(rank))]
    return ResolvedSignature(f"{access_text('x', read)} -> value{result}{position}")


@op(halved)
def median(x: Array, axis: Axes | None = None, keepdims: bool = False) -> Any:
    """Computes the lower median along one axis with its position, or over several axes."""
    return x


@median.reference
def _(x: Array, axis: Any = None, keepdims: bool = False) -> Any:
    axes = tuple(range(x.ndim)) if axis is None else (axis,) if isinstance(axis, int) else axis
    axes = tuple([a % x.ndim for a in axes])
    rest = tuple([k for k in range(x.ndim) if k not in axes])
    shape = tuple([x.shape[k] for k in rest])
    rows = np.transpose(x, (*rest, *axes)).reshape(*shape, prod(x.shape[k] for k in axes))
    order = np.argsort(rows, axis=-1, kind="stable")
    place = order[..., (rows.shape[-1] - 1) // 2 : (rows.shape[-1] - 1) // 2 + 1]
    value, position = np.take_along_axis(rows, place, -1)[..., 0], place[..., 0]
    if keepdims:
        value, position = np.expand_dims(value, axes), np.expand_dims(position, axes)
    single = isinstance(axis, int) or (axis is not None and len(axis) == 1)
    return (value, position.astype("int64")) if single else value


@median.kernel("cpu")
def _(x: Array, value: Array, position: Array | None) -> None:
    elements = np.atleast_1d(np.asarray(x)).ravel()  # of a scalar too, where no axis is seen whole
    if elements.size == 0:
        raise ValueError("no element is the middle one of none")
    row = elements.copy()
    place = merged_order(row, False)[(len(row) - 1) // 2]
    for at in np.ndindex(value.shape):
        value[at] = row[place]
    if position is not None:
        for at in np.ndindex(position.shape):
            position[at] = place


@median.gradient
def _(call: Call, result: Expr, cotangent: Cotangent, emit: Emit) -> list[Cotangent]:
    """Computes the adjoint: divides the cotangent among the elements equal to the median."""
    (x,), axis = call.args, call.attrs.get("axis")
    value, own = component(result, 0, emit), component(cotangent, 0, emit)
    if own is None:
        return [None]
    if axis is not None and not call.attrs.get("keepdims", False):
        value, own = emit(expand_dims(value, axis)), emit(expand_dims(own, axis))
    hit = emit(equal(x, value))
    count = sum_(astype(hit, own.struct_info.dtype), axis, True)
    if axis is None:
        count = reshape(count, own.struct_info.dims)
    return [where(hit, own / count, zeros_like(x))]


def bucketed(given: CallView) -> ResolvedSignature:
    """Returns the signature in which each result reads all boundaries."""
    dtype, rank = "int32" if given["out_int32"] else "int64", given.rank("x")
    own = ["*s"] if rank is None else [f"[{i}]" for i in index_vars(rank)]
    reads = f"{access_text('x', own)} @ T1, boundaries[[m]] @ T2"
    return ResolvedSignature(f"{reads} -> {access_text('y', own)} @ {dtype}")


@op(bucketed)
def bucketize(x: Array, boundaries: Array, out_int32: bool = False, right: bool = False) -> Array:
    """Computes the bucket of each element: the number of sorted boundaries below it."""
    if np.any(boundaries[1:] < boundaries[:-1]):
        raise ShapeMismatchError("bucketize: the boundaries are not in order")
    found = np.searchsorted(boundaries, x, "right" if right else "left")
    return found.astype("int32" if out_int32 else "int64")


@bucketize.kernel("cpu")
def _(x: Array, boundaries: Array, y: Array, right: bool) -> None:
    for k in range(1, boundaries.shape[0]):
        if boundaries[k] < boundaries[k - 1]:
            raise ValueError("the boundaries are not in order")
    elements = np.asarray(x)
    for at in np.ndindex(elements.shape):
        element, low, high = elements[at], 0, boundaries.shape[0]
        while low < high:
            middle = (low + high) // 2
            edge = boundaries[middle]
            less = edge < element or (element != element and edge == edge)
            if less or (right and (edge == element or element != element)):
                low = middle + 1
            else:
                high = middle
        y[at] = low


@op("prob[[r], [v]] @ F, uniform_sample[n, 1] @ F2, sample_indices[n, 1] @ I -> out[n, 1] @ dtype")
def multinomial_from_uniform(
    prob: Array, uniform_sample: Array, sample_indices: Array, dtype: DType = "int64"
) -> Array:
    """Samples a class from each probability row, given uniform numbers."""
    return prob


@multinomial_from_uniform.reference
def _(prob: Array, uniform: Array, rows: Array, dtype: str = "int64") -> Array:
    if np.any((rows < 0) | (rows >= len(prob))):
        raise IndexError("there is no such row")
    edges = np.cumsum(prob.astype("float64"), axis=-1)[rows[:, 0]]
    found = np.sum(edges < uniform * edges[:, -1:], axis=-1, keepdims=True)
    return np.minimum(found, prob.shape[-1] - 1).astype(dtype)


@multinomial_from_uniform.kernel("cpu")
def _(prob: Array, uniform_sample: float, sample_indices: int, out: Array) -> None:
    if not 0 <= sample_indices < prob.shape[0]:
        raise IndexError("there is no such row")
    row = prob[sample_indices]
    total = 0.0
    for weight in row:
        total += np.float64(weight)
    threshold, edge, found = uniform_sample * total, 0.0, 0
    for weight in row:
        edge += np.float64(weight)
        if edge < threshold:
            found += 1
    out[0] = min(found, row.shape[0] - 1)


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
