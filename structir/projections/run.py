"""Executes index specs with NumPy: the reference for compiled kernels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache, reduce
from math import prod
from typing import Any

import attrs

from structir.errors import StructIRError
from structir.ir.dims import Sym
from structir.ir.dtype import NARROW_FLOATS, SMALL_INTS, dtype_of, is_float, is_int, numpy_dtype
from structir.lazy import lazy_module
from structir.projections.access import (
    LoadedView,
    LoopSpace,
    Mask,
    intersect_masks,
    load,
    positions,
    writeable_view,
)
from structir.projections.blocks import evaluate_in_blocks
from structir.projections.contract import contract
from structir.projections.conversion import convert_dtype
from structir.projections.monoid import MONOIDS, exact_sum_dtype
from structir.projections.spec import Condition, IndexSpec, Read, Statement, Write, scan_of
from structir.projections.values import EvaluationPoint, ufunc, widened

np = lazy_module("numpy")

Array = Any


@attrs.frozen(eq=False)
class StatementPlan:
    """A statement with its reads, those of indices first, and its loop space: whole, and of the
    parallel index variables."""

    statement: Statement
    reads: tuple[Read, ...]
    space: LoopSpace
    inner: LoopSpace

    @staticmethod
    def of(
        statement: Statement, extents: Mapping[Sym, int], sizes: Mapping[Sym, int]
    ) -> StatementPlan:
        """Returns the plan of a statement."""
        reads = tuple(sorted(statement.reads, key=_reads_data))
        space = LoopSpace((*statement.parallel, *statement.reduce), extents, sizes)
        return StatementPlan(statement, reads, space, space.only(statement.parallel))


@attrs.frozen(eq=False)
class SpecPlan:
    """What the evaluation of a spec derives from sizes alone."""

    sizes: Mapping[Sym, int]
    statements: tuple[StatementPlan, ...]
    shapes: tuple[tuple[int, ...], ...]  # of the results


@attrs.frozen(eq=False)
class SpecRun:
    """The state of one evaluation: the spec, its operands, sizes, and the results so far."""

    spec: IndexSpec
    operands: Sequence[Array]
    shapes: tuple[tuple[int, ...], ...]
    results: list[Array | None]


def run(
    spec: IndexSpec, operands: Sequence[Array], sizes: Mapping[Sym, int] | None = None
) -> list[Array]:
    """Returns the results of a spec for these operands.

    `sizes` gives the values of symbolic dims.
    """
    plan = _plan(spec, tuple(sizes.items()) if sizes else ())
    state = SpecRun(spec, operands, plan.shapes, [None] * len(spec.results))
    for statement in plan.statements:
        _run_statement(state, statement)
    return [_initial_result(state, k) for k in range(len(spec.results))]


@lru_cache(1024)
def _plan(spec: IndexSpec, sizes: tuple[tuple[Sym, int], ...]) -> SpecPlan:
    values = dict(sizes)
    point = LoopSpace((), {}, values)
    extents = {index_var: point.size(extent) for index_var, extent in spec.extents.items()}
    return SpecPlan(
        values,
        tuple([StatementPlan.of(statement, extents, values) for statement in spec.statements]),
        tuple([tuple([point.size(d) for d in info.dims]) for info in spec.results]),
    )


def _run_statement(state: SpecRun, plan: StatementPlan) -> None:
    statement, space = plan.statement, plan.space.unevaluated()
    loaded = load_reads(state, plan, space)
    exists = reduce(
        intersect_masks, [_condition_mask(c, space) for c in statement.conditions], None
    )
    exists = reduce(intersect_masks, [view.exists for view in loaded.values()], exists)
    for write in statement.writes:
        value, remaining_mask = _combine(state, statement, space, write, loaded, exists)
        _store(state, plan, write, value, remaining_mask, loaded)


def load_reads(state: SpecRun, plan: StatementPlan, space: LoopSpace) -> dict[str, LoadedView]:
    """Returns the values of each read."""
    loaded: dict[str, LoadedView] = {}
    for read in plan.reads:
        values = {name: view.values for name, view in loaded.items()}
        loaded[read.name] = load(state.operands[read.operand], read, space, values)
    return loaded


def _reads_data(read: Read) -> bool:
    return any(e.data is not None for e in read.entries)


def _condition_mask(condition: Condition, space: LoopSpace) -> Mask:
    """Returns the mask of the points at which a condition holds."""
    lhs, rhs = space.index(condition.left), space.index(condition.right)
    return ufunc(COMPARISONS[condition.op])(lhs, rhs)


COMPARISONS = {
    "lt": "less",
    "le": "less_equal",
    "gt": "greater",
    "ge": "greater_equal",
    "eq": "equal",
    "ne": "not_equal",
}


def _combine(
    state: SpecRun,
    statement: Statement,
    space: LoopSpace,
    write: Write,
    loaded: Mapping[str, LoadedView],
    exists: Mask,
) -> tuple[Array, Mask]:
    """Returns the values of a write over the parallel indices, and the mask of existing points."""
    if write.value is None:
        raise StructIRError("run: expected a scalar expression for each write, found none")
    parallel = len(statement.parallel)
    loaded = _widen(state, statement, write, loaded)
    if statement.reduce and statement.monoid == "sum":
        contracted = contract(write.value, loaded, exists, space, parallel)
        if contracted is not None:
            return contracted, None
    values = {name: view.values for name, view in loaded.items()}
    grid = space.grid if write.uses_index_vars else {}
    value = evaluate_in_blocks(write.value, EvaluationPoint(values, grid, space.sizes))
    if value.ndim < len(space.index_vars):
        value = value.reshape((1,) * (len(space.index_vars) - value.ndim) + value.shape)
    if not statement.reduce and statement.monoid not in PAIRS:
        return spread(value, space.shape), exists
    scan = scan_of(state.spec, statement)
    if scan is not None and all(view.exists is None for view in loaded.values()):
        axis = statement.parallel.index(scan.target)
        return _scan(value, axis, scan.op, statement.monoid or "sum", space, parallel), None
    full = spread(value, space.shape)
    return _reduce(full, exists, statement.monoid or "sum", parallel), None


def _widen(
    state: SpecRun, statement: Statement, write: Write, loaded: Mapping[str, LoadedView]
) -> Mapping[str, LoadedView]:
    """Converts the terms of a sum or product to its dtype, if they are widened before
    accumulation."""
    total = state.spec.results[write.result].dtype
    if total is None or not statement.reduce or statement.monoid not in ("sum", "prod"):
        return loaded
    return {
        name: attrs.evolve(read, values=read.values.astype(numpy_dtype(total)))
        if widened(dtype_of(read.values), total)
        else read
        for name, read in loaded.items()
    }


def spread(value: Array, shape: tuple[int, ...]) -> Array:
    """Returns a value broadcast to a shape."""
    return value if value.shape == shape else np.broadcast_to(value, shape)


def _scan(value: Array, axis: int, op: str, monoid: str, space: LoopSpace, parallel: int) -> Array:
    """Returns running combinations along the reduced indices."""
    full = [n if k != axis else 1 for k, n in enumerate(space.shape)]
    value = np.broadcast_to(value, full).squeeze(axis)
    value = value.reshape((*value.shape[: parallel - 1], prod(value.shape[parallel - 1 :])))
    if value.dtype == bool and monoid in ("sum", "prod"):
        value = value.astype("int64")  # counted, as in a reduction
    identity = np.asarray(MONOIDS[monoid].identity(dtype_of(value)), value.dtype)
    backwards = op in ("ge", "gt")
    value = np.flip(value, -1) if backwards else value
    combine = ufunc(COMBINERS[monoid])
    total = combine.accumulate(value, axis=-1, dtype=value.dtype)  # type: ignore[attr-defined]
    if op in ("lt", "gt"):
        first = np.broadcast_to(identity, (*total.shape[:-1], 1))
        total = np.concatenate([first, total], axis=-1)[..., : total.shape[-1]]
    return np.moveaxis(np.flip(total, -1) if backwards else total, -1, axis)


PAIRS = frozenset({"argmax", "argmin"})  # these combine a value with its index
COMBINERS = {
    "sum": "add",
    "mean": "add",
    "prod": "multiply",
    "max": "maximum",
    "min": "minimum",
    "any": "logical_or",
    "all": "logical_and",
}


def _reduce(value: Array, exists: Mask, monoid: str, parallel: int) -> Array:
    axes = tuple(range(parallel, value.ndim))
    is_truth_value = value.dtype == bool
    if monoid in ("any", "all"):
        value = value != 0
    elif value.dtype == bool and monoid in ("sum", "prod", "mean"):
        value = value.astype("int64")  # counted first, then rounded to a truth value
    elif monoid == "mean" and is_int(dtype_of(value)):
        value = value.astype(exact_sum_dtype(dtype_of(value)))  # no narrow sum that wraps around
    elif monoid in ("sum", "prod", "mean") and dtype_of(value) in NARROW_FLOATS:
        value = value.astype("float32")  # rounded once
    identity = np.asarray(MONOIDS[monoid].identity(dtype_of(value)), value.dtype)
    if exists is not None:
        exists = np.broadcast_to(exists, value.shape)
        value = np.where(exists, value, identity)
    if monoid in PAIRS:
        flat = value.reshape((*value.shape[:parallel], prod(value.shape[parallel:])))
        return getattr(np, monoid)(flat, -1) if flat.size else np.zeros(flat.shape[:-1], "int64")
    combine, dtype = ufunc(COMBINERS[monoid]), value.dtype
    # NumPy has no minimum and maximum of small integers
    if dtype_of(value) in SMALL_INTS and monoid in ("max", "min"):
        value, identity = value.astype("int8"), identity.astype("int8")
    total = combine.reduce(value, axis=axes, dtype=value.dtype, initial=identity)  # type: ignore[attr-defined]
    total = total.astype(dtype, copy=False)
    if monoid != "mean":
        return total
    with np.errstate(all="ignore"):
        number = np.prod(value.shape[parallel:]) if exists is None else exists.sum(axis=axes)
        if is_float(dtype_of(total)):
            return np.divide(total, number, dtype=total.dtype)
        if is_truth_value:
            return np.divide(total, np.maximum(number, 1))
        return _truncated_quotient(total, np.maximum(number, 1))  # 0 for an empty mean


def _truncated_quotient(total: Array, number: Array) -> Array:
    """Divides integers, rounding toward zero."""
    number = np.asarray(number).astype(total.dtype)
    quotient = total // number
    return quotient + ((quotient < 0) & (quotient * number != total))


def _initial_result(state: SpecRun, result: int) -> Array:
    """Returns the initial array of a result: the fill, or the operand that it starts from."""
    array = state.results[result]
    if array is None:
        info = state.spec.results[result]
        shape = state.shapes[result]
        if state.spec.base is not None:
            base = state.operands[state.spec.base]
            array = np.array(np.broadcast_to(base, shape))
        else:
            dtype = numpy_dtype(info.dtype or "float32")
            array = np.full(shape, state.spec.fill).astype(dtype)
        state.results[result] = array
    return array


def _store(
    state: SpecRun,
    plan: StatementPlan,
    write: Write,
    value: Array,
    exists: Mask,
    loaded: Mapping[str, LoadedView],
) -> None:
    statement, inner = plan.statement, plan.inner.unevaluated()
    if exists is None and state.results[write.result] is None and state.spec.base is None:
        direct = _whole_result(state, statement, write, value)
        if direct is not None:
            state.results[write.result] = direct
            return
    target = _initial_result(state, write.result)
    value = round_to_dtype(value, target.dtype)
    if 0 in inner.shape:
        return
    if (
        write.unique
        and exists is None
        and (view := writeable_view(target, write.entries, inner)) is not None
    ):
        view[...] = value
        return
    _scatter(target, write, statement, inner, value, exists, loaded)


def _whole_result(state: SpecRun, statement: Statement, write: Write, value: Array) -> Array | None:
    """Returns the value as the result, if the write is a permutation of the parallel index
    variables.
    """
    plain = write.plain
    if plain is None or len(plain) != len(statement.parallel) or None in plain:
        return None
    order = [statement.parallel.index(index_var) for index_var in plain if index_var is not None]
    info = state.spec.results[write.result]
    if tuple([value.shape[axis] for axis in order]) != state.shapes[write.result]:
        return None  # the write covers a part only
    stored = round_to_dtype(value, numpy_dtype(info.dtype or "float32"))
    if order != list(range(len(order))):
        stored = stored.transpose(order)
    owned = stored.base is None and not any(stored is operand for operand in state.operands)
    return np.asarray(stored) if owned else np.array(stored, order="C")


def _scatter(
    target: Array,
    write: Write,
    statement: Statement,
    space: LoopSpace,
    value: Array,
    exists: Mask,
    loaded: Mapping[str, LoadedView],
) -> None:
    names = {
        name: _without_reduce(view.values, len(statement.parallel)) for name, view in loaded.items()
    }
    index, inside = positions(write.entries, target.shape, space, names)
    mask = intersect_masks(exists, inside)
    selected = np.broadcast_to(True if mask is None else mask, space.shape)
    selected_index = [np.broadcast_to(i, space.shape)[selected] for i in index]
    if not selected_index:  # a scalar is a vector of one
        target, selected_index = target.reshape(1), [np.zeros(int(selected.sum()), "int64")]
    if not target.size:
        return  # all points are outside
    if write.unique or statement.monoid is None:
        target[tuple(selected_index)] = value[selected]
    else:
        combine = ufunc(COMBINERS[statement.monoid])
        combine.at(target, tuple(selected_index), value[selected])  # type: ignore[attr-defined]


def _without_reduce(values: Array, parallel: int) -> Array:
    return values[(..., *(0 for _ in range(values.ndim - parallel)))] if values.size else values


def round_to_dtype(value: Array, dtype: Any) -> Array:
    """Returns computed elements in the stored dtype."""
    if value.dtype == dtype:
        return value
    with np.errstate(all="ignore"):
        return convert_dtype(value, dtype.name)
