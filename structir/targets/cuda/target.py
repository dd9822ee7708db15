"""The CUDA target of `structir.compile`: the GPU of this machine, another architecture, or numba's
simulator."""

from __future__ import annotations

import importlib.util
import os
import sys
from functools import cache, partial
from typing import Any, cast

from numba.core import config

from structir.errors import StructIRError
from structir.ir.module import IRModule
from structir.lazy import lazy_module
from structir.runtime.files.cached_plans import CachedPlans
from structir.targets.cuda.executable import DeviceExecutable
from structir.targets.cuda.serialise import DeviceReading, DeviceWriting

simulator = lazy_module("structir.targets.cuda.simulator")
gpu = lazy_module("structir.targets.cuda.gpu")
ahead = lazy_module("structir.targets.cuda.ahead")
cublas = lazy_module("nvmath.bindings.cublasLt")
driver = lazy_module("cuda.bindings.driver")
NEEDED = ("cuda.bindings", "cuda.core", "cuda.pathfinder")


def executable(module: IRModule, arch: str | None = None, tf32: bool = False) -> DeviceExecutable:
    """Compiles a module for the GPU of this machine, or for an architecture such as sm_90; such an
    executable can be saved, and loaded on a machine with such a GPU.

    With `tf32`, products of float32 may round their factors to 10 bits.
    """
    device, settings = device_of(arch), cast(Any, config)
    reading = partial(DeviceReading, device=device, tf32=tf32)
    way = f"cuda, tf32: {tf32}"
    store = None if settings.ENABLE_CUDASIM else CachedPlans(module, way, DeviceWriting, reading)
    return DeviceExecutable(module, device, tf32, store)


def device_of(arch: str | None) -> Any:
    """Returns the device to compile for."""
    settings: Any = config
    if settings.ENABLE_CUDASIM:
        return _simulator()
    _require_libraries()
    here = _gpu()
    if arch is None or (not isinstance(here, str) and here.architecture == arch):
        if isinstance(here, str):
            raise StructIRError(f"{here}; with arch, as in arch='sm_90', it compiles without a GPU")
        return here
    return ahead.AheadDevice(arch)


def use_simulator() -> None:
    """Selects numba's simulator as the GPU from now on. numba decides when its CUDA part is first
    imported; later the choice is fixed."""
    settings: Any = config
    if settings.ENABLE_CUDASIM:
        return
    if "numba.cuda" in sys.modules:
        raise StructIRError(
            "numba.cuda is already imported for a GPU: select the simulator before its first import"
        )
    os.environ["NUMBA_ENABLE_CUDASIM"] = "1"  # another distribution of numba.cuda reads it
    settings.ENABLE_CUDASIM = 1


def device_to_load_on(architecture: str) -> Any:
    """Returns the GPU of this machine, or an architecture to compile for if there is none."""
    settings: Any = config
    if settings.ENABLE_CUDASIM:
        return _simulator()
    _require_libraries()
    here = _gpu()
    return ahead.AheadDevice(architecture) if isinstance(here, str) else here


@cache
def _simulator() -> Any:
    return simulator.SimulatedDevice()


def _require_libraries() -> None:
    try:
        missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    except ModuleNotFoundError as error:
        missing = [str(error.name)]
    if missing:
        names = ", ".join(missing)
        raise StructIRError(f"the cuda backend needs {names}: pip install 'structir[cuda]'")


def _has_cublas() -> bool:
    return importlib.util.find_spec("nvmath") is not None


@cache
def _gpu() -> Any:
    """Returns the GPU of this machine, or a message that explains why there is none."""
    try:
        return gpu.Gpu(driver, cublas if _has_cublas() else None)
    except StructIRError as error:
        return error.message
    except Exception as error:  # the binding raises several error classes if there is no driver
        return f"no CUDA driver is available ({type(error).__name__})"
