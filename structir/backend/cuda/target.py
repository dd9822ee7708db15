"""A GPU as a target of `structir.compile`."""

from __future__ import annotations

from functools import cache
from typing import Any

from numba.core import config

from structir.backend.cuda.executable import DeviceExecutable
from structir.errors import StructIRError
from structir.ir.module import IRModule
from structir.lazy import lazy_module

simulator = lazy_module("structir.backend.cuda.simulator")


def executable(module: IRModule) -> DeviceExecutable:
    """Compile a module for numba's simulator of a GPU."""
    return DeviceExecutable(module, _device())


@cache
def _device() -> Any:
    settings: Any = config
    if not settings.ENABLE_CUDASIM:
        raise StructIRError("only numba's simulator can run it: set NUMBA_ENABLE_CUDASIM=1")
    return simulator.SimulatedDevice()
