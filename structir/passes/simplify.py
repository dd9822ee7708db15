"""Simplification by the rewrites of the group `simplify`, which stand beside the ops."""

from __future__ import annotations

from structir.ir.module import IRModule
from structir.passes.base import module_pass
from structir.passes.manager.rules import ROUNDS, group_rules, run_rules


@module_pass
def simplify(module: IRModule, *, rounds: int = ROUNDS) -> IRModule:
    """Apply what is known of ops, algebra and sizes: zeros added, reshapes in a row."""
    return run_rules(module, group_rules("simplify"), rounds)
