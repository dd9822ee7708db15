"""The vdevices of StructInfos and modules: queries, completion by annotations, removal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from structir.analysis.declaration import analysis
from structir.analysis.erasure import with_fields
from structir.analysis.substitution import Substitution
from structir.errors import Span
from structir.ir.expr import Call, Constant, Function, Var
from structir.ir.module import IRModule
from structir.ir.node import Node, parts, rebuild, replace
from structir.ir.op import Op
from structir.ir.struct_info import StructInfo, TensorStructInfo, TupleStructInfo
from structir.ir.vdevice import VDevice, as_vdevice

Change = Callable[[VDevice], "VDevice | None"]
TensorChange = Callable[[TensorStructInfo], TensorStructInfo]


def vdevices_of(info: StructInfo | None) -> Iterator[VDevice]:
    """Yields the known vdevices of a tensor, or of the tensors of a tuple."""
    if type(info) is TensorStructInfo:
        if info.vdevice is not None:
            yield info.vdevice
    elif type(info) is TupleStructInfo:
        for field in info.fields:
            yield from vdevices_of(field)


def map_tensors(
    info: StructInfo, change: Callable[[TensorStructInfo], TensorStructInfo]
) -> StructInfo:
    """Returns the StructInfo with its tensor, or the tensors of a tuple, changed."""
    if isinstance(info, TupleStructInfo):
        fields = tuple([map_tensors(field, change) for field in info.fields])
        same = all(a is b for a, b in zip(fields, info.fields, strict=True))
        return info if same else replace(info, fields=fields)
    return change(info) if isinstance(info, TensorStructInfo) else info


def on_vdevice(info: StructInfo, vdevice: VDevice | None) -> StructInfo:
    """Returns the StructInfo with every tensor on a vdevice."""
    return map_tensors(info, lambda tensor: replace(tensor, vdevice=vdevice))


def with_default_vdevice(info: StructInfo, vdevice: VDevice) -> StructInfo:
    """Returns the StructInfo with the tensors of unknown vdevice on this one."""
    return map_tensors(info, lambda t: t if t.vdevice else replace(t, vdevice=vdevice))


def with_vdevices_of(info: StructInfo, declared: StructInfo) -> StructInfo:
    """Returns the StructInfo with the vdevices that an annotation adds where they are unknown."""
    if isinstance(info, TupleStructInfo) and isinstance(declared, TupleStructInfo):
        fields = tuple(map(with_vdevices_of, info.fields, declared.fields))
        return replace(info, fields=fields) if len(fields) == len(info.fields) else info
    if isinstance(info, TensorStructInfo) and isinstance(declared, TensorStructInfo):
        adds = info.vdevice is None and declared.vdevice is not None
        return replace(info, vdevice=declared.vdevice) if adds else info
    return info


class VDeviceSubstitution(Substitution):
    """Rebuilds parts of a program with vdevices replaced.

    Where `change` returns None, the vdevice becomes unknown and a move to it an alias.
    """

    def __init__(self, change: Change) -> None:
        super().__init__()
        self.change = change

    def info(self, info: StructInfo) -> StructInfo:
        return with_fields(super().info(info), self.field)

    def field(self, _name: str, kind: str, value: Any) -> Any:
        """Returns a field of a StructInfo with vdevices replaced."""
        if type(value) is VDevice:
            return self.change(value)
        if value is not None and kind == "info":
            return self.info(value)
        if value is not None and kind == "infos":
            infos = tuple(map(self.info, value))
            return value if all(a is b for a, b in zip(infos, value, strict=True)) else infos
        return value

    def module(self, module: IRModule) -> IRModule:
        """Returns a module with the vdevices of all its functions and kernels replaced."""
        members = {name: self.member(member) for name, member in module.functions.items()}
        if all(members[name] is member for name, member in module.functions.items()):
            return module
        return module.with_functions(members)

    def member(self, member: Any) -> Any:
        """Returns a function or kernel with its vdevices replaced."""
        if isinstance(member, Function):
            return self.function(member)
        params = [self.bound(param) for param in member.params]
        same = all(a is b for a, b in zip(params, member.params, strict=True))
        return member if same else rebuild(member, self.kernel_part)

    def kernel_part(self, part: Any) -> Any:
        """Returns a part of a kernel over its new parameters."""
        if isinstance(part, Var):
            return self.variables.get(part, part)
        return rebuild(part, self.kernel_part) if isinstance(part, Node) else part

    def part(self, part: Any) -> Any:
        attribute = destination_of(part)
        if attribute is None:
            return super().part(part)
        old = as_vdevice(part.attrs[attribute])
        vdevice = old and self.change(old)
        if vdevice is None:
            return self.part(part.args[0])
        if vdevice == old:
            return super().part(part)
        return super().part(replace(part, attrs={**part.attrs, attribute: str(vdevice)}))


def destination_of(value: Any) -> str | None:
    """Returns the attribute of a call that names the vdevice of its result, or None."""
    if type(value) is not Call or type(value.op) is not Op:
        return None
    attribute: str | None = value.op.definition.hooks.get("vdevice")  # type: ignore[attr-defined]
    return attribute


@analysis
def vdevices_in(module: IRModule) -> dict[VDevice, Span | None]:
    """Returns the vdevices of all values of a module, each with the location of a value on it."""
    vdevices: dict[VDevice, Span | None] = {}
    visited: set[int] = set()
    todo: list[Any] = [*module.functions.values()][::-1]
    while todo:
        item = todo.pop()
        if id(item) in visited:
            continue
        visited.add(id(item))
        if type(item) is TensorStructInfo and item.vdevice is not None:
            vdevices.setdefault(item.vdevice, None)
        elif isinstance(item, Var):
            vdevices |= {v: item.span for v in vdevices_of(item.struct_info) if not vdevices.get(v)}
        if type(item) is not Op and type(item) is not Constant:
            todo += [part for part in parts(item) if isinstance(part, Node)][::-1]
    return vdevices
