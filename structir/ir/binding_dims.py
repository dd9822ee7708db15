"""The variables that parameters bind: dims that are a size by themselves, rows and dtypes; sizes of
row variables.

`elements(*s)` is the number of elements of a row, and `rank(*s)` its rank. Each is a symbolic
variable that belongs to a row variable. Conditions (`R.require`) contain them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, MutableMapping
from functools import reduce
from operator import mul
from typing import Any
from weakref import WeakKeyDictionary

from structir.ir.axes import RowVar, size_in
from structir.ir.dims import as_dim, as_sym
from structir.ir.dims import sym as new_sym
from structir.ir.dtype import DtypeVar, is_dtype_var
from structir.ir.polynomial import Dim, Poly, Sym
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


ELEMENTS, RANK = "elements", "rank"
FUNCTIONS = (ELEMENTS, RANK)

_ROWS: WeakKeyDictionary[Sym, tuple[str, RowVar]] = WeakKeyDictionary()


def size_of_row(function: str, row: RowVar) -> Dim:
    """Returns `elements(*s)` or `rank(*s)` of a row variable."""
    symbol = row.sizes.get(function)
    if symbol is None:
        symbol = row.sizes[function] = Sym(f"{function}(*{row.name})")
        _ROWS[symbol] = function, row
    return Poly({(symbol,): 1}, 0)


def row_size_of(symbol: Sym) -> tuple[str, RowVar] | None:
    """Returns the function and the row variable of a symbol; None for any other symbol."""
    return _ROWS.get(symbol)


def size_of_axes(function: str, axes: Iterable[Any]) -> Dim:
    """Returns the number of elements or of axes of a row, which may contain row variables."""
    parts = [_part(function, axis) for axis in axes]
    return sum(parts) if function == RANK else reduce(mul, parts, 1)


def _part(function: str, axis: Any) -> Any:
    if type(axis) is RowVar:
        return size_of_row(function, axis)
    return 1 if function == RANK else size_in(axis)


def row_size_values(symbols: Iterable[Sym], rows: Mapping[Any, Any]) -> dict[Sym, Dim]:
    """Returns the values of the symbols that belong to one of these row variables."""
    values: dict[Sym, Dim] = {}
    for symbol in symbols if _ROWS else ():
        function, row = _ROWS.get(symbol, ("", None))
        if row is not None and row in rows:
            values[symbol] = size_of_axes(function, rows[row])
    return values


def bind_row_sizes(symbols: Iterable[Sym], sizes: MutableMapping[Any, Any]) -> None:
    """Adds the values of the symbols that belong to bound row variables."""
    sizes.update(row_size_values(symbols, sizes))


def sizes_of_rows(variables: Iterable[Any]) -> list[Sym]:
    """Returns the existing symbols that belong to the row variables among these variables."""
    rows = [variable for variable in variables if type(variable) is RowVar]
    return [symbol for row in rows for symbol in row.sizes.values()]
