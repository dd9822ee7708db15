"""Decomposes composite ops that have a training mode, in their current mode."""

from __future__ import annotations

from structir.ir.module import IRModule
from structir.passes.base import module_pass
from structir.passes.manager.decompose import decompose_ops, named_ops


@module_pass(aliases=("decompose_ops_for_training",), tolerance=1e-3)
def decompose_for_training(module: IRModule, *, ops: str = "") -> IRModule:
    """Decomposes ops that have a training mode, or those named, in their current mode."""
    return decompose_ops(module, named_ops(ops), training=True)
