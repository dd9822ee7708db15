"""The line of a call: what the call gives by name, and the line that is read for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from structir.ir.expr import Expr, PrimValue, ShapeExpr
from structir.ir.struct_info import (
    OBJECT,
    PrimStructInfo,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from structir.opdef.axis_packs import InvalidCall
from structir.opdef.call_view import CallView, ResolvedSignature, UnknownShape
from structir.opdef.declaration import DeclaredOp
from structir.opdef.desugar import expand_lists
from structir.opdef.notation import IndexSignature, NotationError, parse_index_signature
from structir.opdef.parameters import NOT_GIVEN
from structir.opdef.shape_eval import UNKNOWN


@attrs.frozen(eq=False)
class ResolvedCall:
    """The line of a call, and where its operands stand among the arguments."""

    line: IndexSignature
    attributes: Mapping[str, Any]  # those that the line function has worked out
    paths: tuple[tuple[int, int | None], ...]  # argument, and member of a list
    at: tuple[tuple[str, str], ...] = ()  # letters, and the attributes that place them
    only_sizes: bool = False  # the line does not say which elements are read and written


def call_arguments(
    definition: DeclaredOp, args: tuple[Expr, ...], attributes: Mapping[str, Any]
) -> CallView:
    """The operands and attributes of a call by name, defaults filled in."""
    operands: dict[str, Any] = {}
    values: dict[str, Any] = {}
    position = 0
    for parameter in definition.signature.parameters:
        if not parameter.is_argument:
            values[parameter.name] = attributes.get(parameter.name, parameter.default)
            continue
        arg = args[position] if position < len(args) else NOT_GIVEN
        position += 1
        if parameter.kind is not None:
            values[parameter.name] = value_of(arg, parameter.default)
        else:
            operands[parameter.name] = _operand_info(parameter.name, parameter.is_list, arg)
    return CallView(definition.name, operands, values, args)


def value_of(arg: Expr, default: Any) -> Any:
    """The value of a size or shape argument, as far as it is known."""
    if arg is NOT_GIVEN:
        return default
    if isinstance(arg, PrimValue):
        return arg.value
    if isinstance(arg, ShapeExpr):
        return arg.dims
    info = arg.struct_info
    if isinstance(info, ShapeStructInfo):
        return UnknownShape(arg, info.ndim) if info.dims is None else info.dims
    if isinstance(info, PrimStructInfo) and info.value is not None:
        return info.value
    return UNKNOWN


def _operand_info(name: str, is_list: bool, arg: Expr) -> Any:
    if arg is NOT_GIVEN:
        return () if is_list else None
    info = arg.struct_info
    if not is_list:
        return _tensor(name, info)
    if not isinstance(info, TupleStructInfo):
        raise InvalidCall(f"{name} must be a tuple of tensors, not {info}")
    return tuple([_tensor(f"{name}[{k}]", field) for k, field in enumerate(info.fields)])


def _tensor(name: str, info: StructInfo | None) -> TensorStructInfo | None:
    if type(info) is TensorStructInfo:
        return info
    if isinstance(info, PrimStructInfo):
        return TensorStructInfo((), info.dtype)
    if isinstance(info, TupleStructInfo) and not info.fields:
        return None
    hint = "R.match_cast states what a value is" if info is None or info == OBJECT else None
    raise InvalidCall(f"{name} must be a tensor, not {info or OBJECT}", (), hint)


def resolve_call(definition: DeclaredOp, given: CallView) -> ResolvedCall:
    """The line of a call; remembered where it depends on ranks and attributes alone."""
    key = _resolution_key(definition, given)
    known = definition.lines.get(key) if key is not None else None
    if known is None:
        known = _resolve(definition, given)
        if key is not None:
            definition.lines[key] = known
    found: ResolvedCall = known
    return found


def _resolution_key(definition: DeclaredOp, given: CallView) -> Any:
    if definition.reads_sizes:
        return None
    ranks = tuple(
        [
            tuple([m.ndim for m in info]) if type(info) is tuple else (info and (info.ndim,))
            for info in given.operands.values()
        ]
    )
    if not callable(definition.line):
        return tuple([len(r) if r else 0 for r in ranks])
    if any(p.is_argument and p.kind is not None for p in definition.signature.parameters):
        return None
    return ranks, tuple(given.attributes.items())


def _resolve(definition: DeclaredOp, given: CallView) -> ResolvedCall:
    written = definition.line(given) if callable(definition.line) else definition.line
    if isinstance(written, str):
        written = ResolvedSignature(written)
    names = frozenset(given.attributes) | frozenset(written.attributes)
    where = ", ".join([c for c in (definition.where, written.where) if c])
    on = " and ".join([c for c in (definition.on, written.on) if c])
    line = parse_index_signature(written.line, where, on, names)
    counts = {name: len(info) for name, info in given.operands.items() if type(info) is tuple}
    line = expand_lists(line, counts)
    letters = [(letter, name) for letter, name in definition.at.items()]
    members = range(max(counts.values(), default=0))
    at = tuple([*letters, *[(f"{i}_{k}", name) for i, name in letters for k in members]])
    paths = _paths(definition, line)
    return ResolvedCall(_with_marks(line, paths), written.attributes, paths, at, written.sizes)


def _with_marks(line: IndexSignature, paths: tuple[tuple[int, int | None], ...]) -> IndexSignature:
    """The line with the members of lists marked as such, where its author wrote them out."""
    operands = [
        access if member is None or access.many else attrs.evolve(access, many=True)
        for access, (_, member) in zip(line.operands, paths, strict=True)
    ]
    return attrs.evolve(line, operands=tuple(operands))


def _paths(definition: DeclaredOp, line: IndexSignature) -> tuple[tuple[int, int | None], ...]:
    arguments = definition.signature.arguments
    places = {p.name: (k, p.is_list) for k, p in enumerate(arguments)}
    paths: list[tuple[int, int | None]] = []
    for access in line.operands:
        if access.name in places and not places[access.name][1]:
            paths.append((places[access.name][0], None))
            continue
        name, _, member = access.name.rpartition("_")
        if name not in places:
            raise NotationError(f"{definition.name}: the line has an operand {access.name}")
        paths.append((places[name][0], int(member)))
    return tuple(paths)
