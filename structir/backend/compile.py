"""`structir.compile`: a module as an executable, compiled once for every size."""

from __future__ import annotations

from collections.abc import Callable

from structir.backend.executable import Executable
from structir.errors import StructIRError
from structir.ir.expr import Function
from structir.ir.module import IRModule

TARGETS: dict[str, Callable[[IRModule, int | None], Executable]] = {"cpu": Executable}


def compile(
    mod: IRModule | Function, target: str = "cpu", num_threads: int | None = None
) -> Executable:
    """Compile all functions of a module; `exe["main"](*arrays)` runs one.

    Each call uses up to `num_threads` threads: without it, what STRUCTIR_NUM_THREADS says, or one.
    """
    module = IRModule({"main": mod}) if isinstance(mod, Function) else mod
    make = TARGETS.get(target)
    if make is None:
        raise StructIRError(f"no backend {target!r}; there are {', '.join(TARGETS)}")
    return make(module, num_threads)
