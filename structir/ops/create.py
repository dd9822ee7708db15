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


def _constant_like_signature(call: CallView) -> str:
    """Returns the signature for a float, which only a floating-point dtype has, or an integer."""
    family = "F" if isinstance(call["value"], float) else "T"
    return f"x[*s] @ {family} -> out[] @ {family}"


@op(_constant_like_signature)
def constant_like(x: ScalarExpr, *, value: Number) -> ScalarExpr:
    """Creates a scalar in the dtype of a tensor, of which only the dtype is used."""
    return scalar_expr.as_scalar_expr(value)


constant_like.example(f32[2, 3], value=0.5)


def eye_signature(call: CallView) -> ResolvedSignature:
    """Returns the signature of `n` rows and `m` columns, by default `n`."""
    return ResolvedSignature(
        "-> out[i, j] @ dtype", f"i == n, j == {'n' if call['m'] is None else 'm'}"
    )


@op(eye_signature)
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


def arange_signature(call: CallView) -> ResolvedSignature:
    """Returns the signature with the number of steps and the inferred dtype."""
    start, end, step = call["start"], call["end"], call["step"]
    if end is None:
        start, end = 0, start
    if step == 0:
        call.reject("step: expected a nonzero number, found 0", "write another step: `step=1`")
    bounds = (start, end, step)
    integral = all(isinstance(bound, int | Poly) for bound in bounds)
    floating = any(isinstance(bound, float) for bound in bounds)
    if floating and any(isinstance(bound, Poly) for bound in bounds):
        call.reject("expected integer bounds and steps with symbolic sizes, found a float")
    dtype = call["dtype"] or ("float32" if floating else "int64")
    attributes = {"start": start, "dtype": dtype, "count": _step_count(start, end, step, integral)}
    if UNKNOWN in (start, end, step):
        return ResolvedSignature("-> out[_] @ dtype", "", "", attributes)
    attributes["step_is_0"] = step_is_zero = compare("eq", step, 0) if isinstance(step, Poly) else 0
    where = "i == count" if step_is_zero == 0 else "i == count, step_is_0 == 0"
    return ResolvedSignature("-> out[i] @ dtype", where, "", attributes)


def _step_count(start: Dim, end: Dim, step: Dim, integral: bool) -> Dim:
    if UNKNOWN in (start, end, step):
        return 0
    if not integral:
        return max(math.ceil((end - start) / step), 0)  # type: ignore[operator]
    if step == 1:
        count = end - start
    elif at_least(step, 0) is True:
        count = floordiv(end - start + step - 1, step)
    else:  # rounds up for both signs of the step
        count = -floordiv(start - end, step)
    return max(count, 0) if isinstance(count, int) else _nonnegative(count)


def _nonnegative(count: Dim) -> Dim:
    return dim_max(count, 0)


@op(arange_signature)
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
    """Creates the Hamming window alpha - beta * cos(2 pi i / n), with n - 1 if not periodic.

    A window of size 1 is 1.
    """
    length = scalar_expr.cast(i * 0 + window_size - (0 if periodic else 1), dtype)
    angle = scalar_expr.cast(i, dtype) * (2 * math.pi) / scalar_expr.max(length, 1)
    value = alpha - beta * scalar_expr.cos(angle)
    return select(i * 0 + window_size > 1, value, 1)


@op("x[*s, i, j] -> y[*s, i, j]")
def tril(x: ScalarExpr, k: Size = 0, *, i: LoopIndex, j: LoopIndex) -> ScalarExpr:
    """Keeps the elements on and below the k-th diagonal, and sets others to 0."""
    return select(j <= i + k, x, 0)


@op("x[*s, i, j] -> y[*s, i, j]")
def triu(x: ScalarExpr, k: Size = 0, *, i: LoopIndex, j: LoopIndex) -> ScalarExpr:
    """Keeps the elements on and above the k-th diagonal, and sets others to 0."""
    return select(j >= i + k, x, 0)


def _positive_size(value: Any) -> Expr:
    """Converts a size; rejects a literal below 1, but not a size that is 0 at run time."""
    size: Expr = SIZE.normalize(value)
    if isinstance(size, PrimValue) and isinstance(size.value, int) and size.value < 1:
        raise InvalidAttribute
    return size


Depth = Annotated[Dim, AttributeKind("a positive size", _positive_size, True)]


def one_hot_signature(call: CallView) -> ResolvedSignature:
    """Returns the signature with a new axis of size `depth`; values determine the dtype."""
    rank, depth = call.rank("indices"), call["depth"]
    if isinstance(depth, int) and depth < 0:
        call.reject(f"depth: expected a positive number, found {depth}")
    floating = any(isinstance(call[name], float) for name in ("on_value", "off_value"))
    attributes = {"dtype": "float64" if floating else "int64"}
    if rank is None:
        return ResolvedSignature("indices[*s] @ J -> out[*u] @ dtype", "", "", attributes)
    axis = call.axis("axis", rank + 1)
    variables = [f"i{k}" for k in range(rank)]
    out = [*variables[:axis], "d", *variables[axis:]]
    signature = f"indices[{', '.join(variables)}] @ J -> out[{', '.join(out)}] @ dtype"
    return ResolvedSignature(signature, "d == depth", "", attributes)


@op(one_hot_signature)
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
