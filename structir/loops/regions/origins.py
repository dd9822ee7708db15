"""Locations of calls, as kernels state their origins."""

from __future__ import annotations

from collections.abc import Mapping

from structir.ir.expr import Call
from structir.ir.kernel import Kernel
from structir.ir.op import Op


def origin_of(call: Call, kernels: Mapping[str, Kernel] = {}) -> str:
    """Returns the location of a call, with the name of the op, or of the kernel in `kernels`."""
    if isinstance(call.op, Op):
        return f"R.{name_at(call)}"
    name = kernels[call.op.name].name  # type: ignore[attr-defined]
    return name if call.span is None else f"{name} at {call.span}"


def name_at(call: Call) -> str:
    """Returns the location of a call of an op, with its name."""
    name: str = call.op.definition.name  # type: ignore[attr-defined]
    return name if call.span is None else f"{name} at {call.span}"
