"""Proposes edits of calls with mismatched shapes, after shape inference accepts them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from structir.ir.expr import Expr, Tuple, Var
from structir.ir.struct_info import TensorStructInfo, known_dims
from structir.opdef.axis_packs import InvalidCall
from structir.opdef.declaration import DeclaredOp
from structir.opdef.parameters import shown
from structir.opdef.resolution import ResolvedCall

Accepts = Callable[[DeclaredOp, tuple[Expr, ...], Mapping[str, Any]], bool]


def propose_edit(
    definition: DeclaredOp,
    args: tuple[Expr, ...],
    attributes: Mapping[str, Any],
    error: InvalidCall,
    resolved: ResolvedCall | None,
    accepts: Accepts,
) -> str | None:
    """Returns the first accepted edit of an operand or of the axis, as a hint."""
    sources = [_source(arg) for arg in args]
    if resolved is None or None in sources:
        return None
    names = [str(source) for source in sources]
    operands = [resolved.paths[k] for _, k, _ in error.facts if k is not None]
    for position, member in sorted(dict.fromkeys(operands), reverse=True):
        if member is None:
            description, edit = EDITS[error.code]
            call, shape = edit(args[position])
            info: Any = args[position].struct_info
            edited = Var("edited", TensorStructInfo(shape, info.dtype))
            candidate = (*args[:position], edited, *args[position + 1 :])
            ranks = [getattr(arg.struct_info, "ndim", None) or 0 for arg in args]
            fits = shape is not None and len(shape) <= max(ranks)
            if fits and accepts(definition, candidate, attributes):
                side = ("left ", "right ")[position] if len(args) == 2 else ""
                edited_names = [*names[:position], call, *names[position + 1 :]]
                edited_call = _call_source(definition, edited_names, attributes)
                return f"{description.format(f'{side}operand')}: {edited_call}"
        for axis in range(4) if type(attributes.get("axis", 0)) is int else ():
            edited_attributes = {**attributes, "axis": axis}
            if "axis" in resolved.placing and accepts(definition, args, edited_attributes):
                return f"use axis {axis}: {_call_source(definition, names, edited_attributes)}"
    return None


def _call_source(definition: DeclaredOp, args: list[str], attributes: Mapping[str, Any]) -> str:
    keywords = [f"{name}={shown(value)}" for name, value in attributes.items()]
    return f"`R.{definition.name}({', '.join([*args, *keywords])})`"


def _source(arg: Expr) -> str | None:
    """Returns the source of a tensor variable or a list of them; None for other arguments."""
    if type(arg) is Tuple:
        fields = [_source(field) for field in arg.fields]
        return None if None in fields else f"[{', '.join(map(str, fields))}]"
    tensor = type(arg) is Var and type(arg.struct_info) is TensorStructInfo
    return arg.name if tensor and isinstance(arg, Var) else None


def _transposed(arg: Any) -> tuple[str, tuple[Any, ...] | None]:
    shape = known_dims(arg.struct_info) or ()
    if len(shape) < 2:
        return "", None
    order = [*range(len(shape) - 2), len(shape) - 1, len(shape) - 2]
    axes = f", axes={order}" if len(shape) > 2 else ""
    return f"R.permute_dims({arg.name}{axes})", tuple([shape[axis] for axis in order])


def _expanded(arg: Any) -> tuple[str, tuple[Any, ...] | None]:
    shape = known_dims(arg.struct_info)
    return f"R.expand_dims({arg.name}, axis=-1)", None if shape is None else (*shape, 1)


# By error code: the description of an edit, and the edit of an operand.
EDITS: dict[str, tuple[str, Callable[[Any], tuple[str, tuple[Any, ...] | None]]]] = {
    "E0201": ("transpose the {}", _transposed),
    "E0302": ("add an axis of size 1 to the {}", _expanded),
}
