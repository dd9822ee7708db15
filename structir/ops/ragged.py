"""Ragged tensors: their parts, and their conversion from and to padded tensors.

A tensor with a ragged axis is a tensor of values, and the start and the limit of each row in it.
The pass `lower_ragged` expresses ops on ragged tensors with ops on their parts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from structir.analysis.axes import axes_of, tensor
from structir.errors import Diagnostic, ShapeMismatchError, StructInfoError
from structir.ir.axes import AnySize, Axes, Ragged, RowVar, size_in
from structir.ir.expr import Call, Expr, ShapeExpr
from structir.ir.ragged_array import RaggedArray
from structir.ir.struct_info import StructInfo, TensorStructInfo
from structir.lazy import lazy_module
from structir.opdef.adjoint_op import Cotangent, Emit
from structir.opdef.opaque import OpaqueDefinition
from structir.ops.reshape import reshape

np = lazy_module("numpy")
Array = Any
Rule = Callable[..., StructInfo]
Adjoint = Callable[[Call, Expr, Cotangent, Emit], list[Cotangent]]


@attrs.define(eq=False)
class RaggedDefinition(OpaqueDefinition):
    """The definition of an op on ragged tensors, with its adjoint."""

    adjoint: Adjoint = lambda call, result, cotangent, emit: [None] * len(call.args)


def ragged_op(
    rule: Rule, name: str, adjoint: Adjoint | None = None
) -> Callable[[Callable[..., Any]], Any]:
    """Declares an op by a function of run-time values, a StructInfo rule and its adjoint."""
    options: dict[str, Any] = {} if adjoint is None else {"adjoint": adjoint}
    return lambda function: RaggedDefinition(f"ragged.{name}", function, rule, **options).op


def has_ragged_axis(info: Any) -> bool:
    """Returns whether a StructInfo is that of a tensor with a ragged axis."""
    axes = getattr(info, "axes", None)
    return axes is not None and any([type(size_in(axis)) is Ragged for axis in axes])


def check_ragged(info: Any) -> int:
    """Returns the position of the ragged axis; raises StructInfoError without one that has a
    run-time form."""
    axes = getattr(info, "axes", None) or ()
    positions = [k for k, axis in enumerate(axes) if type(size_in(axis)) is Ragged]
    if not positions:
        message = f"expected a tensor with a ragged axis, found {info}"
        hint = 'declare one: `R.Tensor(("n", "*"), "float32")`'
        raise StructInfoError(Diagnostic(message, hint=hint, code="E0217"))
    if positions[1:] or positions[0] == 0 or any([type(axis) is RowVar for axis in axes]):
        message = f"expected one ragged axis after axes of known number, found {info}"
        hint = 'declare one axis of rows, then the ragged one: `("n", "*", 4)`, and pad other axes'
        if len(axes) == 1:
            hint = 'name the axes of a tensor of any rank, `("*s",)`, or declare rows: `("n", "*")`'
        elif not positions[1:] and positions[0] == 0:
            hint = (
                'declare the axis of rows before it: `("n", "*", 4)`, or name the axes: `("*s", 4)`'
            )
        raise StructInfoError(Diagnostic(message, hint=hint, code="E0218"))
    return positions[0]


def _leading(info: Any) -> Axes:
    position = check_ragged(info)
    return tuple(map(size_in, info.axes[:position]))


def _inner(info: Any) -> Axes:
    position = check_ragged(info)
    return tuple(info.axes[position + 1 :])


def _known_axes(info: Any) -> Axes | None:
    """Returns the axes of a tensor; None if its rank is unknown or it is no tensor."""
    return axes_of(info) if isinstance(info, TensorStructInfo) else None


def _values_info(x: Any) -> StructInfo:
    return tensor((AnySize(), *_inner(x)), x.element, x.vdevice)


def _rows_info(x: Any) -> StructInfo:
    return tensor(_leading(x), "int64", x.vdevice)


def _values_adjoint(call: Call, result: Expr, cotangent: Cotangent, emit: Emit) -> list[Cotangent]:
    (x,) = call.args
    if cotangent is None:
        return [None]
    label = x.struct_info.axes[check_ragged(x.struct_info)]
    name = label.name if type(label) is Ragged else ""
    return [emit(from_values(cotangent, emit(row_starts(x)), emit(row_limits(x)), name=name))]


@ragged_op(_values_info, "values", _values_adjoint)
def values(x: Any) -> Array:
    """Returns the values of all rows, one row after another."""
    return x.values


@ragged_op(_rows_info, "row_starts")
def row_starts(x: Any) -> Array:
    """Returns the index of the first value of each row."""
    return x.row_starts


@ragged_op(_rows_info, "row_limits")
def row_limits(x: Any) -> Array:
    """Returns the index after the last value of each row."""
    return x.row_limits


@ragged_op(_rows_info, "row_lengths")
def row_lengths(x: Any) -> Array:
    """Returns the length of each row."""
    return x.row_lengths


def _from_values_info(x: Any, starts: Any, limits: Any, name: str = "") -> StructInfo:
    axes, leading = _known_axes(x), _known_axes(starts)
    if axes is None or leading is None or not isinstance(limits, TensorStructInfo):
        operands = f"found {x}, {starts} and {limits}"
        message = f"expected values, row starts and row limits of known rank, {operands}"
        hint = 'declare the rank: `R.match_cast(values, R.Tensor(("t", 4)))`'
        raise StructInfoError(Diagnostic(message, hint=hint, code="E0304"))
    if not axes or not leading or "int64" not in (starts.dtype, limits.dtype):
        message = f"expected values with axes and int64 row starts, found {x} and {starts}"
        hint = "pass the values of all rows and int64 vectors of one start and one limit per row"
        raise StructInfoError(Diagnostic(message, hint=hint, code="E0304"))
    return tensor((*leading, Ragged(name), *axes[1:]), x.element, x.vdevice)


def _from_values_adjoint(
    call: Call, result: Expr, cotangent: Cotangent, emit: Emit
) -> list[Cotangent]:
    if cotangent is None:
        return [None] * 3
    flat = emit(values(cotangent))
    dims: Any = call.args[0].struct_info.dims
    return [emit(reshape(flat, ShapeExpr(dims))) if isinstance(dims, tuple) else flat, None, None]


@ragged_op(_from_values_info, "from_values", _from_values_adjoint)
def from_values(x: Array, starts: Array, limits: Array, *, name: str = "") -> Any:
    """Builds a ragged tensor from its values, and the start and limit of each row."""
    return RaggedArray.from_limits(x, starts, limits)


def _same_rows_info(
    x: Any, starts: Any, limits: Any, others: Any, ends: Any, where: str
) -> StructInfo:
    infos = (x, starts, limits, others, ends)
    wrong = [info for info in infos if not isinstance(info, TensorStructInfo)]
    if wrong:
        message = f"expected values, row starts and row limits, found {wrong[0]}"
        hint = 'declare the rank: `R.match_cast(values, R.Tensor(("t", 4)))`'
        raise StructInfoError(Diagnostic(message, hint=hint, code="E0304"))
    return x  # type: ignore[no-any-return]


def _same_rows_adjoint(
    call: Call, result: Expr, cotangent: Cotangent, emit: Emit
) -> list[Cotangent]:
    return [cotangent, *[None] * (len(call.args) - 1)]


@ragged_op(_same_rows_info, "same_rows", _same_rows_adjoint)
def same_rows(
    x: Array, starts: Array, limits: Array, others: Array, ends: Array, *, where: str
) -> Array:
    """Returns the values `x`; checks that their row starts and limits are equal to `others`."""
    check_same_rows(starts, limits, others, ends, where)
    return x


def check_same_rows(starts: Array, limits: Array, others: Array, ends: Array, where: str) -> None:
    """Raises ShapeMismatchError unless two ragged tensors have rows of equal lengths."""
    if np.array_equal(limits, ends) and np.array_equal(starts, others):
        return
    if starts.shape != others.shape:
        difference = f"found rows {starts.shape} and {others.shape}"
    else:
        first, second = (limits - starts).reshape(-1), (ends - others).reshape(-1)
        row = int(np.flatnonzero(first != second)[0])
        difference = f"found lengths {first[row]} and {second[row]} of row {row}"
    hint = "help: pass operands with rows of equal lengths, or pad both: `R.ragged.to_padded(x)`"
    message = f"{where}: expected ragged axes with equal offsets, {difference}\n{hint}"
    raise ShapeMismatchError(message, code="E0732")


def _to_padded_info(x: Any, length: int | None = None, fill: float = 0) -> StructInfo:
    position = check_ragged(x)
    size = AnySize() if length is None else length
    axes = (*_leading(x), size, *_inner(x))
    assert position == len(_leading(x))
    return tensor(axes, x.element, x.vdevice)


@ragged_op(_to_padded_info, "to_padded")
def to_padded(x: Any, *, length: int | None = None, fill: float = 0) -> Array:
    """Returns a tensor with all rows of one length: the longest, or `length`."""
    return x.to_padded(length, fill)


def _from_padded_info(padded: Any, lengths: Any) -> StructInfo:
    axes, leading = _known_axes(padded), _known_axes(lengths)
    if axes is None or leading is None or not 0 < len(leading) < len(axes):
        message = f"expected lengths of each row of the tensor, found {lengths} for {padded}"
        hint = 'pass an int64 tensor with the axes before the ragged one: `R.Tensor(("n",))`'
        raise StructInfoError(Diagnostic(message, hint=hint, code="E0304"))
    if lengths.dtype != "int64":
        message = f"lengths: expected dtype int64, found {lengths.dtype}"
        hint = 'convert them: `R.astype(lengths, "int64")`'
        raise StructInfoError(Diagnostic(message, hint=hint, code="E0303"))
    count = len(leading)
    return tensor((*leading, Ragged(), *axes[count + 1 :]), padded.element, padded.vdevice)


@ragged_op(_from_padded_info, "from_padded")
def from_padded(padded: Array, lengths: Array) -> Any:
    """Builds a ragged tensor from a padded tensor and the length of each row."""
    return RaggedArray.from_padded(padded, lengths)


def label_of(info: Any) -> str:
    """Returns the name of the ragged axis, or an empty string."""
    axis = size_in(info.axes[check_ragged(info)])
    return axis.name if type(axis) is Ragged else ""
