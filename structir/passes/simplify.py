"""Runs the rewrites of the group `simplify`, which are declared beside their ops."""

from __future__ import annotations

from structir.ir.module import IRModule
from structir.passes.base import Positive, module_pass
from structir.passes.manager.rules import ROUNDS, group_rules, run_rules


@module_pass
def simplify(module: IRModule, *, rounds: Positive = ROUNDS) -> IRModule:
    """Simplifies with identities of ops, algebra and sizes, such as added zeros and consecutive
    reshapes."""
    return run_rules(module, group_rules("simplify"), rounds)
