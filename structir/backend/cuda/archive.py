"""Executables for cards in files: the program, its constants, and machine code for one
architecture."""

from __future__ import annotations

import json
import os
from typing import Any

import numpy as np

from structir.backend import cache as disk
from structir.backend.cuda.compiler import entry_of, identity, key_of, offer
from structir.backend.cuda.executable import DeviceExecutable
from structir.backend.cuda.target import device_to_load_on
from structir.errors import Diagnostic, StructIRError, warn
from structir.printer.archive import contents, module_of, write

TARGET, MACHINE, ARCHITECTURE = "structir.target", "structir.machine", "structir.architecture"
KERNELS, OPTIONS = "structir.kernels", "structir.options"
PREFIX = "machine code "
Path = str | os.PathLike[str]


def save(executable: DeviceExecutable, path: Path) -> None:
    """Write an executable, so that `structir.load` need not compile it where there is a card."""
    arrays, facts = contents(executable.module)
    codes = {}
    for plan in executable.plans():
        for kernel in plan.kernels:
            code = getattr(kernel, "code", kernel)
            if not hasattr(code, "cubin"):
                raise StructIRError("kernels of the simulator are not saved: compile for a card")
            codes[key_of(code.text, code.architecture)] = code
    for key, code in codes.items():
        arrays[PREFIX + key] = np.frombuffer(disk.packed(key, entry_of(code)), np.uint8)
    facts |= {TARGET: "cuda", MACHINE: identity(), KERNELS: json.dumps(list(codes))}
    facts |= {ARCHITECTURE: executable.device.architecture}
    facts |= {OPTIONS: json.dumps({"tf32": executable.tf32})}
    write(arrays, facts, path)


def loaded(path: Path, arrays: dict[str, Any], facts: dict[str, str]) -> DeviceExecutable:
    """The executable that a file holds, for the card of this machine if there is one."""
    architecture, options = facts[ARCHITECTURE], json.loads(facts[OPTIONS])
    device = device_to_load_on(architecture)
    name = os.fspath(path)
    if device.architecture != architecture:
        _warn(f"{name} was compiled for {architecture}, and here is {device.architecture}")
    elif facts[MACHINE] != identity():
        _warn(f"{name} was compiled by other versions")
    elif not _offered(arrays, json.loads(facts[KERNELS]), architecture):
        _warn(f"machine code in {name} is damaged")
    return DeviceExecutable(module_of(path, arrays, facts), device, **options)


def _offered(arrays: dict[str, Any], keys: list[str], architecture: str) -> bool:
    """Have the sound ones among the kernels of a file used; whether all are sound."""
    packed = {key: arrays.get(PREFIX + key) for key in keys}
    entries = {
        key: None if data is None else disk.unpacked(key, data.tobytes())
        for key, data in packed.items()
    }
    for key, entry in entries.items():
        if entry is not None:
            offer(key, entry, architecture)
    return None not in entries.values()


def _warn(text: str) -> None:
    hint = "save it again from here, and it loads without compiling"
    warn(Diagnostic(f"{text}: compiling again", hint=hint))
