"""Showing the kernels that a program is made of as the CPU runs them."""

from __future__ import annotations

from structir.ir.module import IRModule
from structir.lazy import lazy_module
from structir.passes.base import module_pass

lowering = lazy_module("structir.backend.lower")


@module_pass(tolerance=1e-3, idempotent="what one round leaves may be written out in another group")
def schedule(module: IRModule) -> IRModule:
    """Write runs of ops as the kernels that run them on a CPU: parts, blocks, rows and phases.

    They are kernels of the module like any others. An edited one is compiled as it stands, and runs
    as fast as what it was made from. What kernels cannot say stays as it is.
    """
    made: IRModule = lowering.scheduled(module)
    return made
