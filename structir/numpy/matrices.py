"""Products of matrices and vectors, grids, polynomials of least squares, and other functions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from structir.errors import Diagnostic, DiagnosticError
from structir.lazy import lazy_module
from structir.numpy import contraction, creation, elementwise, linalg, reals, reductions, shaping
from structir.numpy.sorting import array_equal, searchsorted
from structir.tracing import dtypes
from structir.tracing.array import TracedArray, cast, operand
from structir.tracing.context import traced, user_code

np = lazy_module("numpy")


@traced
def matvec(x1: Any, x2: Any, /) -> TracedArray:
    """Returns the products of matrices (..., m, n) and vectors (..., n)."""
    return contraction.matmul(x1, shaping.expand_dims(x2, -1))[..., 0]


@traced
def vecmat(x1: Any, x2: Any, /) -> TracedArray:
    """Returns the products of vectors (..., m) and matrices (..., m, n)."""
    return contraction.matmul(shaping.expand_dims(x1, -2), x2)[..., 0, :]


@traced
def array_equiv(a1: Any, a2: Any) -> TracedArray:
    """Returns whether two arrays broadcast to one shape and are equal then."""
    first, second = operand(a1), operand(a2)
    try:
        first, second = shaping.broadcast_arrays(first, second)
    except DiagnosticError:
        return operand(False)
    return array_equal(first, second)


@traced
def cumulative_prod(
    x: Any, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> TracedArray:
    """Returns the products of the first elements along an axis, with 1 in front if
    `include_initial`. Raises DiagnosticError without an axis of an array of several."""
    array = operand(x)
    if axis is None and array.ndim != 1:
        message = f"cumulative_prod: axis: expected an axis of {array.ndim} axes, found None"
        raise DiagnosticError(Diagnostic(message, hint="pass `axis=0`", code="E1107"))
    position = shaping.axis_of(axis or 0, array.ndim)
    result = reductions.cumprod(array, position, dtype)
    if not include_initial:
        return result
    sizes = [1 if k == position else s for k, s in enumerate(result.shape)]
    return shaping.concatenate([creation.ones(sizes, result.dtype_name), result], position)


@traced
def unwrap(p: Any, discont: Any = None, axis: int = -1, period: float = 2 * math.pi) -> TracedArray:
    """Returns angles with steps of more than half a period replaced by shorter ones."""
    array = elementwise.real(p)
    position = shaping.axis_of(axis, array.ndim)
    moved = shaping.moveaxis(array, position, 0)
    steps, half = moved[1:] - moved[:-1], period / 2
    wrapped = elementwise.remainder(steps + half, period) - half
    wrapped = elementwise.where((wrapped == -half) & (steps > 0), half, wrapped)
    least = half if discont is None else elementwise.maximum(discont, half)
    correction = elementwise.where(elementwise.abs(steps) < least, 0.0, wrapped - steps)
    moved = shaping.concatenate([moved[:1], moved[1:] + reductions.cumsum(correction, 0)], 0)
    return shaping.moveaxis(moved, 0, position)


@traced
def resize(a: Any, new_shape: Any) -> TracedArray:
    """Returns the elements, repeated in turn, in another shape."""
    array = shaping.ravel(a)
    sizes = tuple(new_shape) if isinstance(new_shape, tuple | list) else (new_shape,)
    total: Any = 1
    for size in sizes:
        total = size * total
    places = creation.arange(total) % array.shape[0]
    return shaping.reshape(array[places], sizes)


@traced
def fromfunction(
    function: Callable[..., Any], shape: Any, *, dtype: Any = float, **keywords: Any
) -> Any:
    """Returns the result of a function of the positions along each axis of a shape."""
    grids = [creation.arange(size, dtype=dtype) for size in shape]
    positions = creation.meshgrid(*grids, indexing="ij")
    with user_code():
        return function(*positions, **keywords)


@traced
def polyfit(x: Any, y: Any, deg: int, rcond: Any = None, w: Any = None) -> TracedArray:
    """Returns the coefficients, highest power first, of the polynomial of least squares."""
    (points, values), _ = elementwise.real_operands(x, y)
    columns = contraction.vander(points, deg + 1)
    if w is not None:
        weights = cast(operand(w), points.dtype_name)
        columns = columns * weights[:, None]
        values = values * (weights[:, None] if values.ndim == 2 else weights)
    scale = reals.sqrt(reductions.sum(columns * columns, 0))
    solution = linalg.lstsq(columns / scale, values)[0]
    return solution / (scale[:, None] if values.ndim == 2 else scale)


@traced
def polydiv(u: Any, v: Any) -> tuple[TracedArray, TracedArray]:
    """Returns quotient and remainder of polynomials of known degrees, highest power first; the
    remainder has as many coefficients as the first one."""
    (upper, lower), _ = elementwise.real_operands(u, v)
    count, width = int(upper.shape[0]), int(lower.shape[0])
    rest, quotient = upper, []
    for k in range(count - width + 1):
        factor = rest[k] / lower[0]
        quotient.append(factor)
        before, after = (creation.zeros(size, rest.dtype_name) for size in (k, count - width - k))
        rest = rest - shaping.concatenate([before, lower * factor, after], 0)
    return shaping.stack(quotient), rest


@traced
def poly(seq_of_zeros: Any) -> TracedArray:
    """Returns the coefficients, highest power first, of the polynomial with these zeros."""
    zeros = elementwise.real(seq_of_zeros)
    result = creation.ones(1, zeros.dtype_name)
    zero = creation.zeros(1, zeros.dtype_name)
    for k in range(int(zeros.shape[0])):
        shifted = shaping.concatenate([zero, result], 0)
        result = shaping.concatenate([result, zero], 0) - shifted * zeros[k]
    return result


@traced
def histogramdd(
    sample: Any, bins: Any = 10, range: Any = None, weights: Any = None, density: bool = False
) -> tuple[TracedArray, list[TracedArray]]:
    """Returns the numbers of points (n, d), or sums of weights, in boxes, and the edges along each
    axis. `bins` are numbers of intervals or arrays of edges; edges of numbers are float32."""
    points = elementwise.real(sample)
    rank = int(points.shape[1])
    listed = list(bins) if isinstance(bins, tuple | list) else [bins] * rank
    limits = [None] * rank if range is None else list(range)
    edges = [
        _edges(points[:, k], size, limit)
        for k, (size, limit) in enumerate(zip(listed, limits, strict=True))
    ]
    flat: Any = creation.zeros((points.shape[0],), "int32")
    is_inside: Any = creation.ones((points.shape[0],), bool)
    sizes = [int(edge.shape[0]) - 1 for edge in edges]
    for k, (edge, size) in enumerate(zip(edges, sizes, strict=True)):
        values = points[:, k]
        place = searchsorted(edge, values, side="right") - 1
        place = elementwise.where(values == edge[-1], size - 1, place)
        is_inside = is_inside & (place >= 0) & (place < size)
        flat = flat * size + elementwise.clip(place, 0, size - 1)
    shares = creation.ones_like(points[:, 0]) if weights is None else operand(weights)
    total = creation.zeros((math.prod(sizes),), shares.dtype_name)
    counts = total.at[flat].add(elementwise.where(is_inside, shares, 0))
    counts = shaping.reshape(counts, tuple(sizes))
    if weights is None and not density:
        counts = cast(counts, "int32")
    if density:
        counts = counts / reductions.sum(counts)
        for k, edge in enumerate(edges):
            aligned = [-1 if axis == k else 1 for axis in _axes(rank)]
            counts = counts / shaping.reshape(edge[1:] - edge[:-1], aligned)
    return counts, edges


def _axes(rank: int) -> list[int]:
    return list(range(rank))


def _edges(values: TracedArray, bins: Any, limits: Any) -> TracedArray:
    if not isinstance(bins, int):
        return cast(operand(bins), values.dtype_name)
    low, high = (reductions.min(values), reductions.max(values)) if limits is None else limits
    low, high = (cast(operand(x), values.dtype_name) for x in (low, high))
    is_point = low == high
    low, high = (elementwise.where(is_point, x + s, x) for x, s in ((low, -0.5), (high, 0.5)))
    return creation.linspace(low, high, bins + 1)


@traced
def histogram2d(
    x: Any,
    y: Any,
    bins: Any = 10,
    range: Any = None,
    weights: Any = None,
    density: bool = False,
) -> tuple[TracedArray, TracedArray, TracedArray]:
    """Returns the numbers of points in rectangles, and the edges along both axes."""
    counts, edges = histogramdd(shaping.stack([x, y], -1), bins, range, weights, density)
    return counts, edges[0], edges[1]


@traced
def mask_indices(n: int, mask_func: Callable[..., Any], k: int = 0) -> tuple[TracedArray, ...]:
    """Returns the positions that `tril` or `triu` keeps of a matrix of n rows and columns."""
    name = getattr(mask_func, "__name__", "")
    if name not in ("tril", "triu"):
        message = f"mask_indices: mask_func: expected tril or triu, found {name or mask_func!r}"
        raise DiagnosticError(Diagnostic(message, code="E1107"))
    rows, columns = np.nonzero(getattr(np, name)(np.ones((n, n)), k))
    return operand(rows.astype("int32")), operand(columns.astype("int32"))


@traced
def real(val: Any, /) -> TracedArray:
    """Returns the array: its elements are real."""
    return operand(val)


@traced
def imag(val: Any, /) -> TracedArray:
    """Returns zeros: the elements are real."""
    return creation.zeros_like(operand(val))


@traced
def conjugate(x: Any, /) -> TracedArray:
    """Returns the array: its elements are real."""
    return operand(x)


@traced
def angle(z: Any, deg: bool = False) -> TracedArray:
    """Returns the angles of elements: pi, or 180 degrees, where they are negative."""
    array = elementwise.real(z)
    half = 180.0 if deg else math.pi
    result = elementwise.where(array < 0, half, 0.0)
    is_undefined = elementwise.isnan(array)
    return cast(elementwise.where(is_undefined, array, result), array.dtype_name)


@traced
def iscomplex(x: Any) -> TracedArray:
    """Returns False for each element: there are no complex arrays."""
    return creation.zeros_like(operand(x), "bool")


@traced
def iscomplexobj(x: Any) -> bool:
    """Whether an array is complex: never."""
    return False


@traced
def isrealobj(x: Any) -> bool:
    """Whether an array is real: always."""
    return True


@traced
def isdtype(dtype: Any, kind: Any) -> bool:
    """Whether a dtype is of a kind of the array API, or of one of a tuple: bool, signed integer,
    unsigned integer, integral, real floating, numeric, or a dtype."""
    name = np.dtype(dtype).name
    category = dtypes.category(name)
    is_unsigned = name.startswith("u")
    kinds = {
        "bool": category == dtypes.BOOL,
        "signed integer": category == dtypes.INTEGER and not is_unsigned,
        "unsigned integer": category == dtypes.INTEGER and is_unsigned,
        "integral": category == dtypes.INTEGER,
        "real floating": category == dtypes.FLOAT,
        "complex floating": False,
        "numeric": category != dtypes.BOOL,
    }
    listed = kind if isinstance(kind, tuple) else (kind,)
    return any([kinds[k] if k in kinds else np.dtype(k).name == name for k in listed])
