"""Mappings of reductions over windows, and of their gradients."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import attrs

from structir.frontend.jax.equation import Equation
from structir.frontend.jax.ops.reduce import cast
from structir.frontend.jax.ops.shapes import pad, sliced
from structir.frontend.jax.registry import jax_primitive
from structir.frontend.scalars import dims_of, index_range, number, reshape_to, size_number
from structir.ir.dims import Dim
from structir.ir.dtype import is_float, numpy_dtype
from structir.ir.expr import Expr, ShapeExpr
from structir.lazy import lazy_module
from structir.script import R

np = lazy_module("numpy")
WINDOWS: dict[str, tuple[Callable[..., Expr], float]] = {
    "reduce_window_sum": (R.sum, 0),
    "reduce_window_prod": (R.prod, 1),
    "reduce_window_max": (R.max, -math.inf),
    "reduce_window_min": (R.min, math.inf),
}
SELECTIONS = {"ge": (R.argmax, -math.inf), "le": (R.argmin, math.inf)}


def _limit(dtype: str, value: float) -> Expr:
    """Returns a number, or for an infinity the limit of an integer dtype."""
    if is_float(dtype) or math.isfinite(value):
        return number(value, dtype)
    limits = np.iinfo(numpy_dtype(dtype))
    return number(limits.min if value < 0 else limits.max, dtype)


def _padded(equation: Equation, x: Expr, filler: Expr) -> Expr:
    """Returns an operand with the padding and the dilation of an equation of windows."""
    params = equation.params
    dilation = params.get("base_dilation") or [1] * len(params["padding"])
    pairs = zip(params["padding"], dilation, strict=True)
    config = [(low, high, base - 1) for (low, high), base in pairs]
    return pad(attrs.evolve(equation, args=(x, filler), params={"padding_config": config}))


def _starts(equation: Equation, axis: int, count: Dim) -> Expr | None:
    """Returns the positions of the elements of each window along an axis; None if a window is one
    element and every element has one."""
    params = equation.params
    window, step = params["window_dimensions"][axis], params["window_strides"][axis]
    spacing = (params.get("window_dilation") or [1] * (axis + 1))[axis]
    if int(window) == 1 and int(step) == 1:
        return None
    starts = R.multiply(reshape_to(index_range(count), (count, 1)), number(step, "int64"))
    offsets = number([[k * spacing for k in range(window)]], "int64")
    return equation.emit(R.add(starts, offsets))


@jax_primitive(*WINDOWS)
def windows(equation: Equation) -> Expr:
    """Builds a reduction over windows."""
    return reduced_windows(equation, equation.name)


def reduced_windows(equation: Equation, name: str) -> Expr:
    """Returns a reduction over windows of the padded operand, axis by axis."""
    op, neutral = WINDOWS[name]
    x = _padded(equation, equation.args[0], _limit(equation.dtype(), neutral))
    for axis, count in enumerate(equation.out_dims()):
        positions = _starts(equation, axis, count)
        if positions is not None:
            gathered = equation.emit(R.take(x, positions, axis=axis))
            x = equation.emit(cast(equation, op(gathered, axis=[axis + 1])))
    return x


@jax_primitive("select_and_scatter_add")
def selected_sums(equation: Equation) -> Expr:
    """Builds the sum of the sources at the selected element of each window."""
    source, operand = equation.args
    op, neutral = SELECTIONS[equation.params["select_prim"].name]
    sizes, total = dims_of(operand), math.prod(dims_of(operand))
    plane = equation.emit(reshape_to(index_range(total), sizes))
    values = _elements(equation, operand, _limit(equation.dtype(1), neutral))
    places = _elements(equation, plane, size_number(total, "int64"))
    rank = len(sizes)
    best = equation.emit(R.astype(op(values, axis=rank, keepdims=True), "int64"))
    index = equation.emit(R.squeeze(R.gather_elements(places, best, axis=rank), [rank]))
    count = math.prod(dims_of(source))
    zeros = R.full(ShapeExpr((total + 1,)), number(0, equation.out_dtype()))
    flat = reshape_to(index, [count]), reshape_to(source, [count])
    added = equation.emit(R.scatter_elements(zeros, *flat, axis=0, reduction="add"))
    return reshape_to(sliced(added, [0], [0], [total]), sizes)


def _elements(equation: Equation, x: Expr, filler: Expr) -> Expr:
    """Returns the elements of each window along a new last axis."""
    x, counts = _padded(equation, x, filler), equation.dims(0)
    rank, inner = len(counts), 0
    width: Any = 1
    for axis, count in enumerate(counts):
        positions = _starts(equation, axis, count)
        if positions is None:
            continue
        gathered = equation.emit(R.take(x, positions, axis=axis))
        order = [k for k in range(rank + inner + 1) if k != axis + 1]
        x = equation.emit(R.permute_dims(gathered, [*order, axis + 1]))
        width, inner = width * int(equation.params["window_dimensions"][axis]), inner + 1
    return equation.emit(reshape_to(x, [*counts, width]))
