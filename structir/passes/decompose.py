"""Decomposes composite ops, as the compiler does before lowering."""

from __future__ import annotations

from structir.ir.module import IRModule
from structir.ir.op import registered_ops
from structir.passes.base import module_pass
from structir.passes.manager.decompose import decompose_ops, named_ops


@module_pass(tolerance=1e-3)
def decompose(module: IRModule, *, ops: str = "") -> IRModule:
    """Decomposes composite ops, all or those named, into simpler ops."""
    names = named_ops(ops)
    names = names or frozenset([op.name for op in registered_ops()])
    before, after = module, decompose_ops(module, names, training=True)
    while after is not before:
        before, after = after, decompose_ops(after, names, training=True)
    return after
