"""Showing the kernels that a program is made of."""

from __future__ import annotations

from structir.ir.module import IRModule
from structir.lazy import lazy_module
from structir.passes.base import module_pass

lowering = lazy_module("structir.backend.lower")


@module_pass(tolerance=1e-3, idempotent="what one round leaves may be written out in another group")
def lower(module: IRModule) -> IRModule:
    """Write runs of ops as kernels of the module, fused as the compiler fuses them.

    The kernels are plain `@I.kernel` functions, called by `R.call_kernel`: they print, parse, and
    run, interpreted or compiled, and may be edited. What kernels cannot say stays as it is.
    """
    made: IRModule = lowering.lowered(module)
    return made
