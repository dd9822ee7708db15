"""Schemes of solved functions and of loops over them, generalised over shapes."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

from structir.analysis.axes import axes_of
from structir.analysis.loop_view import AxisList, in_order
from structir.ir.axes import size_in
from structir.ir.binding_dims import own_dims
from structir.ir.polynomial import Dim, Poly, Sym
from structir.ir.struct_info import FuncStructInfo, TensorStructInfo
from structir.solver.constraints.constraint import (
    AxisVariable,
    Constraint,
    DimEq,
    Ge,
    RankLe,
    RowEq,
)
from structir.solver.constraints.scheme import Scheme
from structir.solver.domains.terms import Element, Row, RowVar, is_ragged, variables
from structir.solver.program.axis_conversion import as_row
from structir.solver.program.value_trees import tensors
from structir.solver.propagation.arithmetic import fresh
from structir.solver.solver import ConstraintSolver, Value


def generalise(
    solver: ConstraintSolver, params: Sequence[Value], results: Sequence[Value]
) -> Scheme:
    """Returns the scheme of a solved function: its rows and residual constraints."""
    values = (*params, *results)
    shapes = [solver.shape(value) for value in values]
    equations: Sequence[Constraint] = ()
    if solver.store.labelled:
        shapes, equations = _by_axis(shapes, [solver.axis_identities(value) for value in values])

    def resolve_dim(dim: Dim) -> Dim:
        return solver.resolve((dim,))[0]  # type: ignore[return-value]

    constraints = [c.map_terms(resolve_dim, solver.resolve) for c in solver.residual]
    return Scheme(
        tuple(shapes[: len(params)]),
        tuple(shapes[len(params) :]),
        (*equations, *constraints, *_bounds(solver)),
    )


def _by_axis(
    rows: Sequence[Row], identities: Sequence[Sequence[Any]]
) -> tuple[list[Row], list[Constraint]]:
    """Returns rows with a template variable for each axis, and the equations of their sizes.

    A label belongs to an axis: axes of equal size share a variable only if they are unified.
    """
    named: dict[Any, Element] = {}
    equations: list[Constraint] = []

    def template(element: Element, identity: Any) -> Element:
        if type(element) is RowVar or is_ragged(element):  # type: ignore[arg-type]
            return element
        known = named.get((identity, element)) if identity is not None else None
        if known is None:
            known = named[identity, element] = fresh()
            equations.extend([AxisVariable(known), DimEq(known, element)])  # type: ignore[arg-type]
        return known

    pairs = zip(rows, identities, strict=True)
    return [tuple(map(template, row, keys)) for row, keys in pairs], equations


def _bounds(solver: ConstraintSolver) -> Iterator[Constraint]:
    """Yields the bounds of open variables as constraints."""
    store = solver.store
    for symbol, low in store.lows.items():
        if symbol not in store.dims:
            yield Ge(Poly({(symbol,): 1}, 0), low)
    for symbol, high in store.highs.items():
        if symbol not in store.dims:
            yield Ge(Poly({(symbol,): -1}, high), 0)
    for variable, low in store.rank_lows.items():
        if variable not in store.row_of:
            yield RankLe((1,) * low, (variable,))
    for variable, high in store.rank_highs.items():
        if variable not in store.row_of:
            yield RankLe((variable,), (1,) * high)


def type_scheme(info: FuncStructInfo, labelled: bool) -> Scheme:
    """Returns the scheme of a function of which only the type is known; `labelled` states whether
    axes of the program have labels.

    Its own dims are instantiated at each call; other dims belong to the program.
    """
    own = own_dims(info)
    params = [part for param in info.params or () for part in tensors(param)]
    parts = [*params, *tensors(info.ret)]
    rows = [_row_of(part, own) for part in parts]
    axes = [size_in(axis) for part in parts for axis in axes_of(part) or ()]
    named = {symbol for axis in axes if type(axis) is Poly for symbol in variables(axis)}
    count = len(params)
    return scheme_of_type(rows, count, labelled, frozenset(named - own))


def scheme_of_type(
    rows: Sequence[Row], count: int, labelled: bool, shared: frozenset[Sym] = frozenset()
) -> Scheme:
    """Returns the scheme of a callee with these rows, of which `count` are parameters.

    A declared type does not state which of its axes have one label.
    """
    equations: Sequence[Constraint] = ()
    if labelled:
        rows, equations = _by_axis(rows, [[None] * len(row) for row in rows])
    return Scheme(tuple(rows[:count]), tuple(rows[count:]), tuple(equations), shared)


def _row_of(info: TensorStructInfo, own: Collection[Any]) -> Row:
    """Returns the row of a tensor; a row variable of the program becomes an unknown one."""
    axes = axes_of(info)
    if axes is None or any(type(axis) is RowVar and axis not in own for axis in axes):
        return (RowVar(),)
    return as_row(axes)


def loop_scheme(
    cell: Scheme, axes: Sequence[AxisList], states: int, stacked: AxisList
) -> Scheme | None:
    """Returns the scheme of a loop over a function.

    `axes` are those that the slice of each operand lacks. The first `states` results are states,
    which keep their rows; further results are stacked. None where the axes have no order.
    """
    steps = tuple([fresh("steps") for _ in range(max(map(len, axes)))])
    constraints: list[Constraint] = []
    pairs = zip(cell.operands, axes, strict=True)
    operands = [with_axes(row, each, steps, constraints) for row, each in pairs]
    results = [with_axes(row, stacked, steps, constraints) for row in cell.results[states:]]
    if None in operands or None in results:
        return None
    invariants = [
        RowEq(after, before)
        for after, before in zip(cell.results[:states], cell.operands[:states], strict=True)
    ]
    return Scheme(
        tuple(operands),  # type: ignore[arg-type]
        (*cell.operands[:states], *results),  # type: ignore[arg-type]
        (*cell.constraints, *invariants, *constraints),
    )


def with_axes(
    row: Row, axes: AxisList, sizes: Sequence[Dim], constraints: list[Constraint]
) -> Row | None:
    """Returns a row with further axes, at these positions of the result.

    Appends an equation where a position is behind a row variable. None for axes that are counted
    from both ends.
    """
    order = in_order(axes)
    if order is None:
        return None
    size_at = dict(zip(axes, sizes, strict=False))
    for axis in order:
        row = _with_axis(row, axis, size_at[axis], constraints)
    return row


def _with_axis(row: Row, axis: int, size: Dim, constraints: list[Constraint]) -> Row:
    count = axis if axis >= 0 else -1 - axis
    passed = row[:count] if axis >= 0 else row[len(row) - count :]
    if len(passed) < count or any([type(element) is RowVar for element in passed]):
        passed, rest = tuple([fresh() for _ in range(count)]), RowVar("rest")
        split: Row = (*passed, rest) if axis >= 0 else (rest, *passed)
        constraints.append(RowEq(row, split))
        row = split
    cut = count if axis >= 0 else len(row) - count
    return (*row[:cut], size, *row[cut:])
