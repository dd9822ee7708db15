"""Value trees: the solver values of a variable, structured as its StructInfo."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

from structir.analysis.axes import axes_of, meet_tensors, tensor
from structir.ir.axes import AnySize, size_in
from structir.ir.expr import Call, Expr
from structir.ir.node import replace
from structir.ir.polynomial import Poly
from structir.ir.struct_info import (
    FuncStructInfo,
    PrimStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from structir.lazy import provided_module
from structir.solver.constraints.assumptions import non_negative
from structir.solver.constraints.constraint import Constraint
from structir.solver.domains.terms import Element, Row, RowVar, row_vars, symbol_of
from structir.solver.program.axis_conversion import as_axes
from structir.solver.propagation.arithmetic import fresh
from structir.solver.solver import ConstraintSolver, Value

schemes = provided_module("constraint schemes")

Tree: TypeAlias = "Value | tuple[Tree, ...] | None"  # None: no shape


def leaves(tree: Tree) -> Iterator[Value]:
    """Yields the values of a tree, in order."""
    if isinstance(tree, Value):
        yield tree
    elif tree is not None:
        for part in tree:
            yield from leaves(part)


def aligned(*trees: Tree) -> Iterator[tuple[Value, ...]]:
    """Yields the values at the same position of every tree; other positions have none."""
    if all([isinstance(tree, Value) for tree in trees]):
        yield trees  # type: ignore[misc]
    elif all([isinstance(tree, tuple) for tree in trees]):
        for parts in zip(*trees, strict=False):
            yield from aligned(*parts)


def operands_of(callee: object, trees: Sequence[Tree]) -> Iterator[Value]:
    """Yields the values of arguments; of a function, those that its parameters declare tensors."""
    info = getattr(callee, "struct_info", None)
    params = info.params if isinstance(info, FuncStructInfo) else None
    if params is None or len(params) != len(trees):
        yield from leaves(tuple(trees))
        return
    for param, tree in zip(params, trees, strict=True):
        yield from [value for _, value in aligned(values_of("", param), tree)]


def open_sizes(shape: Row, info: TensorStructInfo) -> list[Any]:
    """Returns the sizes of a parameter that are neither declared nor a single variable."""
    declared = axes_of(info) or ()
    is_open = [type(size_in(axis)) is AnySize for axis in declared]
    rows = [index for index, axis in enumerate(declared) if type(axis) is RowVar]
    if len(rows) == 1:  # its axes are those that the others leave
        is_open[rows[0] : rows[0] + 1] = [True] * (len(shape) - len(declared) + 1)
    if len(is_open) != len(shape):
        is_open = [not declared] * len(shape)
    pairs = zip(shape, is_open, strict=True)
    return [s for s, open_ in pairs if open_ and type(s) is Poly and symbol_of(s) is None]


def tensors(info: StructInfo | None) -> Iterator[TensorStructInfo]:
    """Yields the tensors in a StructInfo, in order."""
    if isinstance(info, TensorStructInfo):
        yield info
    elif isinstance(info, TupleStructInfo):
        for field in info.fields:
            yield from tensors(field)


def elements(info: StructInfo | None) -> Iterator[TensorStructInfo | PrimStructInfo]:
    """Yields the tensors and scalars of a StructInfo, which have a dtype."""
    if isinstance(info, TensorStructInfo | PrimStructInfo):
        yield info
    elif isinstance(info, TupleStructInfo):
        for field in info.fields:
            yield from elements(field)


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


def result_bounds(value: Expr) -> dict[Constraint, None]:
    """Returns the lower bound of every computed size of a call's result, as the call requires."""
    infos = tensors(value.struct_info) if isinstance(value, Call) else ()
    return dict.fromkeys([bound for info in infos for bound in non_negative(axes_of(info))])


def sized_parts(tree: Tree, call: Call) -> list[tuple[Value, TensorStructInfo]]:
    """Returns the results of a call with sizes that the solver must not infer anew.

    Known sizes may select another index signature, without the conditions of the deduced one.
    """
    info = call.struct_info
    if info is None or not schemes.depends_on_sizes(call):
        return []
    return [(value, part) for value, part in pairs(tree, info) if type(part.dims) is tuple]


def has_unknown_rank(info: StructInfo | None) -> bool:
    """Returns whether a StructInfo is of a tensor of unknown rank."""
    return isinstance(info, TensorStructInfo) and info.ndim is None


def has_all_sizes(info: StructInfo) -> bool:
    """Returns whether all sizes of a StructInfo are known."""
    return all(type(part.dims) is tuple for part in tensors(info))


def has_numbers(info: StructInfo) -> bool:
    """Returns whether all sizes of a StructInfo are numbers."""
    sizes = [part.dims for part in tensors(info)]
    return all(type(dims) is tuple and all([type(d) is int for d in dims]) for dims in sizes)


def refine_info(solver: ConstraintSolver, info: StructInfo, tree: Tree) -> StructInfo:
    """Returns a StructInfo with the solver's sizes and rows."""
    if isinstance(tree, Value) and isinstance(info, TensorStructInfo):
        if info.axes is None and not solver.store.labelled and solver.shape(tree) == info.dims:
            return info
        return tensor(as_axes(solver, tree), info.element, info.vdevice)
    if isinstance(tree, tuple) and isinstance(info, TupleStructInfo):
        parts = zip(info.fields, tree, strict=False)
        fields = tuple([refine_info(solver, field, part) for field, part in parts])
        return replace(info, fields=fields)
    return info


def meet_infos(info: StructInfo, deduced: StructInfo | None) -> StructInfo:
    """Returns a StructInfo with the sizes and labels that only the deduced one has."""
    if info == deduced:
        return info
    if isinstance(info, TupleStructInfo) and isinstance(deduced, TupleStructInfo):
        if len(info.fields) != len(deduced.fields):
            return info
        parts = zip(info.fields, deduced.fields, strict=True)
        return replace(info, fields=tuple([meet_infos(field, part) for field, part in parts]))
    if not isinstance(info, TensorStructInfo) or not isinstance(deduced, TensorStructInfo):
        return info
    if type(info.dims) is tuple:
        return _with_labels(info, deduced)
    return meet_tensors(info, deduced) or info


def _with_labels(info: TensorStructInfo, deduced: TensorStructInfo) -> StructInfo:
    """Returns a tensor of known sizes with the labels that only axes of the deduced one have."""
    if deduced.axes is None:  # all its axes are plain
        return info
    axes = axes_of(info) or ()
    if len(deduced.axes) != len(axes):
        return info
    pairs = zip(axes, deduced.axes, strict=True)
    merged = tuple([b if size_in(b) == a else a for a, b in pairs])
    return tensor(merged, info.element, info.vdevice)


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
