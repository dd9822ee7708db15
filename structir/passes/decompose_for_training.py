"""Composite ops taken apart into simpler ones, as they stand."""

from __future__ import annotations

from structir.ir.module import IRModule
from structir.passes.base import module_pass
from structir.passes.manager.decompose import decomposed


@module_pass(tolerance=1e-3)
def decompose_for_training(module: IRModule, *, ops: str = "") -> IRModule:
    """Take apart ops that have a mode of training, or those named, in the mode asked for."""
    return decomposed(module, frozenset(ops.replace(",", " ").split()), training=True)
