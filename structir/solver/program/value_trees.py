"""Value trees: the solver values of a variable, structured as its StructInfo."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

from structir.analysis.axes import meet_tensors, tensor
from structir.ir.axes import size_in
from structir.ir.node import replace
from structir.ir.struct_info import (
    PrimStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from structir.solver.domains.terms import Element, Row, RowVar, row_vars
from structir.solver.program.axis_conversion import as_axes
from structir.solver.propagation.arithmetic import fresh
from structir.solver.solver import ConstraintSolver, Value

Tree: TypeAlias = "Value | tuple[Tree, ...] | None"  # None: no shape


def leaves(tree: Tree) -> Iterator[Value]:
    """Yields the values of a tree, in order."""
    if isinstance(tree, Value):
        yield tree
    elif tree is not None:
        for part in tree:
            yield from leaves(part)


def tensors(info: StructInfo | None) -> Iterator[TensorStructInfo]:
    """Yields the tensors in a StructInfo, in order."""
    if isinstance(info, TensorStructInfo):
        yield info
    elif isinstance(info, TupleStructInfo):
        for field in info.fields:
            yield from tensors(field)


def pairs(tree: Tree, info: StructInfo) -> Iterator[tuple[Value, TensorStructInfo]]:
    """Yields the values of a tree with their parts of a StructInfo."""
    if isinstance(tree, Value):
        if isinstance(info, TensorStructInfo):
            yield tree, info
    elif tree is not None and isinstance(info, TupleStructInfo):
        for part, field in zip(tree, info.fields, strict=False):
            yield from pairs(part, field)


def values_of(name: str, info: StructInfo | None) -> Tree:
    """Creates values for a result of this StructInfo."""
    match info:
        case TensorStructInfo() | PrimStructInfo():
            return Value(name)
        case TupleStructInfo(fields):
            return tuple([values_of(name, field) for field in fields])
    return None


def has_all_sizes(info: StructInfo) -> bool:
    """Returns whether all sizes of a StructInfo are known."""
    return all(type(part.dims) is tuple for part in tensors(info))


def refine_info(solver: ConstraintSolver, info: StructInfo, tree: Tree) -> StructInfo:
    """Returns a StructInfo with the solver's sizes and rows."""
    if isinstance(tree, Value) and isinstance(info, TensorStructInfo):
        return tensor(as_axes(solver, tree), info.dtype)
    if isinstance(tree, tuple) and isinstance(info, TupleStructInfo):
        parts = zip(info.fields, tree, strict=False)
        fields = tuple([refine_info(solver, field, part) for field, part in parts])
        return replace(info, fields=fields)
    return info


def meet_infos(info: StructInfo, deduced: StructInfo | None) -> StructInfo:
    """Returns a StructInfo with the sizes and labels that only the deduced one has."""
    if isinstance(info, TupleStructInfo) and isinstance(deduced, TupleStructInfo):
        if len(info.fields) != len(deduced.fields):
            return info
        parts = zip(info.fields, deduced.fields, strict=True)
        return replace(info, fields=tuple([meet_infos(field, part) for field, part in parts]))
    if not isinstance(info, TensorStructInfo) or not isinstance(deduced, TensorStructInfo):
        return info
    if type(info.dims) is tuple:
        return _with_labels(info, info.dims, deduced)
    return meet_tensors(info, deduced) or info


def _with_labels(
    info: TensorStructInfo, dims: tuple[Any, ...], deduced: TensorStructInfo
) -> StructInfo:
    """Returns a tensor of plain sizes with the labels of axes of the same size."""
    if deduced.axes is None or len(deduced.axes) != len(dims):
        return info
    pairs = zip(dims, deduced.axes, strict=True)
    return tensor(tuple([b if size_in(b) == a else a for a, b in pairs]), info.dtype)


def common_row(solver: ConstraintSolver, first: Row, second: Row) -> Row:
    """Returns the least general row of which both are instances (anti-unification)."""
    if not row_vars(first) and not row_vars(second) and len(first) == len(second):
        return tuple([_common(a, b) for a, b in zip(first, second, strict=True)])
    if first == second:
        return first
    end = 0
    while end < min(len(first), len(second)):
        lhs, rhs = first[-1 - end], second[-1 - end]
        if type(lhs) is RowVar or type(rhs) is RowVar:
            break
        end += 1
    tail = [_common(first[len(first) - end + k], second[len(second) - end + k]) for k in range(end)]
    return (RowVar(), *tail)


def _common(first: Element, second: Element) -> Element:
    return first if first == second else fresh()
