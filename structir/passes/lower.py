"""Lowers runs of ops to kernels of the module."""

from __future__ import annotations

from structir.ir.module import IRModule
from structir.lazy import lazy_module
from structir.passes.base import module_pass

lowering = lazy_module("structir.runtime.module_lowering")


@module_pass(tolerance=1e-3, idempotent="ops that remain after one run may form another group")
def lower(module: IRModule) -> IRModule:
    """Replaces runs of ops by calls of kernels, fused as the compiler fuses them.

    The kernels are plain `@I.kernel` functions, called by `R.call_kernel`: they print, parse, run
    interpreted or compiled, and may be edited. Ops that kernels cannot express remain.
    """
    lowered: IRModule = lowering.lowered(module)
    return lowered
