"""Composite ops taken apart, as the compiler does before it writes loops."""

from __future__ import annotations

from structir.ir.module import IRModule
from structir.ir.op import registered_ops
from structir.passes.base import module_pass
from structir.passes.manager.decompose import decomposed


@module_pass(tolerance=1e-3)
def decompose(module: IRModule, *, ops: str = "") -> IRModule:
    """Write composite ops, all or those named, as the ops that they are made of."""
    names = frozenset(ops.replace(",", " ").split())
    names = names or frozenset([op.name for op in registered_ops()])
    before, after = module, decomposed(module, names, training=True)
    while after is not before:
        before, after = after, decomposed(after, names, training=True)
    return after
