"""Decomposes composite ops that have a training mode, for inference."""

from __future__ import annotations

from structir.ir.module import IRModule
from structir.passes.base import module_pass
from structir.passes.manager.decompose import decompose_ops, named_ops


# results in training mode and in inference mode differ
@module_pass(aliases=("decompose_ops_for_inference",), comparable=False, tolerance=1e-3)
def decompose_for_inference(module: IRModule, *, ops: str = "") -> IRModule:
    """Switches ops that have a training mode to inference and decomposes them, or those named."""
    return decompose_ops(module, named_ops(ops), training=False)
