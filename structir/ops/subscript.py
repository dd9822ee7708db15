"""Subscripts of tensors, `x[0, 1:, ::-1, None]`, as calls of ops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import attrs

from structir.analysis.deduction import deduce
from structir.errors import Diagnostic, Span, StructInfoError
from structir.ir import dims
from structir.ir.dims import Poly
from structir.ir.expr import Expr
from structir.ir.operators import OPERATORS
from structir.ops.layout import expand_dims, flip, squeeze
from structir.ops.slices import strided_slice

LAST = 2**63 - 1  # an end beyond every axis


@attrs.define
class _Plan:
    """The calls of one subscript: each list has one entry per axis that the call changes."""

    axes: list[int] = attrs.Factory(list)  # sliced
    begin: list[Any] = attrs.Factory(list)
    end: list[Any] = attrs.Factory(list)
    strides: list[int] = attrs.Factory(list)
    flipped: list[int] = attrs.Factory(list)
    removed: list[int] = attrs.Factory(list)
    new: list[int] = attrs.Factory(list)  # among the axes of the result

    def slice(self, axis: int, begin: Any, end: Any, stride: int = 1) -> None:
        for values, value in zip(
            (self.axes, self.begin, self.end, self.strides), (axis, begin, end, stride), strict=True
        ):
            values.append(value)


def subscript(
    x: Expr, items: Sequence[Any], emit: Callable[[Expr], Expr], span: Span | None
) -> Expr:
    """Returns `x[items]`, with the meaning of NumPy, for integers, sizes, slices, None and `...`.

    One integer alone is the field of a tuple: `x[0, ...]` reads a tensor. `emit` binds calls that
    are operands of others. An integer out of range is an error, at run time
    if the size is unknown.
    """
    if len(items) == 1 and isinstance(items[0], int | Poly):  # the field of a tuple, in Relax
        text = dims.text(items[0])
        raise _error(
            f"expected a tuple for the field {text}, found a tensor",
            f"write `[{text}, ...]` to read the tensor at index {text}",
            span,
            deduce(x),
        )
    plan = _plan(x, items, span)
    calls: list[tuple[Any, dict[str, Any]]] = []
    if plan.flipped:
        calls.append((flip, {"axis": plan.flipped}))
    if plan.axes:
        bounds = {"begin": tuple(plan.begin), "end": tuple(plan.end), "strides": plan.strides}
        calls.append((strided_slice, {"axes": plan.axes, **bounds}))
    if plan.removed:
        calls.append((squeeze, {"axis": plan.removed}))
    if plan.new:
        calls.append((expand_dims, {"axis": plan.new}))
    value = x
    for op, attributes in calls:
        value = op.definition.bind((emit(value),), attributes, span)
    return value


OPERATORS["[]"] = subscript


def _plan(x: Expr, items: Sequence[Any], span: Span | None) -> _Plan:
    info: Any = deduce(x)
    plan, axis, position = _Plan(), 0, 0
    for item in _expanded(info, items, span):
        if item is None:
            plan.new.append(position)
            position += 1
            continue
        size = info.dims[axis] if isinstance(info.dims, tuple) else None
        if isinstance(item, slice):
            _add_slice(plan, axis, item, size, span)
            position += 1
        else:
            _add_integer(plan, axis, item, size, span)
        axis += 1
    return plan


def _expanded(info: Any, items: Sequence[Any], span: Span | None) -> list[Any]:
    """Returns the items with slices in place of `...`."""
    used = len([item for item in items if item is not None and item is not Ellipsis])
    if info.ndim is not None and used > info.ndim:
        message = f"expected at most {info.ndim} indices, found {used}"
        raise _error(message, f"remove {used - info.ndim} of the indices", span, info)
    if Ellipsis not in items:
        return list(items)
    first = items.index(Ellipsis)
    if Ellipsis in items[first + 1 :]:
        raise _error("expected one `...`, found several", "keep the first one", span, info)
    if first == len(items) - 1:
        return list(items[:first])
    if info.ndim is None:
        hint = "cast to a known rank first: `R.match_cast(x, R.Tensor(ndim=2))`"
        raise _error("`...` before other indices needs a known rank", hint, span, info)
    return [*items[:first], *[slice(None)] * (info.ndim - used), *items[first + 1 :]]


def _add_integer(plan: _Plan, axis: int, index: Any, size: Any, span: Span | None) -> None:
    if type(index) is int and type(size) is int and not -size <= index < size:
        message = f"index {index} is out of range for axis {axis}, which has size {size}"
        raise _error(message, f"write an index from {-size} to {size - 1}", span)
    plan.slice(axis, index, LAST if type(index) is int and index == -1 else index + 1)
    plan.removed.append(axis)


def _add_slice(plan: _Plan, axis: int, item: slice, size: Any, span: Span | None) -> None:
    step = 1 if item.step is None else item.step
    if isinstance(step, Poly) or step == 0:
        raise _error(f"expected a step other than 0, found {step}", "write `::1`", span)
    if step < 0 and item.start is None and item.stop is None:
        plan.flipped.append(axis)
        step = -step
    low, high = (0, LAST if size is None else size) if step > 0 else (-1, -LAST)
    begin = low if item.start is None else item.start
    end = high if item.stop is None else item.stop
    if step != 1 or begin != 0 or not (item.stop is None and step > 0):
        plan.slice(axis, begin, end, step)


def _error(message: str, hint: str, span: Span | None, info: Any = None) -> StructInfoError:
    label = "" if info is None else f"the tensor is {info}"
    diagnostic = Diagnostic(f"subscript: {message}", span, hint=hint, code="E1132", label=label)
    return StructInfoError(diagnostic)
