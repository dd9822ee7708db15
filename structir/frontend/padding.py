"""Padding by static, symbolic and negative amounts; negative amounts crop."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from structir.frontend.scalars import dims_of, index_range, size_number, tensor_info
from structir.ir import dims
from structir.ir.dims import Dim
from structir.ir.dtype import numpy_dtype
from structir.ir.expr import Constant, Expr, ShapeExpr
from structir.script import R

Amounts = Sequence[Dim]
Emit = Callable[[Expr], Expr]
Value = Expr | float  # of the elements that the mode `constant` adds


def emit_pad(x: Expr, before: Amounts, after: Amounts, mode: str, value: Value, emit: Emit) -> Expr:
    """Returns a tensor padded in a mode of `R.nn.pad`. The sign of symbolic amounts may be known
    at run time only; `emit` binds intermediate tensors."""
    x = _crop(x, before, after, emit)
    before, after = ([_part(amount, 1) for amount in side] for side in (before, after))
    amounts = [*before, *after]
    if all(_is_zero(amount) for amount in amounts):
        return x
    is_number = isinstance(value, int | float) and tensor_info(x).dtype != "bool"
    are_static = all(isinstance(amount, int) for amount in amounts)
    if are_static and (mode != "constant" or is_number):
        widths = [width for pair in zip(before, after, strict=True) for width in pair]
        fill = value if is_number else 0.0
        return R.nn.pad(x, widths, pad_mode=mode, pad_value=fill)
    if mode != "constant":
        return pad_by_index(x, before, after, mode, emit)
    if not isinstance(value, Expr):
        value = Constant(np.asarray(value, numpy_dtype(tensor_info(x).dtype or "float32")))
    for axis, (low, high) in enumerate(zip(before, after, strict=True)):
        x = _append_blocks(x, axis, low, high, value, emit)
    return x


def pad_by_index(x: Expr, before: Amounts, after: Amounts, mode: str, emit: Emit) -> Expr:
    """Selects the element of each padded position, for symbolic or negative amounts.

    Reflected and repeated elements may be ones that negative amounts remove.
    """
    for axis, (low, high) in enumerate(zip(before, after, strict=True)):
        if _is_zero(low) and _is_zero(high):
            continue
        size = dims_of(x)[axis]
        positions = index_range(size + low + high)
        index = R.subtract(positions, size_number(low))
        x = emit(R.take(x, INDICES[mode](index, size_number(size - 1)), axis=axis))
    return x


def _edge_index(index: Expr, last: Expr) -> Expr:
    return R.minimum(R.maximum(index, size_number(0)), last)


def _reflected_index(index: Expr, last: Expr) -> Expr:
    return R.subtract(last, R.abs(R.subtract(last, R.abs(index))))


def _circular_index(index: Expr, last: Expr) -> Expr:
    return R.floor_mod(index, R.add(last, size_number(1)))


INDICES = {"reflect": _reflected_index, "edge": _edge_index, "circular": _circular_index}


def _crop(x: Expr, before: Amounts, after: Amounts, emit: Emit) -> Expr:
    """Removes the elements that negative amounts state."""
    removed = [(_part(low, -1), _part(high, -1)) for low, high in zip(before, after, strict=True)]
    axes = [axis for axis, pair in enumerate(removed) if not all(map(_is_zero, pair))]
    if not axes:
        return x
    starts = tuple([removed[axis][0] for axis in axes])
    ends = tuple([dims_of(x)[axis] - removed[axis][1] for axis in axes])
    return emit(R.strided_slice(x, axes, ShapeExpr(starts), ShapeExpr(ends)))


def _append_blocks(x: Expr, axis: int, low: Dim, high: Dim, value: Expr, emit: Emit) -> Expr:
    """Concatenates blocks of a value before and after a tensor along an axis."""
    sizes, parts = list(dims_of(x)), [x]
    for index, amount in ((0, low), (2, high)):
        if not _is_zero(amount):
            sizes[axis] = amount
            parts.insert(index, R.full(ShapeExpr(tuple(sizes)), value))
    return x if len(parts) == 1 else emit(R.concat(parts, axis=axis))


def _part(amount: Dim, sign: int) -> Dim:
    """Returns the number of elements that an amount adds (sign 1) or removes (sign -1)."""
    signed = amount * sign
    if dims.at_least(signed, 0) is True:
        return signed
    return 0 if dims.at_least(0, signed) is True else dims.dim_max(signed, 0)


def _is_zero(amount: Dim) -> bool:
    return dims.equal(amount, 0) is True
