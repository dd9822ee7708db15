"""Infers the StructInfo of op calls from index signatures, with memoization."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs

from structir.errors import Diagnostic, Span, StructInfoError
from structir.ir import dims
from structir.ir.expr import Call, Expr, PrimValue, Tuple, Var
from structir.ir.struct_info import (
    PrimStructInfo,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from structir.lazy import lazy_module
from structir.opdef.axis_packs import InvalidCall
from structir.opdef.call_edits import EDITS, propose_edit
from structir.opdef.call_view import CallView, UnknownShape, known_dims
from structir.opdef.declaration import DeclaredOp
from structir.opdef.diagnostics import call_diagnostic, shape_hint
from structir.opdef.dtypes import bound_dtypes, result_dtype
from structir.opdef.notation import IndexSignature, Missing
from structir.opdef.parameters import OMITTED
from structir.opdef.resolution import ResolvedCall, call_arguments, resolve_call, value_of
from structir.opdef.shape_eval import ResolvedShapes, resolve_shapes
from structir.opdef.shape_plan import ShapePlan, shape_plan

deduction = lazy_module("structir.solver.program.result_refinement")

__all__ = (
    "CallView",
    "InvalidCall",
    "ResolvedCall",
    "UnknownShape",
    "call_arguments",
    "decompose",
    "resolve_call",
    "resolved_call",
    "struct_info",
)
MEMO_SIZE = 4096


def struct_info(
    definition: DeclaredOp,
    args: tuple[Expr, ...],
    attributes: Mapping[str, Any],
    span: Span | None,
) -> StructInfo:
    """Returns the StructInfo of a call's result, memoized by operand StructInfo and attributes."""
    if definition.reads_values:
        return _deduce(definition, args, attributes, span)
    key: Any = tuple([_key_of(arg) for arg in args])
    if attributes:
        key = (key, tuple([(n, type(v), v) for n, v in attributes.items()]))
    known = definition.memo.get(key)
    if known is None:
        known = _deduce(definition, args, attributes, span)
        if any(map(_has_axes, args)):
            known = _of_rows(definition, args, attributes, span, known)
        if len(definition.memo) >= MEMO_SIZE:
            definition.memo.clear()
        definition.memo[key] = known
    info: StructInfo = known
    return info


def _has_axes(arg: Expr) -> bool:
    """Returns whether an argument has an axis structure that its dims do not express."""
    if type(arg) is Tuple:
        return any(map(_has_axes, arg.fields))
    info = arg.struct_info
    return type(info) is TensorStructInfo and info.axes is not None and info.dims is None


def _key_of(arg: Expr) -> Any:
    info = arg.struct_info
    kind = type(info)
    if kind is TensorStructInfo:
        return info
    if kind is PrimStructInfo and info.value is None and type(arg) is PrimValue:
        return info, arg.value
    if kind is ShapeStructInfo and info.dims is None:
        return info, arg
    return info


def _deduce(
    definition: DeclaredOp,
    args: tuple[Expr, ...],
    attributes: Mapping[str, Any],
    span: Span | None,
    shown: tuple[Expr, ...] | None = None,
) -> StructInfo:
    """Infers the StructInfo without memo; messages show `shown` instead of `args`, if given."""
    resolved: ResolvedCall | None = None
    try:
        key = _outline(definition, args, attributes)
        ready = definition.prepared_calls.get(key) if key is not None else None
        if ready is not None:
            resolved = ready.resolved
            return _infos(ready, [_argument_info(args, path) for path in resolved.paths])
        given = call_arguments(definition, args, attributes)
        hook = definition.hooks.get("struct_info")
        if hook is not None:
            _check_given(definition, given)
            stated: StructInfo = hook(given)
            return stated
        resolved = resolve_call(definition, given)
        operands = _operands(resolved, given)
        ready = _prepare(resolved, given, operands)
        if key is not None:
            definition.prepared_calls[key] = ready
        return _infos(ready, operands)
    except InvalidCall as error:
        wrong = call_diagnostic(definition.signature, error, shown or args, span, resolved)
        hint = wrong.hint
        if hint is None and shown is None and error.code in EDITS:
            hint = propose_edit(definition, args, attributes, error, resolved, _accepts)
        hint = hint or shape_hint(error, shown or args, resolved)
        raise StructInfoError(attrs.evolve(wrong, hint=hint)) from None


def _accepts(definition: DeclaredOp, args: tuple[Expr, ...], attributes: Mapping[str, Any]) -> bool:
    try:
        _deduce(definition, args, attributes, None, shown=args)
    except StructInfoError:
        return False
    # an edit that only fits where unknown sizes happen to be equal is no help
    return not resolved_call(definition, args, attributes, None).assumptions


def _of_rows(
    definition: DeclaredOp,
    args: tuple[Expr, ...],
    attributes: Mapping[str, Any],
    span: Span | None,
    plain: StructInfo,
) -> StructInfo:
    """Infers the StructInfo with the solver, where an operand has symbolic axis packs.

    A conflict is reported as the error for a concrete rank, if there is one.
    """
    call = Call(definition.op, args, attributes, (), plain, span)
    try:
        info: StructInfo = deduction.refine_result(call)
        return info
    except deduction.Conflict as conflict:
        for count in deduction.COUNTS:
            _deduce(definition, deduction.at_rank(args, count), attributes, span, shown=args)
        wrong = InvalidCall(conflict.message)
        diagnostic = call_diagnostic(definition.signature, wrong, args, span, None)
        raise StructInfoError(diagnostic.coded(conflict.code)) from None


def _check_given(definition: DeclaredOp, given: CallView) -> None:
    """Checks that required operands are present, as hooks rely on them."""
    for parameter in definition.signature.arguments:
        if parameter.is_required and given.operands[parameter.name] is None:
            raise InvalidCall(f"missing operand `{parameter.name}`", code="E0106")


@attrs.frozen(eq=False)
class PreparedCall:
    """The part of a resolved call that depends on ranks, dtypes and attributes, but not on dims."""

    resolved: ResolvedCall
    plan: ShapePlan
    values: Mapping[str, Any]
    dtypes: tuple[str | None, ...]  # of the results


def _outline(definition: DeclaredOp, args: tuple[Expr, ...], attributes: Mapping[str, Any]) -> Any:
    """Returns the memo key of a `PreparedCall`, or None where it cannot be memoized."""
    if definition.reads_sizes or "struct_info" in definition.hooks:
        return None
    tensors = []
    for arg in args:
        info = arg.struct_info
        if type(info) is not TensorStructInfo or type(info.dims) is not tuple:
            return None
        tensors.append((info.ndim, info.dtype))
    if not attributes:
        return tuple(tensors)
    return tuple(tensors), tuple([(n, type(v), v) for n, v in attributes.items()])


def _argument_info(args: tuple[Expr, ...], path: tuple[int, int | None]) -> TensorStructInfo | None:
    info: TensorStructInfo | None = args[path[0]].struct_info if path[0] < len(args) else None
    return info


def _infos(ready: PreparedCall, operands: list[TensorStructInfo | None]) -> StructInfo:
    """Infers the StructInfo of the results from the dims of the operands."""
    sizes = tuple([None if info is None else known_dims(info) for info in operands])
    solved = resolve_shapes(ready.plan, sizes, ready.values)
    results = ready.plan.index_signature.results
    infos = [_result(k, solved, operands, dtype) for k, dtype in enumerate(ready.dtypes)]
    if len(infos) == 1 and not results[0].many:
        return infos[0]
    return TupleStructInfo(tuple(infos))


def _operands(resolved: ResolvedCall, given: CallView) -> list[TensorStructInfo | None]:
    """Returns the StructInfo of each operand of the index signature."""
    infos: list[TensorStructInfo | None] = []
    for access in resolved.index_signature.operands:
        info = given.operands.get(access.name)
        if access.name not in given.operands:
            name, _, member = access.name.rpartition("_")
            info = given.operands[name][int(member)]
        if info is None and access.default is Missing.REQUIRED:
            raise InvalidCall(f"missing operand `{access.name}`", code="E0106")
        infos.append(info)
    return infos


def _prepare(
    resolved: ResolvedCall, given: CallView, operands: list[TensorStructInfo | None]
) -> PreparedCall:
    values = {**given.attributes, **resolved.attributes}
    bound = _dtypes(resolved.index_signature, operands, values)
    plan = _plan(resolved, operands, values)
    dtypes = tuple(
        [result_dtype(access, bound, values) for access in resolved.index_signature.results]
    )
    return PreparedCall(resolved, plan, values, dtypes)


def _dtypes(
    line: IndexSignature, operands: list[TensorStructInfo | None], values: Mapping[str, Any]
) -> dict[str, str | None]:
    here = [(k, info) for k, info in enumerate(operands) if info is not None]
    accesses = [line.operands[k] for k, _ in here]
    try:
        return bound_dtypes(accesses, [info.dtype for _, info in here], values)
    except InvalidCall as error:
        facts = tuple([(t, None if k is None else here[k][0], a) for t, k, a in error.facts])
        raise InvalidCall(error.message, facts, error.hint, error.code) from None


def _plan(
    resolved: ResolvedCall, operands: list[TensorStructInfo | None], values: Mapping[str, Any]
) -> ShapePlan:
    ranks = tuple([None if info is None else _rank_of(info) for info in operands])
    present = tuple([info is not None for info in operands])
    stated = tuple(
        [
            (name, value.ndim if isinstance(value, UnknownShape) else len(value))
            for name, value in values.items()
            if isinstance(value, tuple | UnknownShape)
        ]
    )
    placed = [(letter, values[name]) for letter, name in resolved.at]
    axes = tuple([(letter, axis) for letter, axis in placed if axis is not None])
    return shape_plan(resolved.index_signature, ranks, present, axes, stated)


def _rank_of(info: TensorStructInfo) -> int | None:
    sizes = known_dims(info)
    return info.ndim if sizes is None else len(sizes)


def _result(
    k: int, solved: ResolvedShapes, operands: list[TensorStructInfo | None], dtype: str | None
) -> TensorStructInfo:
    access = solved.index_signature.results[k]
    entries = solved.results[k]
    if len(access.entries) == 1 and access.packs:
        shape = _kept_shape(access.packs[0], solved, operands)
        if shape is not None:
            return TensorStructInfo(shape, dtype, _ndim_of(shape, entries))
    if entries is None:
        return TensorStructInfo(None, dtype)
    return TensorStructInfo(solved.sizes(k), dtype, len(entries))


def _ndim_of(shape: Any, entries: Any) -> int | None:
    info = shape.struct_info
    return (
        info.ndim
        if isinstance(info, ShapeStructInfo)
        else None
        if entries is None
        else len(entries)
    )


def _kept_shape(row: str, solved: ResolvedShapes, operands: list[TensorStructInfo | None]) -> Any:
    """Returns the shape variable shared by all operands whose shape is just this axis pack."""
    value = solved.attributes.get(row)
    if type(value) is UnknownShape:
        return value.value if isinstance(value.value, Var) else None
    infos = [
        info
        for access, info in zip(solved.index_signature.operands, operands, strict=True)
        if info is not None and access.packs == (row,) and len(access.entries) == 1
    ]
    if not infos or not isinstance(infos[0].dims, Var) or known_dims(infos[0]) is not None:
        return None
    return infos[0].dims if all(info.dims is infos[0].dims for info in infos) else None


# ---- for the index view ----


def resolved_call(
    definition: DeclaredOp,
    args: tuple[Expr, ...],
    attributes: Mapping[str, Any],
    span: Span | None,
) -> ResolvedShapes:
    """Resolves the index signature of a call, for its index spec.

    Operands of known rank with unknown dims get fresh symbols. Raises StructInfoError.
    """
    resolved: ResolvedCall | None = None
    try:
        given = call_arguments(definition, args, attributes)
        given = attrs.evolve(given, operands={n: _with_sizes(i) for n, i in given.operands.items()})
        resolved = resolve_call(definition, given)
        values = {**given.attributes, **resolved.attributes}
        operands = _operands(resolved, given)
        sizes = tuple([None if info is None else known_dims(info) for info in operands])
        return resolve_shapes(_plan(resolved, operands, values), sizes, values)
    except InvalidCall as error:
        raise StructInfoError(
            call_diagnostic(definition.signature, error, args, span, resolved)
        ) from None


def _with_sizes(info: Any) -> Any:
    """Returns the StructInfo of an operand with fresh symbols for unknown dims."""
    if type(info) is tuple:
        return tuple([_with_sizes(member) for member in info])
    if info is None or info.ndim is None or known_dims(info) is not None:
        return info
    return TensorStructInfo(tuple([dims.sym(f"d{k}") for k in range(info.ndim)]), info.dtype)


def decompose(definition: DeclaredOp, body: Callable[..., Any], call: Call) -> Expr:
    """Returns the decomposition of a composite op: its body applied to a call's arguments."""
    values: dict[str, Any] = {}
    position = 0
    for parameter in definition.signature.parameters:
        if not parameter.is_argument:
            values[parameter.name] = call.attrs.get(parameter.name, parameter.default)
            continue
        arg = call.args[position] if position < len(call.args) else OMITTED
        position += 1
        if parameter.kind is not None:
            values[parameter.name] = value_of(arg, parameter.default)
        elif parameter.is_list:
            values[parameter.name] = arg
        else:
            values[parameter.name] = None if arg is OMITTED else arg
    decomposition = body(**values)
    if not isinstance(decomposition, Expr):
        message = f"invalid decomposition: expected an Expr, found {decomposition!r}"
        raise StructInfoError(Diagnostic(message, call.span, definition.name))
    return decomposition
