"""The rewrites of the group `convert_layout`, which stand beside the ops, run together."""

from __future__ import annotations

from structir.ir.module import IRModule
from structir.passes.base import module_pass
from structir.passes.manager.rules import ROUNDS, group_rules, run_rules


@module_pass(tolerance=1e-3)
def convert_layout(module: IRModule, *, rounds: int = ROUNDS) -> IRModule:
    """Run convolutions with channels last; permutes move on until they meet and cancel."""
    return run_rules(module, [*group_rules("convert_layout"), *group_rules("simplify")], rounds)
