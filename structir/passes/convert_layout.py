"""Runs the rewrites of the group `convert_layout`, which are declared beside their ops."""

from __future__ import annotations

from structir.ir.module import IRModule
from structir.passes.base import Positive, module_pass
from structir.passes.manager.rules import ROUNDS, group_rules, run_rules


@module_pass(tolerance=1e-3)
def convert_layout(module: IRModule, *, rounds: Positive = ROUNDS) -> IRModule:
    """Converts convolutions to channels-last layout, and moves permutes until they cancel.

    An `out_dtype` that is the dtype of the operands changes nothing.
    """
    return run_rules(module, [*group_rules("convert_layout"), *group_rules("simplify")], rounds)
