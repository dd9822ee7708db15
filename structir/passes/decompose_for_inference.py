"""Composite ops that have a mode of training taken apart for inference."""

from __future__ import annotations

from structir.ir.module import IRModule
from structir.passes.base import module_pass
from structir.passes.manager.decompose import decomposed


# a program that was asked to train answers otherwise when it infers
@module_pass(comparable=False, tolerance=1e-3)
def decompose_for_inference(module: IRModule, *, ops: str = "") -> IRModule:
    """Turn ops that have a mode of training to inference, and take them, or those named, apart."""
    return decomposed(module, frozenset(ops.replace(",", " ").split()), training=False)
