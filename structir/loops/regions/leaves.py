"""Tuple parameters as the tensors in them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from structir.ir.expr import Expr, Tuple, Var
from structir.ir.struct_info import TupleStructInfo


def as_leaves(param: Var) -> Expr:
    """Returns a parameter as an expression: a tuple of new variables, named like `param.field`.

    Parameters of other kinds are returned unchanged.
    """
    info = param.struct_info
    if not isinstance(info, TupleStructInfo):
        return param
    parts = [f".{n}" for n in info.names or ()] or [f"[{k}]" for k in range(len(info.fields))]
    fields = [Var(param.name + p, f) for p, f in zip(parts, info.fields, strict=True)]
    return Tuple(tuple([as_leaves(field) for field in fields]))


def leaves_of(params: Sequence[Var]) -> tuple[Var, ...]:
    """Returns the variables of parameters and of the fields of tuples, in order."""
    return tuple([leaf for param in params for leaf in _variables(as_leaves(param))])


def _variables(expr: Expr) -> Iterator[Any]:
    if isinstance(expr, Tuple):
        for field in expr.fields:
            yield from _variables(field)
    else:
        yield expr


def flatten(values: Sequence[Any]) -> list[Any]:
    """Returns the values in nested tuples, in order."""
    flat: list[Any] = []
    for value in values:
        if isinstance(value, tuple):
            flat += flatten(value)
        else:
            flat.append(value)
    return flat
