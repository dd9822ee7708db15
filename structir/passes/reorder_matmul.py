"""Runs the rewrites of the group `reorder_matmul`, which are declared beside their ops."""

from __future__ import annotations

from structir.ir.module import IRModule
from structir.passes.base import Positive, module_pass
from structir.passes.manager.rules import ROUNDS, group_rules, run_rules


@module_pass(tolerance=1e-3)
def reorder_matmul(module: IRModule, *, rounds: Positive = ROUNDS) -> IRModule:
    """Reorders chains of matrix products where this provably takes fewer operations."""
    return run_rules(module, group_rules("reorder_matmul"), rounds)
