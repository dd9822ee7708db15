"""Replaces combinators by batched ops, reductions and loops."""

from __future__ import annotations

from structir.batching.combinators import expanded
from structir.ir.module import IRModule
from structir.passes.base import module_pass


@module_pass
def expand_combinators(module: IRModule) -> IRModule:
    """Replaces maps by batched ops, and folds by reductions or loops.

    Compilation, gradients and sharding run it first. A map remains where the rank of an operand is
    unknown, or where the function has no batched form.
    """
    return expanded(module)
