"""Expresses ops on ragged tensors with ops on their values and rows."""

from __future__ import annotations

from structir.ir.expr import Function
from structir.ir.module import IRModule
from structir.passes.base import module_pass
from structir.passes.convert_to_dataflow import convert_to_dataflow
from structir.passes.lambda_lift import lambda_lift
from structir.ragged.module import lowered_functions, needs_lowering
from structir.ragged.row_folds import with_row_folds
from structir.ragged.row_maps import with_row_maps


@module_pass(aliases=("ragged",))
def lower_ragged(module: IRModule) -> IRModule:
    """Replaces ops on tensors with a ragged axis by dense ops on the values of all rows.

    Reductions over the ragged axis become reductions of segments. Parameters, results and calls of
    functions keep their ragged tensors. A module without ragged tensors is returned unchanged.
    """
    functions = [f for f in module.functions.values() if isinstance(f, Function)]
    if not any([needs_lowering(module, function) for function in functions]):
        return module
    lowered = lowered_functions(lambda_lift.transform(with_row_maps(with_row_folds(module))))
    return convert_to_dataflow.transform(lowered)
