"""The symbolic dims and row variables that parameters bind: those that are a whole size."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from structir.ir.axes import RowVar, size_in
from structir.ir.dims import Poly, Sym, as_sym
from structir.ir.struct_info import FuncStructInfo, StructInfo, field_kinds


def standing_alone(infos: Iterable[StructInfo]) -> dict[Any, None]:
    """The symbolic variables that are a size of their own in these infos, and the row variables, in
    order of occurrence.

    What stands inside a callable is bound by that callable, and left out.
    """
    found: dict[Any, None] = {}
    todo = list(infos)[::-1]
    while todo:
        info = todo.pop()
        if isinstance(info, FuncStructInfo):
            continue
        for name, kind in field_kinds(type(info)):
            value = getattr(info, name)
            if kind == "info" and value is not None:
                todo.append(value)
            elif kind == "infos" and value is not None:
                todo += value[::-1]
            elif kind == "dim" or kind == "dims":
                found |= dict.fromkeys(_alone(value))
            elif kind == "axes" and value is not None:
                found |= dict.fromkeys(_alone_in_axes(value))
    return found


def _alone(value: Any) -> list[Sym]:
    """The variables among one size or several; a shape variable and an unknown size hold none."""
    dims = value if type(value) is tuple else (value,)
    alone = (as_sym(dim) for dim in dims if type(dim) is Poly)
    return [sym for sym in alone if sym is not None]


def _alone_in_axes(axes: Any) -> list[Any]:
    """The variables among axes, labelled ones included, and the row variables."""
    sizes = tuple([size_in(axis) for axis in axes])
    return [*_alone(sizes), *[axis for axis in sizes if type(axis) is RowVar]]


def bound_dims(infos: Iterable[StructInfo]) -> frozenset[Any]:
    """The symbolic variables and rows that parameters of these infos bind."""
    return frozenset(standing_alone(infos))


def own_dims(function: FuncStructInfo) -> frozenset[Any]:
    """The symbolic variables and rows that a function type binds itself."""
    return frozenset() if function.params is None else bound_dims(function.params)
