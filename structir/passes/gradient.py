"""Functions that give the gradients of others."""

from __future__ import annotations

from structir.adjoints.functions import Adjoints
from structir.errors import DiagnosticError, StructIRError
from structir.ir.module import IRModule
from structir.passes.base import module_pass
from structir.passes.convert_to_dataflow import convert_to_dataflow
from structir.passes.dead_code_elimination import dead_code_elimination
from structir.passes.lambda_lift import lambda_lift


@module_pass(aliases=("grad",), comparable=False)
def gradient(
    module: IRModule,
    *,
    function: str = "main",
    parameters: str = "",
    target: int = 0,
    value_and_grad: bool = True,
) -> IRModule:
    """Add the gradient of a function's result, one real number: `main_adjoint` gives the result of
    `main`, then the tuple of the gradients by its parameters of real numbers, or by those named.

    Of a tuple of results, `target` is the field that is differentiated; with
    `value_and_grad=False` the gradients are all that is given. What a function that is called has
    computed, and what a branch has, is computed again on the way back: inline functions first
    where memory matters less than time.
    """
    name = f"{function}_adjoint"
    if name in module.functions:
        raise StructIRError(f"the module has a function {name} already")
    lifted = lambda_lift.transform(module)
    wanted = parameters.replace(",", " ").split()
    adjoints = Adjoints(lifted)
    try:
        adjoints.add(name, function, wanted, target, value_and_grad)
    except DiagnosticError as error:
        by = f" by {', '.join(wanted)}" if wanted else ""
        notes = [
            each.note(f"asked for by the gradient of {function}{by}") for each in error.diagnostics
        ]
        raise type(error)(notes) from None
    everything = lifted.with_functions({**lifted.functions, **adjoints.generated})
    reached = dead_code_elimination.transform(everything, entries=name)
    new = {n: f for n, f in reached.functions.items() if n not in module.functions}
    tidy = convert_to_dataflow.transform(module.with_functions(new))
    return module.with_functions({**module.functions, **tidy.functions})
