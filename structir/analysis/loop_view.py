"""How a call of an op applies a function: its operands, the axes of slices, and the states."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from structir.analysis.axes import axes_of, tensor
from structir.ir.axes import AnySize, RowVar
from structir.ir.expr import Call, Expr
from structir.ir.struct_info import StructInfo, TensorStructInfo, TupleStructInfo

Path = tuple[int, ...]
AxisList = tuple[int, ...]


@attrs.frozen
class Sliced:
    """The operand of one parameter: its path among the arguments, and the axes without which the
    function receives it; no axes for a value that is passed whole."""

    path: Path
    axes: AxisList = ()

    def of(self, call: Call) -> StructInfo | None:
        """Returns the StructInfo of the operand."""
        info: StructInfo | None = call.args[self.path[0]].struct_info
        for member in self.path[1:]:
            info = info.fields[member] if isinstance(info, TupleStructInfo) else None
        return info


@attrs.frozen
class LoopView:
    """A call that applies a function to slices.

    `operands` has one entry for each parameter of `body`. The first `states` results of `body` are
    the next values of the first operands; further results are stacked at `stacked`.
    """

    body: Expr
    operands: tuple[Sliced, ...]
    states: int = 0
    stacked: AxisList = (0,)

    def elements(self, call: Call) -> list[StructInfo | None]:
        """Returns the StructInfo of the first value of each parameter."""
        infos = [each.of(call) for each in self.operands]
        return [
            None if info is None else slice_info(info, each.axes)
            for info, each in zip(infos, self.operands, strict=True)
        ]


def in_order(axes: Sequence[int]) -> AxisList | None:
    """Returns axes in the order in which they are inserted into a slice; None for axes that are
    counted from both ends."""
    if all([axis >= 0 for axis in axes]):
        return tuple(sorted(axes))
    return tuple(sorted(axes, reverse=True)) if all([axis < 0 for axis in axes]) else None


def slice_info(info: StructInfo, axes: AxisList) -> StructInfo:
    """Returns the StructInfo of slices without these axes."""
    if isinstance(info, TupleStructInfo):
        return TupleStructInfo(tuple([slice_info(f, axes) for f in info.fields]), info.names)
    if not isinstance(info, TensorStructInfo) or not axes:
        return info
    known = axes_of(info)
    rank = len(known) if known is not None else 0
    if known is None or any([type(axis) is RowVar for axis in known]):
        return _open_slice(info, known or (), axes)
    dropped = {axis % rank for axis in axes}
    return tensor(tuple([a for k, a in enumerate(known) if k not in dropped]), info.element)


def _open_slice(info: TensorStructInfo, known: Any, axes: AxisList) -> TensorStructInfo:
    """Returns a slice of a tensor of unknown rank: with its row variable, if the axes are at its
    known ends."""
    before = next((k for k, a in enumerate(known) if type(a) is RowVar), 0)
    after = next((k for k, a in enumerate(reversed(known)) if type(a) is RowVar), 0)
    if not known or not all([-after <= axis < before for axis in axes]):
        return TensorStructInfo(dtype=info.element)
    dropped = {axis % len(known) for axis in axes}
    return tensor(tuple([a for k, a in enumerate(known) if k not in dropped]), info.element)


def sizes_of(info: StructInfo, axes: AxisList) -> list[Any]:
    """Returns the sizes of axes of the first tensor in a StructInfo; None for unknown ones."""
    if isinstance(info, TupleStructInfo):
        return next((sizes_of(f, axes) for f in info.fields), [None] * len(axes))
    known = axes_of(info) if isinstance(info, TensorStructInfo) else None
    sizes = []
    for axis in axes:
        size = _axis_at(known, axis)
        sizes.append(None if type(size) in (AnySize, RowVar) else size)
    return sizes


def _axis_at(known: Any, axis: int) -> Any:
    """Returns an axis that is before, or counted from the end after, every row variable."""
    if known is None or not -len(known) <= axis < len(known):
        return AnySize()
    passed = known[: axis + 1] if axis >= 0 else known[axis:]
    return AnySize() if any([type(a) is RowVar for a in passed]) else known[axis]


def stacked_info(info: StructInfo, axes: AxisList, sizes: Sequence[Any]) -> StructInfo:
    """Returns the StructInfo of results that are stacked at these axes."""
    if isinstance(info, TupleStructInfo):
        fields = tuple([stacked_info(f, axes, sizes) for f in info.fields])
        return TupleStructInfo(fields, info.names)
    if not isinstance(info, TensorStructInfo):
        return info
    known = axes_of(info)
    if known is None:
        return TensorStructInfo(dtype=info.element)
    result = list(known)
    for axis, size in sorted(zip(axes, sizes, strict=True), key=lambda pair: pair[0]):
        position = axis if axis >= 0 else len(result) + 1 + axis
        if any([type(a) is RowVar for a in result]) and not _is_at_end(result, axis):
            return TensorStructInfo(dtype=info.element)
        result.insert(position, AnySize() if size is None else size)
    return tensor(tuple(result), info.element)


def _is_at_end(axes: Sequence[Any], axis: int) -> bool:
    """Whether an axis is inserted before, or counted from the end after, every row variable."""
    passed = axes[:axis] if axis >= 0 else axes[len(axes) + 1 + axis :]
    return not any([type(a) is RowVar for a in passed])
