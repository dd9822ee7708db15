"""Axes against axes: how surely the one describe the other, what both say, what stands for what."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from structir.ir.axes import (
    AnySize,
    Axes,
    Labelled,
    Ragged,
    RowVar,
    fields_of,
    rows_in,
    size_in,
)
from structir.ir.dims import Poly, equal
from structir.ir.struct_info import TensorStructInfo

NEVER, RUN_TIME, SIZES, ALWAYS = range(4)  # as `lattice.BaseCheckResult` counts
ANY = AnySize()
Rows = Mapping[RowVar, Axes]


def axes_of(info: TensorStructInfo) -> Axes | None:
    """The axes of a tensor as far as they are known; None where not even their number is."""
    if info.axes is not None:
        return info.axes
    if type(info.dims) is tuple:
        return info.dims
    return None if info.ndim is None else (ANY,) * info.ndim


def tensor(axes: Axes, dtype: str | None) -> TensorStructInfo:
    """The tensor of these axes; where nothing is known but their number, just that."""
    if axes and all([axis == ANY for axis in axes]):
        return TensorStructInfo(None, dtype, len(axes))
    return TensorStructInfo(dtype=dtype, **fields_of(axes))


def check_axes(base: Axes, derived: Axes | None) -> int:
    """How sure it is that axes of the `derived` kind are as `base` says."""
    if derived is None:
        return RUN_TIME
    if base == derived:
        return ALWAYS
    if _shortest(base) > _longest(derived) or _shortest(derived) > _longest(base):
        return NEVER
    ends = min([_axis(a, b) for a, b in _ends(base, derived)], default=ALWAYS)
    if ends == NEVER or not (rows_in(base) or rows_in(derived)):
        return ends
    return min(ends, SIZES if rows_in(base) else RUN_TIME)


def _shortest(axes: Axes) -> int:
    return len(axes) - len(rows_in(axes))


def _longest(axes: Axes) -> float:
    return float("inf") if rows_in(axes) else len(axes)


def _ends(one: Axes, other: Axes) -> Iterator[tuple[Any, Any]]:
    """The axes that stand at the same place from the left or, with rows about, from the right."""
    for a, b in zip(one, other, strict=False):
        if type(a) is RowVar or type(b) is RowVar:
            break
        yield a, b
    if rows_in(one) or rows_in(other):
        for a, b in zip(reversed(one), reversed(other), strict=False):
            if type(a) is RowVar or type(b) is RowVar:
                break
            yield a, b


def _axis(base: Any, derived: Any) -> int:
    if type(base) is Labelled and type(derived) is Labelled and base.label != derived.label:
        return NEVER
    base, derived = size_in(base), size_in(derived)
    if type(base) is AnySize or base == derived:
        return ALWAYS
    if type(derived) is AnySize:
        return RUN_TIME
    if type(base) is Ragged or type(derived) is Ragged:
        return NEVER if int in (type(base), type(derived)) else SIZES
    if type(base) is int and type(derived) is int:
        return NEVER
    return ALWAYS if equal(base, derived) else SIZES


def join_axes(a: TensorStructInfo, b: TensorStructInfo) -> TensorStructInfo:
    """What two tensors have in common, one of which at least has axes of its own."""
    dtype = a.dtype if a.dtype == b.dtype else None
    one, other = axes_of(a), axes_of(b)
    if one is None or other is None:
        return TensorStructInfo(dtype=dtype)
    if one == other:
        return tensor(one, dtype)
    if rows_in(one) or rows_in(other) or len(one) != len(other):
        return TensorStructInfo(dtype=dtype)
    return tensor(tuple([_common(x, y) for x, y in zip(one, other, strict=True)]), dtype)


def _common(one: Any, other: Any) -> Any:
    label = one.label if type(one) is Labelled else None
    same_label = type(other) is Labelled and other.label == label
    size, found = size_in(one), size_in(other)
    numbers = all([type(s) is int or type(s) is Poly for s in (size, found)])
    same = size == found or (numbers and equal(size, found) is True)
    kept = size if same else ANY
    return Labelled(kept, label) if label is not None and same_label else kept


def replace_axes(axes: Axes, of: Callable[[Any], Any]) -> Axes | None:
    """The axes with sizes and rows replaced; None where one of them is not known any longer.

    `of` gives for a symbolic size a size, for a row variable itself or axes, or None.
    """
    found: list[Any] = []
    for axis in axes:
        size = size_in(axis)
        new = of(size) if type(size) is Poly or type(size) is RowVar else size
        if new is None:
            return None
        if type(new) is tuple:
            found += new
        elif type(axis) is Labelled:
            found.append(axis if new is size else Labelled(new, axis.label))
        else:
            found.append(new)
    return tuple(found)


def align_axes(axes: Axes, found: Axes | None, known: Rows) -> Iterator[tuple[Any, Any]]:
    """What stands for each size and for the one row that is not known yet."""
    if found is None:
        return
    axes = replace_axes(axes, lambda size: known.get(size, size)) or ()
    rows = rows_in(axes)
    if len(rows) > 1 or (rows_in(found) and not rows):
        if len(axes) == len(found) and [*map(type, axes)] == [*map(type, found)]:
            for axis, there in zip(axes, found, strict=True):
                yield size_in(axis), (there,) if type(axis) is RowVar else size_in(there)
        return
    place = axes.index(rows[0]) if rows else len(axes)
    after = len(axes) - place - 1 if rows else 0
    if len(found) < place + after or (not rows and len(found) != len(axes)):
        return
    ends = [*found[:place], *found[len(found) - after :]] if rows else list(found)
    if rows_in(ends):
        return
    for axis, there in zip([*axes[:place], *axes[place + 1 :]], ends, strict=True):
        yield size_in(axis), size_in(there)
    if rows:
        yield rows[0], found[place : len(found) - after]
