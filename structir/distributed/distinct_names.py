"""Names the symbolic dims and parameters of a function apart, because plans find both by name."""

from __future__ import annotations

import itertools
from collections.abc import Container, Iterable, Mapping
from typing import Any

from structir.analysis.substitution import Substitution
from structir.analysis.variables import symbols_in
from structir.ir.dims import Sym, as_dim, sym
from structir.ir.expr import Function, Var
from structir.ir.node import replace


def with_distinct_names(function: Function) -> Function:
    """Returns the function with one name for each dim and for each parameter.

    The first of several with one name keeps it; others are numbered, as in program text.
    """
    function = with_dim_names(function, dict(_renamed(symbols_in(function))))
    return with_param_names(function, dict(_renamed(function.params)))


def with_dim_names(function: Function, names: Mapping[Sym, str]) -> Function:
    """Returns the function with these names of symbolic dims."""
    dims = {s: as_dim(sym(name)) for s, name in names.items() if name != s.name}
    return Substitution(dims=dims).function(function) if dims else function


def with_param_names(function: Function, names: Mapping[Var, str]) -> Function:
    """Returns the function with these names of parameters."""
    renamed = [(p, names[p]) for p in function.params if names.get(p, p.name) != p.name]
    params = {p: type(p)(name, p.struct_info, p.span) for p, name in renamed}
    if not params:
        return function
    body = Substitution(params).sequence(function.body)
    return replace(function, params=tuple([params.get(p, p) for p in function.params]), body=body)


def unused_name(name: str, used: Container[str]) -> str:
    """Returns `name`, or a variant that is not in `used`."""
    while name in used:
        name += "_"
    return name


def _renamed(items: Iterable[Any]) -> list[tuple[Any, str]]:
    """Returns each item with a name that no other has."""
    items = list(items)
    first = {item.name: item for item in reversed(items)}
    names = set(first)
    return [
        (item, item.name if first[item.name] is item else _free(item.name, names)) for item in items
    ]


def _free(name: str, names: set[str]) -> str:
    """Returns the first numbered name that is not among the names, and adds it to them."""
    free = next(n for k in itertools.count(1) if (n := f"{name}_{k}") not in names)
    names.add(free)
    return free
