"""Infers the vdevices of results: one call runs on the vdevice of its operands."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import repeat
from typing import Any

from structir.analysis.vdevices import on_vdevice, vdevices_of, with_default_vdevice
from structir.errors import Diagnostic, Span, StructInfoError
from structir.ir.expr import Expr, Tuple
from structir.ir.struct_info import StructInfo
from structir.ir.vdevice import VDevice, as_vdevice
from structir.opdef.declaration import DeclaredOp

Placed = tuple[str, Expr, VDevice]  # the name of an operand, the operand, its vdevice


def place_result(
    definition: DeclaredOp,
    info: StructInfo,
    args: tuple[Expr, ...],
    attributes: Mapping[str, Any],
    span: Span | None,
) -> StructInfo:
    """Returns the StructInfo of a result with the vdevice of the operands, or of an attribute.

    Raises StructInfoError if two operands have different vdevices. Only ops with a StructInfo rule
    of their own, such as loops, accept them; the vdevice of the result is then unknown.
    """
    moved = definition.hooks.get("vdevice")
    if moved is not None:
        return on_vdevice(info, as_vdevice(attributes[moved]))
    operands = list(_placed_operands(args, definition.argument_names))
    if not operands:
        return info
    vdevice = operands[0][2]
    other = next((item for item in operands if item[2] != vdevice), None)
    if other is None:
        return with_default_vdevice(info, vdevice)
    if "struct_info" in definition.hooks:
        return info
    raise _mismatch(definition.name, operands[0], other, span)


def _placed_operands(args: Iterable[Expr], names: Iterable[str]) -> Iterator[Placed]:
    for arg, name in zip(args, names, strict=False):
        if type(arg) is Tuple:
            yield from _placed_operands(arg.fields, repeat(name))
            continue
        for vdevice in dict.fromkeys(vdevices_of(arg.struct_info)):
            yield getattr(arg, "name", name), arg, vdevice


def _mismatch(op: str, first: Placed, second: Placed, span: Span | None) -> StructInfoError:
    (name, arg, vdevice), (other_name, other, other_vdevice) = first, second
    message = f"vdevice mismatch: {name} is on {vdevice}, {other_name} is on {other_vdevice}"
    hint = f'move one operand: `R.to_vdevice({other_name}, "{vdevice}")`'
    diagnostic = Diagnostic(message, span, op, hint=hint, code="E0216")
    diagnostic = diagnostic.note(f"{name}: {arg.struct_info}", arg.span)
    return StructInfoError(diagnostic.note(f"{other_name}: {other.struct_info}", other.span))
