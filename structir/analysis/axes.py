"""Operations on axes: subtype check, join, replacement and alignment."""

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
from structir.ir.dtype import Element
from structir.ir.expr import Var
from structir.ir.struct_info import TensorStructInfo
from structir.ir.vdevice import VDevice

NEVER, RUN_TIME, SIZES, ALWAYS = range(4)  # the values of `lattice.BaseCheckResult`
ANY = AnySize()
Rows = Mapping[RowVar, Axes]


def axes_of(info: TensorStructInfo) -> Axes | None:
    """Returns the known axes of a tensor; None if its rank is unknown."""
    if info.axes is not None:
        return info.axes
    if type(info.dims) is tuple:
        return info.dims
    return None if info.ndim is None else (ANY,) * info.ndim


def tensor(axes: Axes, dtype: Element, vdevice: VDevice | None = None) -> TensorStructInfo:
    """Returns the tensor type of these axes; only its rank if no size is known."""
    if axes and all([axis == ANY for axis in axes]):
        return TensorStructInfo(None, dtype, len(axes), vdevice=vdevice)
    return TensorStructInfo(dtype=dtype, vdevice=vdevice, **fields_of(axes))


def check_axes(base: Axes, derived: Axes | None) -> int:
    """Returns whether axes of `derived` are provably axes of `base`, as a BaseCheckResult."""
    if derived is None:
        return RUN_TIME
    if base == derived:
        return ALWAYS
    if _same_form(base, derived):
        return min([_check_axis(a, b) for a, b in zip(base, derived, strict=True)], default=ALWAYS)
    if _shortest(base) > _longest(derived) or _shortest(derived) > _longest(base):
        return NEVER
    ends = min([_check_axis(a, b) for a, b in _aligned_ends(base, derived)], default=ALWAYS)
    if ends == NEVER or not (rows_in(base) or rows_in(derived)):
        return ends
    return min(ends, SIZES if rows_in(base) else RUN_TIME)


def _shortest(axes: Axes) -> int:
    return len(axes) - len(rows_in(axes))


def _longest(axes: Axes) -> float:
    return float("inf") if rows_in(axes) else len(axes)


def _aligned_ends(first: Axes, second: Axes) -> Iterator[tuple[Any, Any]]:
    """Yields pairs of axes aligned from the left and, with row variables, from the right."""
    for a, b in zip(first, second, strict=False):
        if type(a) is RowVar or type(b) is RowVar:
            break
        yield a, b
    if rows_in(first) or rows_in(second):
        for a, b in zip(reversed(first), reversed(second), strict=False):
            if type(a) is RowVar or type(b) is RowVar:
                break
            yield a, b


def _check_axis(base: Any, derived: Any) -> int:
    if type(base) is Labelled and type(derived) is Labelled and base.label != derived.label:
        return NEVER
    base, derived = size_in(base), size_in(derived)
    if type(base) is AnySize or base == derived:
        return ALWAYS
    if type(derived) is AnySize:
        return RUN_TIME
    if type(base) is Ragged or type(derived) is Ragged:
        return NEVER if int in (type(base), type(derived)) else SIZES
    return {True: ALWAYS, False: NEVER, None: SIZES}[equal(base, derived)]


def join_tensors(a: TensorStructInfo, b: TensorStructInfo) -> TensorStructInfo:
    """Returns the join of two tensors: only the rank and ragged axes remain if a size differs."""
    dtype = a.element if a.element == b.element else None
    vdevice = a.vdevice if a.vdevice == b.vdevice else None
    if a.dims is b.dims and a.axes is b.axes:
        rank = a.ndim if a.ndim == b.ndim else None
        return TensorStructInfo(a.dims, dtype, rank, a.axes, vdevice)
    first, second = axes_of(a), axes_of(b)
    if first is None or second is None or len(first) != len(second):
        return TensorStructInfo(dtype=dtype, vdevice=vdevice)
    pairs = list(zip(first, second, strict=True))
    if all([_same_size(size_in(x), size_in(y)) for x, y in pairs]):
        axes = tuple([_without_other_label(x, y) for x, y in pairs])
        return tensor(axes, dtype, vdevice)
    # keeping single sizes would make the join of three shapes depend on the order
    if rows_in(first) or rows_in(second):
        return TensorStructInfo(dtype=dtype, vdevice=vdevice)
    return tensor(tuple([_common_form(size_in(x), size_in(y)) for x, y in pairs]), dtype, vdevice)


def _common_form(first: Any, second: Any) -> Any:
    """Returns a ragged axis where both are, with their name if it is one, or an unknown size."""
    if type(first) is not Ragged or type(second) is not Ragged:
        return ANY
    return first if first == second else Ragged()


def meet_tensors(a: TensorStructInfo, b: TensorStructInfo) -> TensorStructInfo | None:
    """Returns the meet of two tensors; None if no StructInfo is provably below both."""
    if a.element != b.element and a.element and b.element:
        return None
    if a.vdevice != b.vdevice and a.vdevice and b.vdevice:
        return None
    dtype, vdevice = a.element or b.element, a.vdevice or b.vdevice
    shape = a.dims if isinstance(a.dims, Var) else b.dims
    if isinstance(shape, Var):
        other = b if shape is a.dims else a
        ranks = {rank for rank in (a.ndim, b.ndim) if rank is not None}
        unknown = other.dims is shape or (other.dims is None and other.axes is None)
        known = unknown and len(ranks) < 2
        rank = min(ranks, default=None)
        return TensorStructInfo(shape, dtype, rank, vdevice=vdevice) if known else None
    first, second = axes_of(a), axes_of(b)
    if first is None or second is None:
        axes = second if first is None else first
        if axes is None:
            return TensorStructInfo(dtype=dtype, vdevice=vdevice)
        return tensor(axes, dtype, vdevice)
    if not _same_form(first, second):
        return None
    common = [_refined(x, y) for x, y in zip(first, second, strict=True)]
    return None if None in common else tensor(tuple(common), dtype, vdevice)


def _same_form(first: Axes, second: Axes) -> bool:
    """Whether two lists of axes have the same rank and the same row variables at the same axes."""
    return len(first) == len(second) and all(
        [a is b for a, b in zip(first, second, strict=True) if RowVar in (type(a), type(b))]
    )


def _refined(first: Any, second: Any) -> Any:
    """Returns what is known of two axes together; None if they are not provably one."""
    labels = [axis.label for axis in (first, second) if type(axis) is Labelled]
    size, other = size_in(first), size_in(second)
    size = other if size == ANY else size
    if not (other == ANY or _same_size(size, other)) or len(set(labels)) > 1:
        return None
    return Labelled(size, labels[0]) if labels else size


def _same_size(first: Any, second: Any) -> bool:
    if first == second:
        return True
    sizes = all([type(size) is int or type(size) is Poly for size in (first, second)])
    return sizes and equal(first, second) is True


def _without_other_label(first: Any, second: Any) -> Any:
    """Returns the first of two axes of one size, without its label if the second has another."""
    labels = [getattr(axis, "label", None) for axis in (first, second)]
    return first if labels[0] == labels[1] else size_in(first)


def replace_axes(axes: Axes, replacement_of: Callable[[Any], Any]) -> Axes | None:
    """Returns the axes with sizes and row variables replaced; None if one of them is undefined.

    `replacement_of` maps a symbolic size to a size, a row variable to itself or to axes, or either
    to None.
    """
    replaced: list[Any] = []
    for axis in axes:
        size = size_in(axis)
        new = replacement_of(size) if type(size) is Poly or type(size) is RowVar else size
        if new is None:
            return None
        if type(new) is tuple:
            replaced += new
        elif type(axis) is Labelled:
            replaced.append(axis if new is size else Labelled(new, axis.label))
        else:
            replaced.append(new)
    return tuple(replaced)


def align_axes(axes: Axes, actual: Axes | None, bound_rows: Rows) -> Iterator[tuple[Any, Any]]:
    """Yields each declared axis with the actual one.

    Symbolic sizes are paired with sizes, and the one unbound row variable with its axes.
    """
    if actual is None:
        return
    axes = replace_axes(axes, lambda size: bound_rows.get(size, size)) or ()
    rows = rows_in(axes)
    if len(rows) > 1 or (rows_in(actual) and not rows):
        if len(axes) == len(actual) and [*map(type, axes)] == [*map(type, actual)]:
            for axis, actual_axis in zip(axes, actual, strict=True):
                yield (
                    size_in(axis),
                    (actual_axis,) if type(axis) is RowVar else size_in(actual_axis),
                )
        return
    index = axes.index(rows[0]) if rows else len(axes)
    after = len(axes) - index - 1 if rows else 0
    if len(actual) < index + after or (not rows and len(actual) != len(axes)):
        return
    ends = [*actual[:index], *actual[len(actual) - after :]] if rows else list(actual)
    if rows_in(ends):
        return
    for axis, actual_axis in zip([*axes[:index], *axes[index + 1 :]], ends, strict=True):
        yield size_in(axis), size_in(actual_axis)
    if rows:
        yield rows[0], actual[index : len(actual) - after]
