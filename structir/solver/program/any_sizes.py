"""Sizes that no variable of a program expresses: `_` in StructInfo."""

from __future__ import annotations

from itertools import count
from typing import Any

from structir.analysis.axes import axes_of, tensor
from structir.ir.axes import AnySize, Axes, is_anonymous
from structir.ir.dims import Poly, Sym, as_dim
from structir.ir.node import replace
from structir.ir.struct_info import StructInfo, TensorStructInfo, TupleStructInfo
from structir.solver.domains.terms import RowVar, symbol_of


def with_any_sizes(info: TensorStructInfo, axes: Axes, expressed: tuple[Any, ...]) -> StructInfo:
    """Returns a StructInfo with `_` for each size that no variable of the program expresses."""
    if any(e is None and type(axis) is RowVar for e, axis in zip(expressed, axes, strict=True)):
        return info
    if all(axis is None for axis in expressed):
        return TensorStructInfo(None, info.element, len(expressed), vdevice=info.vdevice)
    known = tuple([AnySize() if axis is None else axis for axis in expressed])
    return tensor(known, info.element, info.vdevice)


def name_any_sizes(info: StructInfo) -> StructInfo:
    """Returns a StructInfo with a dim per `_`, as a match_cast binds each of them."""
    if isinstance(info, TupleStructInfo):
        return replace(info, fields=tuple(map(name_any_sizes, info.fields)))
    if not isinstance(info, TensorStructInfo) or info.axes is None:
        return info
    names = (as_dim(Sym(f"_{index}")) for index in count())
    return tensor(
        tuple([next(names) if type(a) is AnySize else a for a in info.axes]),
        info.element,
        info.vdevice,
    )


def forget_any_sizes(info: StructInfo) -> StructInfo:
    """Returns a StructInfo with `_` for each dim that `name_any_sizes` names."""
    if isinstance(info, TupleStructInfo):
        return replace(info, fields=tuple(map(forget_any_sizes, info.fields)))
    axes = axes_of(info) if isinstance(info, TensorStructInfo) else None
    if axes is None:
        return info
    symbols = [symbol_of(axis) if type(axis) is Poly else None for axis in axes]
    named = [s is not None and is_anonymous(s.name) for s in symbols]
    forgotten = [AnySize() if n else axis for axis, n in zip(axes, named, strict=True)]
    return tensor(tuple(forgotten), info.element, info.vdevice)  # type: ignore[attr-defined]
