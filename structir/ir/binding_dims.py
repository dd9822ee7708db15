"""The variables that parameters bind: dims that are a size by themselves, rows and dtypes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from structir.ir.axes import RowVar, size_in
from structir.ir.dims import Poly, Sym, as_dim, as_sym
from structir.ir.dims import sym as new_sym
from structir.ir.dtype import DtypeVar, is_dtype_var
from structir.ir.row_sizes import sizes_of_rows
from structir.ir.struct_info import FuncStructInfo, StructInfo, TensorStructInfo, field_kinds


def standing_alone(infos: Iterable[StructInfo]) -> dict[Any, None]:
    """Returns row and dtype variables, and the symbolic variables that are a size by themselves.

    They are in order of occurrence. Variables inside a callable are bound by it and excluded.
    """
    variables: dict[Any, None] = {}
    todo = list(infos)[::-1]
    while todo:
        info = todo.pop()
        if type(info) is TensorStructInfo and info.axes is None:  # the common case
            for dim in info.dims if type(info.dims) is tuple else ():
                symbol = as_sym(dim)
                if symbol is not None:
                    variables[symbol] = None
            if info.dtype_var is not None:
                variables[info.dtype_var] = None
            continue
        if isinstance(info, FuncStructInfo):
            continue
        for name, kind in field_kinds(type(info)):
            value = getattr(info, name)
            if kind == "info" and value is not None:
                todo.append(value)
            elif kind == "infos" and value is not None:
                todo += value[::-1]
            elif kind == "dim" or kind == "dims":
                variables |= dict.fromkeys(_alone(value))
            elif kind == "axes" and value is not None:
                variables |= dict.fromkeys(_alone_in_axes(value))
            elif kind == "dtype_var" and value is not None:
                variables[value] = None
    return variables


def _alone(value: Any) -> list[Sym]:
    """Returns the sizes that are variables; none for a shape variable or an unknown size."""
    dims = value if type(value) is tuple else (value,)
    variables = [as_sym(dim) for dim in dims if type(dim) is Poly]
    return [sym for sym in variables if sym is not None]


def _alone_in_axes(axes: Any) -> list[Any]:
    """Returns the row variables and the sizes that are variables, also of labelled axes."""
    sizes = tuple([size_in(axis) for axis in axes])
    return [*_alone(sizes), *[axis for axis in sizes if type(axis) is RowVar]]


def bound_dims(infos: Iterable[StructInfo]) -> frozenset[Any]:
    """Returns the symbolic, row and dtype variables that these parameters bind.

    A row variable binds its number of elements and its rank.
    """
    variables = standing_alone(infos)
    return frozenset([*variables, *sizes_of_rows(variables)])


def own_dims(function: FuncStructInfo) -> frozenset[Any]:
    """Returns the symbolic, row and dtype variables that a function type binds."""
    return frozenset() if function.params is None else bound_dims(function.params)


def renamed(variable: Any) -> Any:
    """Returns a replacement for a bound variable: a new one of its name and class."""
    if type(variable) is RowVar:
        return (RowVar(variable.name),)
    return DtypeVar(variable.name) if type(variable) is DtypeVar else as_dim(new_sym(variable.name))


def binding_hint(name: str) -> str:
    """Returns an edit that binds a dim, a row variable or a dtype variable."""
    if is_dtype_var(name):
        return f'write it as the dtype of a parameter: `x: R.Tensor(dtype="{name}")`'
    return f'bind it as a whole size of a parameter or of R.match_cast: `R.Tensor(("{name}",))`'
