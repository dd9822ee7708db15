"""Infers shapes forward and backward with the solver."""

from __future__ import annotations

from structir.ir.module import IRModule
from structir.passes.base import module_pass
from structir.solver.program.default_selection import Close
from structir.solver.program.inference import infer as infer_program


# inferred sizes become checks of arguments, which then reject others
@module_pass(comparable=False)
def infer(module: IRModule, *, refine: str | None = None, close: Close = False) -> IRModule:
    """Infers StructInfo forward and backward from annotations, operands and results."""
    return infer_program(module, refine=refine, close=close)
