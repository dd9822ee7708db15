"""Lowers runs of ops to kernels in the form in which the CPU runs them."""

from __future__ import annotations

from structir.ir.module import IRModule
from structir.lazy import lazy_module
from structir.passes.base import module_pass

lowering = lazy_module("structir.runtime.module_lowering")
scheduling = lazy_module("structir.scheduling.steps")


@module_pass(tolerance=1e-3, idempotent="ops that remain after one run may form another group")
def schedule(module: IRModule, *, steps: str = "", function: str = "main") -> IRModule:
    """Replaces runs of ops by scheduled CPU kernels: parts, blocks, rows and phases.

    They are ordinary kernels of the module. An edited kernel with parts is compiled as written and
    runs as fast as its source. Ops that kernels cannot express remain.

    With `steps`, plain kernels are scheduled by these primitives instead:
    `schedule{steps="fuse(h, y); y.split(i1, 8).parallel(i1_0)"}`. `y` is a kernel, or a value of
    `function`. `structir.schedule(module).text()` returns such steps.
    """
    if steps:
        by_steps: IRModule = scheduling.scheduled(module, steps, function)
        return by_steps
    scheduled: IRModule = lowering.scheduled(module)
    return scheduled
