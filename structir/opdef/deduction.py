"""Infers the StructInfo of op calls from index signatures, with memoization."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import attrgetter, is_
from typing import Any

import attrs

from structir.errors import Diagnostic, DiagnosticError, Span, StructInfoError
from structir.ir import dims
from structir.ir.dim_text import one_message
from structir.ir.dtype import Element
from structir.ir.expr import Call, Expr, PrimValue, Tuple, Var
from structir.ir.struct_info import (
    PrimStructInfo,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
    known_dims,
)
from structir.lazy import lazy_module
from structir.opdef.axis_packs import InvalidCall
from structir.opdef.call_edits import EDITS, propose_edit
from structir.opdef.call_view import CallView, UnknownShape
from structir.opdef.declaration import DeclaredOp
from structir.opdef.diagnostics import call_diagnostic, shape_hint
from structir.opdef.dtypes import Bound, bound_dtypes, result_dtype
from structir.opdef.notation import IndexSignature, Missing
from structir.opdef.parameters import OMITTED
from structir.opdef.placement import place_result
from structir.opdef.ragged_names import with_known_rows
from structir.opdef.resolution import (
    ResolvedCall,
    call_arguments,
    has_elements,
    resolve_call,
    value_of,
)
from structir.opdef.shape_eval import ResolvedShapes, resolve_shapes
from structir.opdef.shape_plan import ShapePlan, shape_plan

result_refinement = lazy_module("structir.solver.program.result_refinement")

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
_INFO_OF = attrgetter("struct_info")
PLAIN_KEYS = frozenset({TensorStructInfo})  # StructInfo that alone is the key of an argument


def struct_info(
    definition: DeclaredOp,
    args: tuple[Expr, ...],
    attributes: Mapping[str, Any],
    span: Span | None,
) -> StructInfo:
    """Returns the StructInfo of a call's result, memoized by operand StructInfo and attributes."""
    if definition.reads_values or (definition.reads_indices and any(map(has_elements, args))):
        info = _deduce(definition, args, attributes, span)
        return place_result(definition, info, args, attributes, span)
    key: Any = tuple(map(_INFO_OF, args))
    if not PLAIN_KEYS.issuperset(map(type, key)):
        key = tuple(map(_key_of, args))
    if attributes:
        key = (key, tuple([(n, type(v), v) for n, v in attributes.items()]))
    memoized: StructInfo | None = definition.memo.get(key)
    if memoized is None:
        info = _deduce(definition, args, attributes, span)
        if any(map(_has_axes, args)):
            info = _deduce_with_solver(definition, args, attributes, span, info)
        memoized = place_result(definition, info, args, attributes, span)
        if len(definition.memo) >= MEMO_SIZE:
            definition.memo.clear()
        definition.memo[key] = memoized
    return memoized


def _has_axes(arg: Expr) -> bool:
    """Returns whether an argument has symbolic axis packs instead of dims."""
    if type(arg) is Tuple:
        return any(map(_has_axes, arg.fields))
    info = arg.struct_info
    return type(info) is TensorStructInfo and info.axes is not None and info.dims is None


def _key_of(arg: Expr) -> Any:
    info = arg.struct_info
    kind = type(info)
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
    message_args: tuple[Expr, ...] | None = None,
) -> StructInfo:
    """Infers the StructInfo without memo; messages name different dims differently."""
    try:
        return _deduce_or_explain(definition, args, attributes, span, message_args)
    except StructInfoError:
        pass  # a scope for names on success would slow each deduction
    with one_message():
        return _deduce_or_explain(definition, args, attributes, span, message_args)


def _deduce_or_explain(
    definition: DeclaredOp,
    args: tuple[Expr, ...],
    attributes: Mapping[str, Any],
    span: Span | None,
    message_args: tuple[Expr, ...] | None,
) -> StructInfo:
    """Infers the StructInfo without memo; messages show `message_args` instead of `args`."""
    resolved: ResolvedCall | None = None
    try:
        key = _prepared_key(definition, args, attributes)
        prepared = definition.prepared_calls.get(key) if key is not None else None
        if prepared is not None:
            resolved = prepared.resolved
            return _result_infos(prepared, [_argument_info(args, path) for path in resolved.paths])
        call_view = call_arguments(definition, args, attributes)
        hook = definition.hooks.get("struct_info")
        if hook is not None:
            _check_required_operands(definition, call_view)
            info: StructInfo = hook(call_view)
            return info
        resolved = resolve_call(definition, call_view)
        operands = _operands(resolved, call_view)
        prepared = _prepare(resolved, call_view, operands)
        if key is not None:
            definition.prepared_calls[key] = prepared
        return _result_infos(prepared, operands)
    except InvalidCall as error:
        diagnostic = call_diagnostic(
            definition.signature, error, message_args or args, span, resolved
        )
        hint = diagnostic.hint
        if hint is None and message_args is None and error.code in EDITS:
            hint = propose_edit(definition, args, attributes, error, resolved, _accepts)
        hint = hint or shape_hint(error, message_args or args, resolved)
        raise StructInfoError(attrs.evolve(diagnostic, hint=hint)) from None
    except DiagnosticError as error:  # of the StructInfo of a result
        located = call_diagnostic(
            definition.signature, _as_invalid_call(error), message_args or args, span, resolved
        )
        raise StructInfoError(located) from None


def _as_invalid_call(error: DiagnosticError) -> InvalidCall:
    first = error.diagnostics[0]
    return InvalidCall(first.message, (), first.hint, first.code)


def _accepts(definition: DeclaredOp, args: tuple[Expr, ...], attributes: Mapping[str, Any]) -> bool:
    try:
        _deduce(definition, args, attributes, None, message_args=args)
    except StructInfoError:
        return False
    # an edit that is valid only if unknown sizes are equal is not proposed
    return not resolved_call(definition, args, attributes, None).assumptions


def _deduce_with_solver(
    definition: DeclaredOp,
    args: tuple[Expr, ...],
    attributes: Mapping[str, Any],
    span: Span | None,
    info: StructInfo,
) -> StructInfo:
    """Infers the StructInfo with the solver, where an operand has symbolic axis packs.

    A conflict is reported as the error for a concrete rank, if there is one for each of the first.
    """
    call = Call(definition.op, args, attributes, (), info, span)
    try:
        refined: StructInfo = result_refinement.refine_result(call)
        return with_known_rows(call, refined)
    except result_refinement.Conflict as conflict:
        at_ranks = [result_refinement.at_rank(args, rank) for rank in result_refinement.COUNTS]
        errors = [_error_of(definition, ranked, attributes, span, args) for ranked in at_ranks]
        if None not in errors:
            raise next(filter(None, errors)) from None
        invalid = InvalidCall(conflict.message)
        diagnostic = call_diagnostic(definition.signature, invalid, args, span, None)
        raise StructInfoError(diagnostic.coded(conflict.code)) from None


def _error_of(
    definition: DeclaredOp,
    ranked: tuple[Expr, ...],
    attributes: Mapping[str, Any],
    span: Span | None,
    args: tuple[Expr, ...],
) -> StructInfoError | None:
    """Returns the error of a call at concrete ranks, or None."""
    try:
        _deduce(definition, ranked, attributes, span, message_args=args)
    except StructInfoError as error:
        return error
    return None


def _check_required_operands(definition: DeclaredOp, call_view: CallView) -> None:
    """Checks that required operands are present; hooks rely on it."""
    for parameter in definition.signature.arguments:
        if parameter.is_required and call_view.operands[parameter.name] is None:
            raise InvalidCall(f"missing operand `{parameter.name}`", code="E0106")


@attrs.frozen(eq=False)
class PreparedCall:
    """The part of a resolved call that depends on ranks, dtypes and attributes, but not on dims."""

    resolved: ResolvedCall
    plan: ShapePlan
    values: Mapping[str, Any]
    dtypes: tuple[Element, ...]  # of the results


def _prepared_key(
    definition: DeclaredOp, args: tuple[Expr, ...], attributes: Mapping[str, Any]
) -> Any:
    """Returns the memo key of a `PreparedCall`, or None where it cannot be memoized."""
    if definition.reads_sizes or "struct_info" in definition.hooks:
        return None
    if definition.reads_indices and any(map(has_elements, args)):
        return None
    tensors = []
    for arg in args:
        info = arg.struct_info
        if type(info) is not TensorStructInfo or type(info.dims) is not tuple:
            return None
        if info.dtype_var is not None:
            return None
        tensors.append((info.ndim, info.dtype))
    if not attributes:
        return tuple(tensors)
    return tuple(tensors), tuple([(n, type(v), v) for n, v in attributes.items()])


def _argument_info(args: tuple[Expr, ...], path: tuple[int, int | None]) -> TensorStructInfo | None:
    info: TensorStructInfo | None = args[path[0]].struct_info if path[0] < len(args) else None
    return info


def _result_infos(prepared: PreparedCall, operands: list[TensorStructInfo | None]) -> StructInfo:
    """Infers the StructInfo of the results from the dims of the operands."""
    sizes = tuple([None if info is None else known_dims(info) for info in operands])
    shapes = resolve_shapes(prepared.plan, sizes, prepared.values)
    results = prepared.plan.index_signature.results
    infos = [_result(k, shapes, operands, dtype) for k, dtype in enumerate(prepared.dtypes)]
    if len(infos) == 1 and not results[0].many:
        return infos[0]
    return TupleStructInfo(tuple(infos))


def _operands(resolved: ResolvedCall, call_view: CallView) -> list[TensorStructInfo | None]:
    """Returns the StructInfo of each operand of the index signature."""
    infos: list[TensorStructInfo | None] = []
    for access in resolved.index_signature.operands:
        info = call_view.operands.get(access.name)
        if access.name not in call_view.operands:
            name, _, member = access.name.rpartition("_")
            info = call_view.operands[name][int(member)]
        if info is None and access.default is Missing.REQUIRED:
            raise InvalidCall(f"missing operand `{access.name}`", code="E0106")
        infos.append(info)
    return infos


def _prepare(
    resolved: ResolvedCall, call_view: CallView, operands: list[TensorStructInfo | None]
) -> PreparedCall:
    values = {**call_view.attributes, **resolved.attributes}
    bound = _bind_dtypes(resolved.index_signature, operands, values)
    plan = _plan(resolved, operands, values)
    dtypes = tuple(
        [result_dtype(access, bound, values) for access in resolved.index_signature.results]
    )
    return PreparedCall(resolved, plan, values, dtypes)


def _bind_dtypes(
    signature: IndexSignature, operands: list[TensorStructInfo | None], values: Mapping[str, Any]
) -> Bound:
    present = [(k, info) for k, info in enumerate(operands) if info is not None]
    accesses = [signature.operands[k] for k, _ in present]
    try:
        return bound_dtypes(accesses, [info.element for _, info in present], values)
    except InvalidCall as error:
        facts = tuple([(t, None if k is None else present[k][0], a) for t, k, a in error.facts])
        raise InvalidCall(error.message, facts, error.hint, error.code) from None


def _plan(
    resolved: ResolvedCall, operands: list[TensorStructInfo | None], values: Mapping[str, Any]
) -> ShapePlan:
    ranks = tuple([None if info is None else _rank_of(info) for info in operands])
    present = tuple([info is not None for info in operands])
    attribute_ranks = tuple(
        [
            (name, value.ndim if isinstance(value, UnknownShape) else len(value))
            for name, value in values.items()
            if isinstance(value, tuple | UnknownShape)
        ]
    )
    axis_attributes = [(index_var, values[name]) for index_var, name in resolved.at]
    axes = tuple([(index_var, axis) for index_var, axis in axis_attributes if axis is not None])
    return shape_plan(resolved.index_signature, ranks, present, axes, attribute_ranks)


def _rank_of(info: TensorStructInfo) -> int | None:
    sizes = known_dims(info)
    return info.ndim if sizes is None else len(sizes)


def _result(
    k: int, shapes: ResolvedShapes, operands: list[TensorStructInfo | None], dtype: Element
) -> TensorStructInfo:
    access = shapes.index_signature.results[k]
    entries = shapes.results[k]
    if len(access.entries) == 1 and access.packs:
        shape = _shared_shape_var(access.packs[0], shapes, operands)
        if shape is not None:
            return TensorStructInfo(shape, dtype, _ndim_of(shape, entries))
    if entries is None:
        return TensorStructInfo(None, dtype)
    sizes = shapes.sizes(k)
    for operand in operands:  # equal ones are one object
        if operand is None or operand.axes is not None or operand.vdevice is not None:
            continue
        if type(operand.dims) is tuple and operand.dims == sizes and operand.element == dtype:
            return operand
    return TensorStructInfo(sizes, dtype, len(entries))


def _ndim_of(shape: Any, entries: Any) -> int | None:
    info = shape.struct_info
    return (
        info.ndim
        if isinstance(info, ShapeStructInfo)
        else None
        if entries is None
        else len(entries)
    )


def _shared_shape_var(
    pack: str, shapes: ResolvedShapes, operands: list[TensorStructInfo | None]
) -> Any:
    """Returns the common shape variable of the operands whose only axes are this pack."""
    value = shapes.attributes.get(pack)
    if type(value) is UnknownShape:
        return value.value if isinstance(value.value, Var) else None
    infos = [
        info
        for access, info in zip(shapes.index_signature.operands, operands, strict=True)
        if info is not None and access.packs == (pack,) and len(access.entries) == 1
    ]
    if not infos or not isinstance(infos[0].dims, Var) or known_dims(infos[0]) is not None:
        return None
    return infos[0].dims if all(info.dims is infos[0].dims for info in infos) else None


# ---- resolution for index specs


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
        call_view = call_arguments(definition, args, attributes)
        sized = {name: _with_sizes(info) for name, info in call_view.operands.items()}
        if any(sized[name] is not info for name, info in call_view.operands.items()):
            call_view = attrs.evolve(call_view, operands=sized)
        resolved = resolve_call(definition, call_view)
        values = {**call_view.attributes, **resolved.attributes}
        operands = _operands(resolved, call_view)
        sizes = tuple([None if info is None else known_dims(info) for info in operands])
        return resolve_shapes(_plan(resolved, operands, values), sizes, values)
    except InvalidCall as error:
        raise StructInfoError(
            call_diagnostic(definition.signature, error, args, span, resolved)
        ) from None


def _with_sizes(info: Any) -> Any:
    """Returns the StructInfo of an operand with fresh symbols for unknown dims."""
    if type(info) is tuple:
        members = tuple([_with_sizes(member) for member in info])
        return info if all(map(is_, members, info)) else members
    if info is None or info.ndim is None or known_dims(info) is not None:
        return info
    return TensorStructInfo(tuple([dims.sym(f"d{k}") for k in range(info.ndim)]), info.element)


def decompose(definition: DeclaredOp, body: Callable[..., Any], call: Call) -> Expr | None:
    """Returns the decomposition of a composite op: its body applied to a call's arguments.

    A body returns None for operands of which it knows too little.
    """
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
    try:
        decomposition = body(**values)
    except DiagnosticError as error:
        raise type(error)([each.at(call.span) for each in error.diagnostics]) from error.__cause__
    if decomposition is not None and not isinstance(decomposition, Expr):
        message = f"invalid decomposition: expected an Expr, found {decomposition!r}"
        raise StructInfoError(Diagnostic(message, call.span, definition.name))
    return decomposition
