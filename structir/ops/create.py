"""Ops that create tensors: constants, ranges, and masks by position."""

from __future__ import annotations

import math
from typing import Annotated, Any

from structir.ir.dims import Dim, Poly, at_least, compare, dim_max, floordiv
from structir.ir.expr import Expr, PrimValue
from structir.opdef.attributes import (
    SIZE,
    AttributeKind,
    DType,
    InvalidAttribute,
    Number,
    Scalar,
    Size,
    Sizes,
)
from structir.opdef.call_view import CallView, ResolvedSignature
from structir.opdef.define import op
from structir.opdef.examples import f32, i64
from structir.opdef.shape_eval import UNKNOWN
from structir.projections import scalar_expr
from structir.projections.scalar_expr import LoopIndex, ScalarExpr, select


@op("-> out[*shape] @ dtype")
def zeros(shape: Sizes, dtype: DType) -> ScalarExpr:
    """Creates a tensor of zeros."""
    return scalar_expr.as_scalar_expr(0)


@op("-> out[*shape] @ dtype")
def ones(shape: Sizes, dtype: DType) -> ScalarExpr:
    """Creates a tensor of ones."""
    return scalar_expr.as_scalar_expr(1)


@op("fill_value[] -> out[*shape] @ dtype or T")
def full(shape: Sizes, fill_value: ScalarExpr, dtype: DType | None = None) -> ScalarExpr:
    """Creates a tensor of one value."""
    return fill_value


@op("x[*s] -> out[*s] @ dtype or T")
def zeros_like(x: ScalarExpr, dtype: DType | None = None) -> ScalarExpr:
    """Creates zeros in the shape and dtype of a tensor."""
    return scalar_expr.as_scalar_expr(0)


@op("x[*s] -> out[*s] @ dtype or T")
def ones_like(x: ScalarExpr, dtype: DType | None = None) -> ScalarExpr:
    """Creates ones in the shape and dtype of a tensor."""
    return scalar_expr.as_scalar_expr(1)


@op("x[*s], fill_value[] @ T1 -> out[*s] @ dtype or T")
def full_like(x: ScalarExpr, fill_value: ScalarExpr, dtype: DType | None = None) -> ScalarExpr:
    """Creates a tensor of one value in the shape of another."""
    return fill_value


def diagonal_ones(given: CallView) -> ResolvedSignature:
    """Returns the signature of `n` rows and `m` columns, by default `n`."""
    return ResolvedSignature(
        "-> out[i, j] @ dtype", f"i == n, j == {'n' if given['m'] is None else 'm'}"
    )


@op(diagonal_ones)
def eye(
    n: Size,
    m: Size | None = None,
    k: Size = 0,
    dtype: DType = "float32",
    *,
    i: LoopIndex,
    j: LoopIndex,
) -> ScalarExpr:
    """Creates a matrix with ones on the k-th diagonal and zeros elsewhere."""
    return select(scalar_expr.eq(j, i + k), 1, 0)


@op("x[i, j] -> out[i, j] @ dtype or T")
def eye_like(
    x: ScalarExpr, k: Size = 0, dtype: DType | None = None, *, i: LoopIndex, j: LoopIndex
) -> ScalarExpr:
    """Creates a matrix with ones on the k-th diagonal, in the shape of another matrix."""
    return select(scalar_expr.eq(j, i + k), 1, 0)


def ranged(given: CallView) -> ResolvedSignature:
    """Returns the signature with the number of steps and the inferred dtype."""
    start, end, step = given["start"], given["end"], given["step"]
    if end is None:
        start, end = 0, start
    if step == 0:
        given.reject("step: expected a nonzero number, found 0")
    parts = (start, end, step)
    whole = all(isinstance(part, int | Poly) for part in parts)
    floating = any(isinstance(part, float) for part in parts)
    if floating and any(isinstance(part, Poly) for part in parts):
        given.reject("expected integers beside symbolic sizes, found a fraction")
    dtype = given["dtype"] or ("float32" if floating else "int64")
    attributes = {"start": start, "dtype": dtype, "count": _steps(start, end, step, whole)}
    if UNKNOWN in (start, end, step):
        return ResolvedSignature("-> out[_] @ dtype", "", "", attributes)
    attributes["step_is_0"] = none = compare("eq", step, 0) if isinstance(step, Poly) else 0
    where = "i == count" if none == 0 else "i == count, step_is_0 == 0"
    return ResolvedSignature("-> out[i] @ dtype", where, "", attributes)


def _steps(start: Dim, end: Dim, step: Dim, whole: bool) -> Dim:
    if UNKNOWN in (start, end, step):
        return 0
    if not whole:
        return max(math.ceil((end - start) / step), 0)  # type: ignore[operator]
    if step == 1:
        count = end - start
    elif at_least(step, 0) is True:
        count = floordiv(end - start + step - 1, step)
    else:  # rounded up, whatever the sign
        count = -floordiv(start - end, step)
    return max(count, 0) if isinstance(count, int) else _no_less_than_zero(count)


def _no_less_than_zero(count: Dim) -> Dim:
    return dim_max(count, 0)


@op(ranged)
def arange(
    start: Scalar,
    end: Scalar | None = None,
    step: Scalar = 1,
    dtype: DType | None = None,
    *,
    i: LoopIndex,
) -> ScalarExpr:
    """Creates the numbers from `start` (default 0) up to but excluding `end`, by `step`."""
    return scalar_expr.as_scalar_expr(start + i * step)


@op("-> out[i] @ dtype", where="i == window_size")
def hamming_window(
    window_size: Size,
    periodic: bool = True,
    alpha: Number = 0.54,
    beta: Number = 0.46,
    dtype: DType = "float32",
    *,
    i: LoopIndex,
) -> ScalarExpr:
    """Creates the Hamming window alpha - beta * cos(2 pi i / n), n - 1 if not periodic."""
    length = scalar_expr.cast(i * 0 + window_size - (0 if periodic else 1), dtype)
    turn = scalar_expr.cast(i, dtype) * (2 * math.pi) / scalar_expr.max(length, 1)
    return alpha - beta * scalar_expr.cos(turn)


@op("x[*s, i, j] -> y[*s, i, j]")
def tril(x: ScalarExpr, k: Size = 0, *, i: LoopIndex, j: LoopIndex) -> ScalarExpr:
    """Keeps the elements on and below the k-th diagonal, and sets others to 0."""
    return select(j <= i + k, x, 0)


@op("x[*s, i, j] -> y[*s, i, j]")
def triu(x: ScalarExpr, k: Size = 0, *, i: LoopIndex, j: LoopIndex) -> ScalarExpr:
    """Keeps the elements on and above the k-th diagonal, and sets others to 0."""
    return select(j >= i + k, x, 0)


def _positive(value: Any) -> Expr:
    """Returns whether a size is not literally 0; a size that is 0 at run time is allowed."""
    found: Expr = SIZE.normalize(value)
    if isinstance(found, PrimValue) and isinstance(found.value, int) and found.value < 1:
        raise InvalidAttribute
    return found


Depth = Annotated[Dim, AttributeKind("a positive size", _positive, True)]


def spread(given: CallView) -> ResolvedSignature:
    """Returns the signature with a new axis of size `depth`; values determine the dtype."""
    rank, depth = given.rank("indices"), given["depth"]
    if isinstance(depth, int) and depth < 0:
        given.reject(f"depth: expected a positive number, found {depth}")
    floating = any(isinstance(given[name], float) for name in ("on_value", "off_value"))
    attributes = {"dtype": "float64" if floating else "int64"}
    if rank is None:
        return ResolvedSignature("indices[*s] @ J -> out[*u] @ dtype", "", "", attributes)
    axis = given.axis("axis", rank + 1)
    own = [f"i{k}" for k in range(rank)]
    out = [*own[:axis], "d", *own[axis:]]
    line = f"indices[{', '.join(own)}] @ J -> out[{', '.join(out)}] @ dtype"
    return ResolvedSignature(line, "d == depth", "", attributes)


@op(spread)
def one_hot(
    indices: ScalarExpr,
    on_value: Number,
    off_value: Number,
    depth: Depth,
    axis: int = -1,
    *,
    d: LoopIndex,
) -> ScalarExpr:
    """Creates `on_value` where the position on a new axis equals the index, else `off_value`."""
    return select(scalar_expr.eq(indices, d), on_value, off_value)


arange.example(2, 10, 3)
eye.example(3, 4, 1)
one_hot.example(i64[2, 3].below(4), 1.0, 0.0, 4)
full.example((2, 3), 0.5)
tril.example(f32[3, 4], 1)
hamming_window.example(6)
zeros.example((2, 3), "float32")
ones.example((2, 3), "float32")
