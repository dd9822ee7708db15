"""Shapes completed in both directions by the solver."""

from __future__ import annotations

from structir.ir.module import IRModule
from structir.passes.base import module_pass
from structir.solver.program.inference import infer as completed


# what it learns it may check on entry, and a program that cannot hold it refuses
@module_pass(comparable=False)
def infer(module: IRModule, *, learn: str | None = None, close: bool = False) -> IRModule:
    """Complete every StructInfo from annotations, operands and results, in both directions."""
    return completed(module, learn=learn, close=close)
