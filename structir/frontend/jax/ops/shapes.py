"""Mappings of primitives that create, reshape and join tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from structir.frontend.jax.equation import Equation
from structir.frontend.jax.registry import jax_primitive
from structir.frontend.scalars import dims_of, index_range, number, reshape_to, size_number
from structir.ir import dims
from structir.ir.dims import Dim
from structir.ir.expr import Expr, ShapeExpr
from structir.script import R


@jax_primitive("dim_as_value")
def dim_as_value(equation: Equation) -> Expr:
    return size_number(equation.dim(equation.params["dim"]), equation.out_dtype())


@jax_primitive("broadcast_in_dim")
def broadcast_in_dim(equation: Equation) -> Expr:
    axes = list(equation.params["broadcast_dimensions"])
    sizes = equation.out_dims()
    axes += [len(sizes) - 1] * (len(equation.dims()) - len(axes))  # the data of a key
    aligned: list[Dim] = [1] * len(sizes)
    for axis, size in zip(axes, equation.dims(), strict=True):
        aligned[int(axis)] = size
    x = equation.args[0]
    if tuple(aligned) != equation.dims():
        x = reshape_to(x, aligned)
    if tuple(aligned) == sizes:
        return x
    return R.broadcast_to(x, ShapeExpr(sizes))


@jax_primitive("reshape")
def reshape(equation: Equation) -> Expr:
    x = equation.args[0]
    order = equation.params.get("dimensions")
    if order is not None:
        x = R.permute_dims(x, [int(k) for k in order])
    return reshape_to(x, equation.out_dims())


@jax_primitive("squeeze", "expand_dims")
def squeeze(equation: Equation) -> Expr:
    return reshape_to(equation.args[0], equation.out_dims())


@jax_primitive("transpose")
def transpose(equation: Equation) -> Expr:
    order = [int(k) for k in equation.params["permutation"]]
    order += range(len(order), len(equation.dims()))
    return R.permute_dims(equation.args[0], order)


@jax_primitive("rev")
def reverse(equation: Equation) -> Expr:
    result = equation.args[0]
    for axis in equation.params["dimensions"]:
        result = R.flip(result, axis=int(axis))
    return result


@jax_primitive("concatenate")
def concatenate(equation: Equation) -> Expr:
    return R.concat(list(equation.args), axis=int(equation.params["dimension"]))


@jax_primitive("stack")
def stack(equation: Equation) -> Expr:
    return R.stack(list(equation.args), axis=int(equation.params["axis"]))


@jax_primitive("unstack")
def unstack(equation: Equation) -> list[Expr]:
    axis, x = int(equation.params["axis"]), equation.args[0]
    rows = [sliced(x, [axis], [k], [k + 1]) for k in range(len(equation.outputs))]
    return [R.squeeze(row, [axis]) for row in rows]


@jax_primitive("tile")
def tile(equation: Equation) -> Expr:
    return R.tile(equation.args[0], [equation.dim(n) for n in equation.params["reps"]])


@jax_primitive("empty", "zeros_like")
def zeros(equation: Equation) -> Expr:
    """Builds zeros; the elements of an empty array are undefined."""
    return R.full(ShapeExpr(equation.out_dims()), number(0, equation.out_dtype()))


@jax_primitive("split")
def split(equation: Equation) -> list[Expr]:
    axis = int(equation.params["axis"])
    start: Dim = 0
    parts = []
    for size in equation.params["sizes"]:
        size = equation.dim(size)
        parts.append(sliced(equation.args[0], [axis], [start], [start + size]))
        start = start + size
    return parts


def sliced(
    x: Expr, axes: Sequence[int], begin: Sequence[Dim], end: Sequence[Dim], strides: Any = None
) -> Expr:
    """Returns a slice of some axes."""
    bounds = [ShapeExpr(tuple(numbers)) for numbers in (begin, end)]
    steps = [1] * len(axes) if strides is None else list(strides)
    return R.strided_slice(x, begin=bounds[0], end=bounds[1], strides=steps, axes=list(axes))


@jax_primitive("slice")
def static_slice(equation: Equation) -> Expr:
    sizes = equation.dims()
    starts = [equation.dim(n) for n in equation.params["start_indices"]]
    ends = [equation.dim(n) for n in equation.params["limit_indices"]]
    strides = equation.params["strides"] or [1] * len(sizes)
    axes = [
        k
        for k, size in enumerate(sizes[: len(starts)])  # keys have one more axis
        if starts[k] != 0 or ends[k] != size or int(strides[k]) != 1
    ]
    if not axes:
        return equation.args[0]
    return sliced(
        equation.args[0],
        axes,
        [starts[k] for k in axes],
        [ends[k] for k in axes],
        [int(strides[k]) for k in axes],
    )


@jax_primitive("iota")
def iota(equation: Equation) -> Expr:
    sizes, axis = equation.out_dims(), int(equation.params["dimension"])
    aligned = [size if k == axis else 1 for k, size in enumerate(sizes)]
    numbers = index_range(sizes[axis], equation.out_dtype())
    if len(sizes) == 1:
        return numbers
    return R.broadcast_to(reshape_to(numbers, aligned), ShapeExpr(sizes))


@jax_primitive("pad")
def pad(equation: Equation) -> Expr:
    """Builds a pad: with space between elements, and with negative padding, which cuts."""
    x, filler = equation.args
    config = [tuple(map(equation.dim, axis)) for axis in equation.params["padding_config"]]
    for axis, (_, _, interior) in enumerate(config):
        if interior != 0:
            x = equation.emit(spread(equation, x, axis, interior, filler))
    for axis, (low, high, _) in enumerate(config):
        x = equation.emit(padded(x, axis, low, high, filler))
    return x


def padded(x: Expr, axis: int, low: Dim, high: Dim, filler: Expr) -> Expr:
    """Returns a tensor with fillers before and after an axis; negative numbers cut elements."""
    sizes = dims_of(x)
    if isinstance(low, int) and isinstance(high, int) and (low < 0 or high < 0):
        begin, end = max(-low, 0), sizes[axis] - max(-high, 0)
        x, low, high = sliced(x, [axis], [begin], [end]), max(low, 0), max(high, 0)
        sizes = dims_of(x)
    parts = [x]
    for size, place in ((low, 0), (high, 1)):
        if size != 0:
            shape = [size if k == axis else n for k, n in enumerate(sizes)]
            block = R.broadcast_to(filler, ShapeExpr(tuple(shape)))
            parts.insert(place * len(parts), block)
    return R.concat(parts, axis=axis) if len(parts) > 1 else x


def spread(equation: Equation, x: Expr, axis: int, interior: Dim, filler: Expr) -> Expr:
    """Returns a tensor with `interior` fillers between the elements of an axis."""
    sizes = dims_of(x)
    step = interior + 1
    gaps = [*sizes[: axis + 1], interior, *sizes[axis + 1 :]]
    rows = R.expand_dims(x, [axis + 1])
    joined = R.concat([rows, R.broadcast_to(filler, ShapeExpr(tuple(gaps)))], axis=axis + 1)
    flat = [*sizes[:axis], sizes[axis] * step, *sizes[axis + 1 :]]
    result = equation.emit(reshape_to(joined, flat))
    end = dims.dim_max(sizes[axis] * step - interior, 0)
    return sliced(result, [axis], [0], [end])


@jax_primitive("bitcast_convert_type")
def bitcast(equation: Equation) -> Expr:
    """Builds a reinterpretation of the bytes of elements of equal size."""
    sizes, dtype = equation.out_dims(), equation.out_dtype()
    if len(sizes) != len(equation.dims()):
        equation.fail("expected dtypes of equal size")
    return R.memory.view(equation.args[0], shape=ShapeExpr(sizes), dtype=dtype)
