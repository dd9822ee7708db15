"""Index specs of calls of kernels, external functions and ops, with notes on whole-axis
accesses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import attrs

from structir.ir.expr import Call, Expr, ExternFunc, GlobalVar
from structir.ir.kernel import Kernel
from structir.ir.module import IRModule
from structir.ir.op import Op
from structir.lazy import provided_module
from structir.projections.explanations import WholeAxis
from structir.projections.kernels.kernel_spec import kernel_projection, spec_of_call
from structir.projections.spec import IndexSpec

extern_projection = provided_module("extern projections")


@attrs.frozen(eq=False)
class CalleeSpec:
    """The spec of a call; None if its results depend on all of its operands.

    `notes` state which operands it requires completely, and why.
    """

    spec: IndexSpec | None
    notes: tuple[WholeAxis, ...] = ()
    kernel: Kernel | None = None


def spec_of_callee(call: Call, module: IRModule | None) -> CalleeSpec:
    """Returns the spec of a call of a kernel or an external function; others are opaque."""
    rule = CALLEES.get(type(call.op))
    return (
        _opaque(call, "is a function without an index signature")
        if rule is None
        else (rule(call, module))
    )


def _kernel(call: Call, module: IRModule | None) -> CalleeSpec:
    callee: Any = None if module is None else module.functions.get(call.op.name)  # type: ignore[attr-defined]
    if not isinstance(callee, Kernel):
        reason = (
            "is a function whose body is unknown"
            if module is not None
            else ("is a function of a module: pass it as `module`")
        )
        return _opaque(call, reason)
    notes = kernel_projection(callee).notes
    return CalleeSpec(spec_of_call(call, callee), notes, callee)


def _extern(call: Call, module: IRModule | None) -> CalleeSpec:
    spec = extern_projection.extern_spec(call) if call.attrs else None
    if spec is None:
        return _opaque(call, 'declares no projection: `index="x[i] -> y[i]"`')
    return CalleeSpec(spec)


def _opaque(call: Call, reason: str) -> CalleeSpec:
    name = _name(call)
    notes = [WholeAxis(_name(arg), None, f"{name} {reason}", call.span) for arg in call.args]
    return CalleeSpec(None, tuple(notes))


def _name(expr: Expr) -> str:
    callee = expr.op if isinstance(expr, Call) else expr
    for field in ("name", "global_symbol"):
        name = getattr(callee, field, None)
        if isinstance(name, str):
            return name
    return "an operand"


CALLEES: dict[type, Callable[[Call, IRModule | None], CalleeSpec]] = {
    GlobalVar: _kernel,
    ExternFunc: _extern,
}


def notes_of_spec(call: Call, spec: IndexSpec) -> Iterator[WholeAxis]:
    """Yields the axes that a call reads at indices from data, or completely."""
    seen: set[tuple[int, int]] = set()
    for statement in spec.statements:
        for read in statement.reads:
            if read.plain is not None:
                continue
            for axis, entry in enumerate(read.entries):
                from_data = entry.data is not None and entry.table is None
                if from_data and (read.operand, axis) not in seen:
                    seen.add((read.operand, axis))
                    name = getattr(call.op, "name", "the call")
                    text = f"{name} reads axis {axis} at indices that depend on data"
                    operand = spec.operands[read.operand]
                    yield WholeAxis(_operand_name(call, operand.path), axis, text, call.span)


def _operand_name(call: Call, path: tuple[int, ...]) -> str:
    operand: Any = call.args[path[0]]
    for index in path[1:]:
        operand = getattr(operand, "fields", [operand])[index]
    return _name(operand)


def notes_of_op(call: Call, spec: IndexSpec | None) -> Iterator[WholeAxis]:
    """Yields the notes of a call of an op."""
    if isinstance(call.op, Op):
        if spec is None:
            yield from _opaque(call, "has no index signature for these operands").notes
        else:
            yield from notes_of_spec(call, spec)
