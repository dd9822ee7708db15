"""Executables in files: the program's text, its constants, and machine code for where it was made.

Such a file is a module's file with more in it; `structir.load` reads both kinds.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
from collections.abc import Callable, Collection, Iterable
from functools import partial
from typing import Any

import attrs

from structir.errors import Diagnostic, ParseError, warn
from structir.lazy import lazy_module
from structir.printer.files.archive import TEXT, contents, listed, module_of, read, stored, write

np = lazy_module("numpy")
executables = lazy_module("structir.backend.executable")
identity = lazy_module("structir.backend.cpu.identity")
objects = lazy_module("structir.backend.cpu.objects")
runner = lazy_module("structir.backend.cpu.runner")
stored_functions = lazy_module("structir.backend.stored")
disk = lazy_module("structir.backend.cache")
compiling = lazy_module("structir.backend.compile")

TARGET = "structir.target"  # of a backend that reads its files itself
MACHINE, KERNELS, PLANS = "structir.machine", "structir.kernels", "structir.plans"
EXACT = "structir.exact_division"
PREFIX, PLANS_OF = "machine code ", "plans "
Path = str | os.PathLike[str]
Executable = Any  # the classes are in files that need this one
StoredFunction = Any


def save(executable: Executable, path: Path) -> None:
    """Write an executable, so that `structir.load` need not compile it again on this machine."""
    arrays, facts = contents(executable.module)
    texts = [k.text for plan in executable.plans() for k in plan.kernels]
    keys = []
    runner.run_address()  # what calls need that find no plan yet: it is made at the first of them
    for text, code in objects.codes_with_library(texts):
        key = objects.key_of(text)
        arrays[PREFIX + key] = _bytes(disk.packed(key, objects.entry_of(text, code)))
        keys.append(key)
    put_plans(executable, stored_functions.Writing, arrays, facts)
    facts |= {MACHINE: identity.machine_identity(), KERNELS: json.dumps(keys)}
    facts[EXACT] = str(executable.exact_division)
    write(arrays, facts, path)


def put_plans(executable: Executable, writing: Any, arrays: Any, facts: dict[str, str]) -> None:
    """The compiled functions of an executable, among what its file holds."""
    functions = [function.stored for function in executable.direct.values()]
    said = stored_functions.written(functions, writing(_Arrays(arrays).name_of))
    key = disk.digest(facts[TEXT])  # plans are those of this very text
    arrays[PLANS_OF + key] = _bytes(disk.packed(key, disk.CacheEntry({}, json.dumps(said).encode())))
    facts[PLANS] = json.dumps(executable.function_names)


def load(path: Path) -> Any:
    """What `structir.save` or `Executable.save` wrote: a module, or an executable.

    Machine code that was made for another processor or by other versions is not used: the program
    is compiled again, and a warning says so.
    """
    arrays, facts = read(path)
    if TARGET in facts:
        return _of_backend(facts[TARGET]).loaded(path, arrays, facts)
    if not {KERNELS, MACHINE} & facts.keys():
        return module_of(path, arrays, facts)
    name, module = os.fspath(path), partial(module_of, path, arrays, facts)
    if PLANS_OF + disk.digest(facts[TEXT]) not in arrays:
        hint = "it was changed after it had been saved: save it again"
        raise ParseError(Diagnostic(f"the program in {name} is not what was saved", hint=hint))
    made = partial(executables.Executable, exact_division=facts.get(EXACT) == str(True))
    if facts.get(MACHINE) != identity.machine_identity():
        warn_of_compiling(f"{name} was compiled for another processor or by other versions")
        return made(module())
    plans = plans_in(arrays, facts, stored_functions.TableReader)
    kernels = listed(facts, KERNELS) if KERNELS in facts else None
    if kernels is None or plans is None or not offered(arrays, kernels, objects.offer):
        warn_of_compiling(f"machine code in {name} is damaged")
        return made(module())
    return made(module, shelf=plans)


def _of_backend(target: str) -> Any:
    """How a backend of its own kind reads what it has saved."""
    reader = f"structir.backend.{target}.archive"
    if target not in compiling.targets() or importlib.util.find_spec(reader) is None:
        message = f"it was compiled for {target!r}, and there is no such backend"
        raise ParseError(Diagnostic(message))
    return importlib.import_module(reader)


def plans_in(arrays: dict[str, Any], facts: dict[str, str], reading: Any) -> SavedPlans | None:
    """The compiled functions of a file; None where they are damaged."""
    key = disk.digest(facts[TEXT])  # plans are those of this very text
    if PLANS_OF + key not in arrays:
        return None
    entry = disk.unpacked(key, arrays[PLANS_OF + key].tobytes())
    names = listed(facts, PLANS)
    if entry is None or names is None:
        return None
    try:
        functions = stored_functions.decoded(entry.data, reading, arrays.__getitem__)
    except stored_functions.NotStoredError:
        return None
    found = {f.name for f in functions}
    known = len(found) == len(functions) and found <= {*names}
    return SavedPlans(names, functions) if known else None


class _Arrays:
    """The arrays of a file in the making, where those of plans have names as well."""

    def __init__(self, arrays: dict[str, Any]) -> None:
        self.arrays = arrays
        self.names = {id(array): name for name, array in arrays.items()}
        self.held: list[Any] = []

    def name_of(self, array: Any) -> str:
        """The name of an array, which is put into the file if it is not there."""
        if id(array) not in self.names:
            name = self.names[id(array)] = f"{array.dtype.name}_of_plans_{len(self.names)}"
            self.arrays[name] = stored(array)
            self.held.append(array)
        return self.names[id(array)]


@attrs.frozen(eq=False)
class SavedPlans:
    """The compiled functions in a file."""

    names: Collection[str]
    found: list[StoredFunction]

    def functions(self) -> list[StoredFunction]:
        """All that the file holds."""
        return self.found

    def keep(self, functions: Iterable[StoredFunction]) -> None:
        """A file stays as it was saved."""


def _bytes(data: bytes) -> Any:
    return np.frombuffer(data, np.uint8)


def offered(
    arrays: dict[str, Any], keys: list[str] | None, offer: Callable[[str, Any], None]
) -> bool:
    """Have the sound ones among the kernels of a file used; whether all are sound."""
    entries = {k: _entry(k, arrays.get(PREFIX + k)) for k in keys or ()}
    sound = keys is not None and None not in entries.values()
    for key, entry in entries.items():
        if entry is not None:
            try:
                offer(key, entry)
            except ValueError:
                sound = False
    return sound


def _entry(key: str, array: Any) -> Any:
    return None if array is None else disk.unpacked(key, array.tobytes())


def warn_of_compiling(text: str) -> None:
    """Say why a program is compiled again."""
    hint = "save it again from here, and it loads without compiling"
    warn(Diagnostic(f"{text}: compiling again", hint=hint))
