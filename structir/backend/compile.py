"""`structir.compile`: a module as an executable, compiled once for every size."""

from __future__ import annotations

from collections.abc import Callable

from structir.backend.executable import Executable
from structir.errors import StructIRError
from structir.ir.expr import Function
from structir.ir.module import IRModule

TARGETS: dict[str, Callable[[IRModule], Executable]] = {"cpu": Executable}


def compile(mod: IRModule | Function, target: str = "cpu") -> Executable:
    """Compile all functions of a module; `exe["main"](*arrays)` runs one."""
    module = IRModule({"main": mod}) if isinstance(mod, Function) else mod
    make = TARGETS.get(target)
    if make is None:
        raise StructIRError(f"no backend {target!r}; there are {', '.join(TARGETS)}")
    return make(module)
