"""Calls of ops without a form in a format, as calls of other ops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from structir.errors import StructIRError
from structir.ir.expr import Call, Expr


def decomposed(call: Call, target: str, fail: Callable[[str, str], NoReturn]) -> Expr:
    """Returns the decomposition of a call of an op.

    Calls `fail` with a message and a hint if the op has none; `target` is the name of the format.
    """
    definition: Any = call.op.definition  # type: ignore[attr-defined]
    decompose = getattr(definition, "decompose", None)
    try:
        parts: Expr | None = None if decompose is None else decompose(call)
    except StructIRError:
        parts = None
    if parts is None:
        infos = ", ".join([str(arg.struct_info) for arg in call.args])
        fail(
            f"{definition.name}: no {target} form of this op for ({infos})",
            f'register a mapping: `@exports("{definition.name}")`',
        )
    return parts
