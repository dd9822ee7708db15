"""Checks constant indices against sizes that only a run knows, as compiled code does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from structir.errors import DiagnosticError, ShapeMismatchError
from structir.ir.expr import Call, Constant, Expr, Tuple, Var
from structir.ir.node import replace
from structir.ir.struct_info import TensorStructInfo


def has_unknown_sizes(call: Call) -> bool:
    """Returns whether a call has constant operands, and tensors of known rank but unknown sizes."""
    operands = list(_operands(call.args))
    return any([type(each) is Constant for each in operands]) and any(map(_is_open, operands))


def check_constant_indices(call: Call, values: Sequence[Any]) -> None:
    """Raises ShapeMismatchError if constant indices of a call are out of range at the actual
    sizes."""
    args = tuple([_sized(arg, value) for arg, value in zip(call.args, values, strict=True)])
    try:
        call.op.definition.deduce(replace(call, args=args))  # type: ignore[attr-defined]
    except DiagnosticError as error:
        where = "" if call.span is None else f" at {call.span}"
        name = call.op.name  # type: ignore[attr-defined]
        text = f"{name}{where}: {error.diagnostics[0].message}"
        raise ShapeMismatchError(text, code="E0721") from error


def _operands(args: Sequence[Expr]) -> list[Expr]:
    """Returns the arguments, with the fields of tuples."""
    fields = [_operands(arg.fields) if type(arg) is Tuple else [arg] for arg in args]
    return [operand for each in fields for operand in each]


def _is_open(operand: Expr) -> bool:
    """Returns whether only the rank of a tensor is known."""
    info = operand.struct_info
    return (
        isinstance(info, TensorStructInfo)
        and info.ndim is not None
        and info.dims is None
        and info.axes is None
    )


def _sized(arg: Expr, value: Any) -> Expr:
    """Returns an argument with the sizes of its value, where they are unknown."""
    if type(arg) is Tuple:
        pairs = zip(arg.fields, value, strict=True)
        return replace(arg, fields=tuple([_sized(field, part) for field, part in pairs]))
    if not _is_open(arg):
        return arg
    info: Any = arg.struct_info
    return Var("value", TensorStructInfo(value.shape, info.element, vdevice=info.vdevice))
