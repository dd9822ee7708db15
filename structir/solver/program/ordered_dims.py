"""Calls over new dims in order of occurrence, so that results do not depend on the age of dims.

The solver keeps the older one of two equal dims. In source text the first one of a function is the
oldest, which a program that is built or transformed need not satisfy.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from structir.analysis.substitution import Substitution
from structir.analysis.variables import free_symbols_in
from structir.ir.axes import RowVar
from structir.ir.binding_dims import (
    renamed,
    row_size_of,
    row_size_values,
    sizes_of_rows,
    standing_alone,
)
from structir.ir.dims import Sym, as_dim, as_sym
from structir.ir.expr import Call, Expr, PrimValue, ShapeExpr, Tuple, Var
from structir.ir.node import replace
from structir.ir.struct_info import StructInfo


def with_ordered_dims(call: Call) -> tuple[Call, Substitution]:
    """Returns a call whose operands have dims in order of occurrence, and the inverse renaming."""
    dims = _dims_of([arg.struct_info for arg in call.args if arg.struct_info is not None])
    if _is_ordered(dims, Sym) and _is_ordered(dims, RowVar):
        return call, Substitution()
    names = {dim: renamed(dim) for dim in dims}
    inverse = dict([_inverse(old, new) for old, new in names.items()])
    args = _renamed_args(call.args, Substitution(dims=_with_row_sizes(names)))
    return replace(call, args=args), Substitution(dims=_with_row_sizes(inverse))


def _is_ordered(dims: list[Any], kind: type[Any]) -> bool:
    orders = [dim.order for dim in dims if type(dim) is kind]
    return all(first < second for first, second in pairwise(orders))


def _dims_of(infos: list[StructInfo]) -> list[Any]:
    """Returns the dims and row variables of operands: first those that are an axis, in order."""
    alone = [v for v in standing_alone(infos) if type(v) in (Sym, RowVar)]
    others = {s for info in infos for s in free_symbols_in(info) if type(s) is Sym}
    others = {s for s in others.difference(alone) if row_size_of(s) is None}
    return [*alone, *sorted(others, key=lambda symbol: (symbol.name, symbol.order))]


def _with_row_sizes(names: Mapping[Any, Any]) -> dict[Any, Any]:
    return {**names, **row_size_values(sizes_of_rows(names), names)}


def _inverse(old: Any, new: Any) -> tuple[Any, Any]:
    """Returns the new variable and the old one as its replacement."""
    return (new[0], (old,)) if type(old) is RowVar else (as_sym(new), as_dim(old))


def _renamed_args(args: tuple[Expr, ...], names: Substitution) -> tuple[Expr, ...]:
    return tuple([_renamed(arg, names) for arg in args])


def _renamed(arg: Expr, names: Substitution) -> Expr:
    match arg:
        case Tuple(fields):
            return replace(arg, fields=_renamed_args(fields, names))
        case Var(name, StructInfo() as info):
            return Var(name, names.info(info), arg.span)
        case ShapeExpr() | PrimValue():
            return names.sizes(arg)  # type: ignore[no-any-return]
    return arg
