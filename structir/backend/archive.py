"""Executables in files: the program's text, its constants, and machine code for where it was made.

Such a file is a module's file with more in it; `structir.load` reads both kinds.
"""

from __future__ import annotations

import json
import os
from typing import Any

from structir.errors import Diagnostic, warn
from structir.lazy import lazy_module
from structir.printer.archive import contents, read, write

np = lazy_module("numpy")
executables = lazy_module("structir.backend.executable")
identity = lazy_module("structir.backend.cpu.identity")
objects = lazy_module("structir.backend.cpu.objects")
disk = lazy_module("structir.backend.cache")

MACHINE, KERNELS = "structir.machine", "structir.kernels"
PREFIX = "machine code "
Path = str | os.PathLike[str]
Executable = Any  # the class is in a file that needs this one


def save(executable: Executable, path: Path) -> None:
    """Write an executable, so that `structir.load` need not compile it again on this machine."""
    arrays, facts = contents(executable.module)
    texts = [k.text for plan in executable.plans() for k in plan.kernels]
    keys = []
    for text, code in objects.codes_with_library(texts):
        key = objects.key_of(text)
        whole = disk.packed(key, objects.entry_of(text, code))
        arrays[PREFIX + key] = np.frombuffer(whole, np.uint8)
        keys.append(key)
    facts |= {MACHINE: identity.machine_identity(), KERNELS: json.dumps(keys)}
    write(arrays, facts, path)


def load(path: Path) -> Any:
    """What `structir.save` or `Executable.save` wrote: a module, or an executable.

    Machine code that was made for another processor or by other versions is not used: the program
    is compiled again, and a warning says so.
    """
    module, others, facts = read(path)
    if KERNELS not in facts:
        return module
    if facts.get(MACHINE) != identity.machine_identity():
        _warn(f"{os.fspath(path)} was compiled for another processor or by other versions")
    elif not _offered(others, json.loads(facts[KERNELS])):
        _warn(f"machine code in {os.fspath(path)} is damaged")
    return executables.Executable(module)


def _offered(arrays: dict[str, Any], keys: list[str]) -> bool:
    """Have the sound ones among the kernels of a file used; whether all are sound."""
    entries = {k: _entry(k, arrays.get(PREFIX + k)) for k in keys}
    for key, entry in entries.items():
        if entry is not None:
            objects.offer(key, entry)
    return None not in entries.values()


def _entry(key: str, array: Any) -> Any:
    return None if array is None else disk.unpacked(key, array.tobytes())


def _warn(text: str) -> None:
    hint = "save it again from here, and it loads without compiling"
    warn(Diagnostic(f"{text}: compiling again", hint=hint))
