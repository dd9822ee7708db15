"""Saved executables for GPUs: the program, its constants, and machine code for one architecture."""

from __future__ import annotations

import json
import os
from functools import partial

import numpy as np

from structir.errors import StructIRError
from structir.printer.files.archive import contents, listed, module_of, write
from structir.printer.files.column_panels import ModuleArrays
from structir.runtime.files.archive import (
    KERNELS,
    MACHINE,
    PREFIX,
    TARGET,
    Path,
    offer_kernels,
    plans_in,
    put_plans,
    warn_of_compiling,
)
from structir.system import cache as disk
from structir.targets.cuda.compiler import entry_of, identity, key_of, offer
from structir.targets.cuda.executable import DeviceExecutable
from structir.targets.cuda.serialise import DeviceReading, DeviceWriting
from structir.targets.cuda.target import device_to_load_on

ARCHITECTURE, TF32 = "structir.architecture", "structir.tf32"


def save(executable: DeviceExecutable, path: Path) -> None:
    """Saves an executable, so that `structir.load` need not compile it where a GPU is present."""
    arrays, facts = contents(executable.module)
    codes = {}
    for plan in executable.plans():
        for kernel in plan.kernels:
            code = getattr(kernel, "code", kernel)
            if not hasattr(code, "cubin"):
                raise StructIRError("kernels of the simulator are not saved: compile for a GPU")
            codes[key_of(code.text, code.architecture)] = code
    for key, code in codes.items():
        arrays[PREFIX + key] = np.frombuffer(disk.pack_entry(key, entry_of(code)), np.uint8)
    facts |= {TARGET: "cuda", MACHINE: identity(), KERNELS: json.dumps(list(codes))}
    facts |= {ARCHITECTURE: executable.device.architecture}
    facts |= {TF32: str(executable.tf32)}
    put_plans(executable, DeviceWriting, arrays, facts)
    write(arrays, facts, path)


def loaded(path: Path, arrays: ModuleArrays, facts: dict[str, str]) -> DeviceExecutable:
    """Returns the executable stored in a file, for the GPU of this machine if there is one."""
    architecture, name = facts.get(ARCHITECTURE, ""), os.fspath(path)
    device, tf32 = device_to_load_on(architecture), facts.get(TF32) == str(True)
    module, plans = partial(module_of, path, arrays, facts), None
    if device.architecture != architecture:
        warn_of_compiling(
            f"{name} was compiled for {architecture}, and here is {device.architecture}"
        )
    elif facts.get(MACHINE) != identity():
        warn_of_compiling(f"{name} was compiled by other versions")
    else:
        plans = plans_in(arrays, facts, partial(DeviceReading, device=device, tf32=tf32))
        offering = partial(offer, architecture=architecture)
        if not offer_kernels(arrays, listed(facts, KERNELS), offering) or plans is None:
            warn_of_compiling(f"machine code in {name} is damaged")
    return DeviceExecutable(module() if plans is None else module, device, tf32, plans)
