"""Trees of values: what a variable is to the solver, and the tensors of its StructInfo."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from structir.analysis.axes import tensor
from structir.ir.struct_info import (
    PrimStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from structir.solver.domains.terms import Element, Row, RowVar, row_vars
from structir.solver.program.axis_conversion import as_axes
from structir.solver.propagation.arithmetic import fresh
from structir.solver.solver import Solver, Value

Tree: TypeAlias = "Value | tuple[Tree, ...] | None"  # None: nothing that has a shape


def leaves(tree: Tree) -> Iterator[Value]:
    """The values of a tree that have shapes, in order."""
    if isinstance(tree, Value):
        yield tree
    elif tree is not None:
        for part in tree:
            yield from leaves(part)


def tensors(info: StructInfo | None) -> Iterator[TensorStructInfo]:
    """The tensors in a struct info, in order."""
    if isinstance(info, TensorStructInfo):
        yield info
    elif isinstance(info, TupleStructInfo):
        for field in info.fields:
            yield from tensors(field)


def pairs(tree: Tree, info: StructInfo) -> Iterator[tuple[Value, TensorStructInfo]]:
    """The values of a tree, each with what a struct info says of it."""
    if isinstance(tree, Value):
        if isinstance(info, TensorStructInfo):
            yield tree, info
    elif tree is not None and isinstance(info, TupleStructInfo):
        for part, field in zip(tree, info.fields, strict=False):
            yield from pairs(part, field)


def values_of(name: str, info: StructInfo | None) -> Tree:
    """New values for a result of this struct info."""
    match info:
        case TensorStructInfo() | PrimStructInfo():
            return Value(name)
        case TupleStructInfo(fields):
            return tuple([values_of(name, field) for field in fields])
    return None


def has_all_sizes(info: StructInfo) -> bool:
    """Whether no size in it is unknown."""
    return all(type(part.dims) is tuple for part in tensors(info))


def refine_info(solver: Solver, info: StructInfo, tree: Tree) -> StructInfo:
    """A struct info with the solver's sizes and rows."""
    if isinstance(tree, Value) and isinstance(info, TensorStructInfo):
        return tensor(as_axes(solver, tree), info.dtype)
    if isinstance(tree, tuple) and isinstance(info, TupleStructInfo):
        parts = zip(info.fields, tree, strict=False)
        return TupleStructInfo(tuple([refine_info(solver, field, part) for field, part in parts]))
    return info


def common_row(solver: Solver, one: Row, other: Row) -> Row:
    """The least general row that both are: equal parts stay, others become new."""
    if not row_vars(one) and not row_vars(other) and len(one) == len(other):
        return tuple([_common(a, b) for a, b in zip(one, other, strict=True)])
    if one == other:
        return one
    end = 0
    while end < min(len(one), len(other)):
        left, right = one[-1 - end], other[-1 - end]
        if type(left) is RowVar or type(right) is RowVar:
            break
        end += 1
    tail = [_common(one[len(one) - end + k], other[len(other) - end + k]) for k in range(end)]
    return (RowVar(), *tail)


def _common(one: Element, other: Element) -> Element:
    return one if one == other else fresh()
