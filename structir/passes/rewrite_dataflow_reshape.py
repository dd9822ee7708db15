"""Runs the rewrites of its group, which are declared beside their ops."""

from __future__ import annotations

from structir.ir.module import IRModule
from structir.passes.base import Positive, module_pass
from structir.passes.manager.rules import ROUNDS, group_rules, run_rules


@module_pass(tolerance=1e-3)
def rewrite_dataflow_reshape(module: IRModule, *, rounds: Positive = ROUNDS) -> IRModule:
    """Replaces ops that move no element in memory by reshapes."""
    return run_rules(module, group_rules("rewrite_dataflow_reshape"), rounds)
