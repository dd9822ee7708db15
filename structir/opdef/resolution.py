"""Resolves index signatures for calls: binds arguments by name and parses the signature."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from structir.errors import Diagnostic
from structir.ir.expr import Constant, Expr, PrimValue, ShapeExpr, Tuple
from structir.ir.struct_info import (
    OBJECT,
    FuncStructInfo,
    ObjectStructInfo,
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
from structir.opdef.parameters import OMITTED
from structir.opdef.shape_eval import UNKNOWN


@attrs.frozen(eq=False)
class ResolvedCall:
    """The index signature of a call, and the paths of its operands in the arguments."""

    index_signature: IndexSignature
    attributes: Mapping[str, Any]  # computed with the signature
    paths: tuple[tuple[int, int | None], ...]  # argument index, and index in a list
    at: tuple[
        tuple[str, str], ...
    ] = ()  # index variables, and the attributes that determine their axes
    only_sizes: bool = False  # the signature does not determine the elements read and written

    @property
    def placing(self) -> set[str]:
        """Returns the attributes that determine the axis of an index variable."""
        return {name for _, name in self.at}


def call_arguments(
    definition: DeclaredOp, args: tuple[Expr, ...], attributes: Mapping[str, Any]
) -> CallView:
    """Returns the operands and attributes of a call by name, with defaults."""
    operands: dict[str, Any] = {}
    values: dict[str, Any] = {}
    constants: dict[str, Any] = {}
    position = 0
    for parameter in definition.signature.parameters:
        if not parameter.is_argument:
            values[parameter.name] = attributes.get(parameter.name, parameter.default)
            continue
        arg = args[position] if position < len(args) else OMITTED
        position += 1
        if parameter.kind is not None:
            values[parameter.name] = value_of(arg, parameter.default)
        else:
            operands[parameter.name] = _operand_info(parameter.name, parameter.is_list, arg)
            if type(arg) is Constant:
                constants[parameter.name] = arg.data
            elif type(arg) is Tuple and has_elements(arg):
                constants[parameter.name] = [getattr(field, "data", None) for field in arg.fields]
    return CallView(definition.name, operands, values, args, constants)


def has_elements(arg: Expr) -> bool:
    """Whether an argument is a constant, or a tuple with constants."""
    return type(arg) is Constant or (type(arg) is Tuple and any(map(has_elements, arg.fields)))


def value_of(arg: Expr, default: Any) -> Any:
    """Returns the value of a size or shape argument, or `UNKNOWN` or `UnknownShape`."""
    if arg is OMITTED:
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
    if arg is OMITTED:
        return () if is_list else None
    info = arg.struct_info
    if not is_list:
        return _tensor(name, info)
    if not isinstance(info, TupleStructInfo):
        message = f"{name}: expected a tuple of tensors, found {info}"
        is_tensor = isinstance(info, TensorStructInfo)
        hint = f"write a list: `[{{arg {name}}}]`" if is_tensor else None
        raise InvalidCall(message, (), hint, "E0305")
    return tuple([_tensor(f"{name}[{k}]", field) for k, field in enumerate(info.fields)])


def _tensor(name: str, info: StructInfo | None) -> TensorStructInfo | None:
    if type(info) is TensorStructInfo:
        return info
    if isinstance(info, PrimStructInfo):
        return TensorStructInfo((), info.element)
    if isinstance(info, TupleStructInfo) and not info.fields:
        return None
    message = f"{name}: expected a tensor, found {info or OBJECT}"
    raise InvalidCall(message, (), _conversion(f"{{arg {name}}}", info), "E0305")


CONVERSIONS = {  # how to make a tensor of a value, by the kind of its StructInfo
    ObjectStructInfo: "declare its StructInfo: `t = R.match_cast({0}, R.Tensor(...))`",
    ShapeStructInfo: "make a tensor of its sizes: `R.shape_to_tensor({0})`",
    FuncStructInfo: "call the function: `{0}(...)`",
    TupleStructInfo: "select a field: `{0}[{1}]`",
}


def _conversion(value: str, info: StructInfo | None) -> str | None:
    """Returns the edit that makes a tensor of a value, if there is one."""
    fields = info.fields if isinstance(info, TupleStructInfo) else ()
    tensors = [k for k, field in enumerate(fields) if isinstance(field, TensorStructInfo)]
    edit = CONVERSIONS.get(type(info or OBJECT))
    return None if edit is None or (fields and not tensors) else edit.format(value, *tensors[:1])


def resolve_call(definition: DeclaredOp, call_view: CallView) -> ResolvedCall:
    """Resolves the index signature of a call; memoized by ranks, dtypes and attributes."""
    key = _resolution_key(definition, call_view)
    resolved = definition.resolutions.get(key) if key is not None else None
    if resolved is None:
        resolved = _resolve(definition, call_view)
        if key is not None:
            definition.resolutions[key] = resolved
    result: ResolvedCall = resolved
    return result


def _resolution_key(definition: DeclaredOp, call_view: CallView) -> Any:
    if definition.reads_sizes or (definition.reads_indices and call_view.constants):
        return None
    if not callable(definition.index_signature):
        return tuple([_member_count(info) for info in call_view.operands.values()])
    if any(p.is_argument and p.kind is not None for p in definition.signature.parameters):
        return None
    types = tuple(
        [
            tuple([m and (m.ndim, m.dtype) for m in info])
            if type(info) is tuple
            else (info and (info.ndim, info.dtype))
            for info in call_view.operands.values()
        ]
    )
    # types: 1, 1.0 and True are equal
    return types, tuple([(n, type(v), v) for n, v in call_view.attributes.items()])


def _member_count(info: Any) -> int:
    if type(info) is tuple:
        return len(info)
    return 0 if info is None else 1


def _resolve(definition: DeclaredOp, call_view: CallView) -> ResolvedCall:
    computed = (
        definition.index_signature(call_view)
        if callable(definition.index_signature)
        else definition.index_signature
    )
    if isinstance(computed, str):
        computed = ResolvedSignature(computed)
    names = frozenset(call_view.attributes) | frozenset(computed.attributes)
    where = ", ".join([c for c in (definition.where, computed.where) if c])
    on = " and ".join([c for c in (definition.on, computed.on) if c])
    signature = parse_index_signature(computed.index_signature, where, on, names)
    counts = {name: len(info) for name, info in call_view.operands.items() if type(info) is tuple}
    signature = attrs.evolve(expand_lists(signature, counts), nouns=tuple(computed.nouns.items()))
    axis_attributes = [(index_var, name) for index_var, name in definition.at.items()]
    members = range(max(counts.values(), default=0))
    at = tuple(
        [*axis_attributes, *[(f"{i}_{k}", name) for i, name in axis_attributes for k in members]]
    )
    paths = _paths(definition, signature)
    return ResolvedCall(
        _mark_list_members(signature, paths), computed.attributes, paths, at, computed.sizes
    )


def _mark_list_members(
    signature: IndexSignature, paths: tuple[tuple[int, int | None], ...]
) -> IndexSignature:
    """Sets `many` for list members that the signature lists as separate accesses."""
    operands = [
        access if member is None or access.many else attrs.evolve(access, many=True)
        for access, (_, member) in zip(signature.operands, paths, strict=True)
    ]
    return attrs.evolve(signature, operands=tuple(operands))


def _paths(definition: DeclaredOp, signature: IndexSignature) -> tuple[tuple[int, int | None], ...]:
    arguments = definition.signature.arguments
    positions = {p.name: (k, p.is_list) for k, p in enumerate(arguments)}
    paths: list[tuple[int, int | None]] = []
    for access in signature.operands:
        if access.name in positions and not positions[access.name][1]:
            paths.append((positions[access.name][0], None))
            continue
        name, _, member = access.name.rpartition("_")
        if name not in positions:
            message = f"expected a body parameter for the operand {access.name}, found none"
            raise NotationError(Diagnostic(message, op=definition.name))
        paths.append((positions[name][0], int(member)))
    return tuple(paths)
