"""The part of a function outside of its regions. An op without a kernel there is rejected before
anything runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from structir.errors import Diagnostic, DiagnosticError
from structir.ir.expr import Call, Expr, Function, GlobalVar, If, SeqExpr, VarBinding
from structir.ir.kernel import Kernel
from structir.ir.op import Op
from structir.ir.struct_info import ShapeStructInfo
from structir.loops.program.expression import NoKernelError
from structir.loops.regions.region import RegionLowering
from structir.targets.cuda.portable import device_routine

HINT = "compile the function for the CPU, or take this part out of it"


def refuse_host_ops(name: str, function: Function, kernels: Mapping[str, Kernel]) -> None:
    """Raises an error for the first op that only the host could run."""
    for binding in _bindings(function.body):
        call = binding.value
        if isinstance(call, Call) and (_op(call) or _kernel(call, kernels)):
            raise _refused(name, binding, call, kernels)


def _op(call: Call) -> bool:
    """Whether a call computes more than a shape. The host computes shapes and reads conditions."""
    return isinstance(call.op, Op) and not isinstance(call.struct_info, ShapeStructInfo)


def _kernel(call: Call, kernels: Mapping[str, Kernel]) -> bool:
    return isinstance(call.op, GlobalVar) and call.op.name in kernels


def _bindings(seq: SeqExpr) -> Iterator[Any]:
    for binding in seq.bindings():
        yield binding
        for inner in _sequences(binding.value):
            yield from _bindings(inner)


def _sequences(value: Expr) -> list[SeqExpr]:
    match value:
        case If():
            return [value.true_branch, value.false_branch]
        case Function():
            return [value.body]
    return []


def _refused(name: str, binding: Any, call: Call, kernels: Mapping[str, Kernel]) -> DiagnosticError:
    reason = "it is no plain binding"
    if isinstance(binding, VarBinding):
        lowering = RegionLowering(kernels=kernels, routine_of=device_routine)
        try:
            lowering.add(binding)
        except NoKernelError as error:
            reason = error.message
    what = getattr(call.op, "name", "this call")
    message = f"{what} in {name} has no CUDA kernel: {reason}"
    return DiagnosticError(Diagnostic(message, call.span, hint=HINT))
