"""Adds functions that compute gradients of others."""

from __future__ import annotations

from structir.adjoints.functions import Adjoints
from structir.analysis.variables import walk
from structir.batching.combinators import expanded, is_expandable
from structir.errors import DiagnosticError, StructInfoError, StructIRError
from structir.ir.expr import Function
from structir.ir.module import IRModule
from structir.ir.struct_info import TensorStructInfo
from structir.passes.base import NonNegative, module_pass
from structir.passes.convert_to_dataflow import convert_to_dataflow
from structir.passes.dead_code_elimination import dead_code_elimination
from structir.passes.lambda_lift import lambda_lift
from structir.passes.lower_ragged import lower_ragged
from structir.solver.program.inference import infer


@module_pass(aliases=("grad",), comparable=False)
def gradient(
    module: IRModule,
    *,
    function: str = "main",
    parameters: str = "",
    target: NonNegative = 0,
    value_and_grad: bool = True,
) -> IRModule:
    """Adds the function `main_adjoint`, which returns the scalar result of `main` and a tuple of
    its gradients.

    `parameters` are the arguments to differentiate with respect to; by default all of
    floating-point dtype. `target` is the field to differentiate if the result is a tuple. With
    `value_and_grad=False` only the gradients are returned. The backward pass recomputes the values
    of called functions and of branches: inline functions first where time matters more than memory.
    """
    name = f"{function}_adjoint"
    if name in module.functions:
        raise StructIRError(f"gradient: function {name} already exists in the module", code="E0614")
    names = parameters.replace(",", " ").split()
    try:
        lifted, generated = _adjoints(module, name, function, names, target, value_and_grad)
    except DiagnosticError as error:
        known = _with_inferred_ranks(module)
        if known is None:
            raise
        try:
            lifted, generated = _adjoints(known, name, function, names, target, value_and_grad)
        except DiagnosticError:
            raise error from None
    extended = lifted.with_functions({**lifted.functions, **generated})
    live = dead_code_elimination.transform(extended, entries=name)
    new = {n: f for n, f in live.functions.items() if n not in module.functions}
    normal = convert_to_dataflow.transform(module.with_functions(new))
    return module.with_functions({**module.functions, **normal.functions})


def _adjoints(
    module: IRModule,
    name: str,
    function: str,
    parameters: list[str],
    target: int,
    value_and_grad: bool,
) -> tuple[IRModule, dict[str, Function]]:
    """Returns the module without local functions, and the generated functions."""
    lifted = lambda_lift.transform(lower_ragged.transform(expanded(module, is_expandable)))
    adjoints = Adjoints(lifted)
    try:
        adjoints.add(name, function, parameters, target, value_and_grad)
    except DiagnosticError as error:
        by = f" with respect to {', '.join(parameters)}" if parameters else ""
        notes = [
            each.note(f"required by the gradient of {function}{by}") for each in error.diagnostics
        ]
        raise type(error)(notes) from None
    return lifted, adjoints.generated


def _with_inferred_ranks(module: IRModule) -> IRModule | None:
    """Returns the module with the axes that its ops require, such as the first axis of a scanned
    tensor of unknown rank; None if all ranks are known, or if inference fails."""
    infos = [part for part in walk(module) if isinstance(part, TensorStructInfo)]
    if all(info.axes is not None or info.dims is not None for info in infos):
        return None
    try:
        return infer(module)
    except StructInfoError:
        return None
