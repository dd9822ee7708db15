"""The rewrites of the group `reorder_matmul`, which stand beside the ops, run together."""

from __future__ import annotations

from structir.ir.module import IRModule
from structir.passes.base import module_pass
from structir.passes.manager.rules import ROUNDS, group_rules, run_rules


@module_pass(tolerance=1e-3)
def reorder_matmul(module: IRModule, *, rounds: int = ROUNDS) -> IRModule:
    """Multiply chains of matrices in an order that provably takes fewer steps."""
    return run_rules(module, group_rules("reorder_matmul"), rounds)
