"""Saves executables to files: the source of the program, its constants, and machine code.

Such a file extends the file of a module; `structir.load` reads both.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import attrs

from structir.errors import Diagnostic, ParseError, warn
from structir.lazy import lazy_module, provided_module
from structir.printer.constants import reference_name
from structir.printer.files.archive import (
    PANELS,
    TEXT,
    contents,
    large_constants,
    listed,
    module_of,
    read,
    stored,
    write,
)

if TYPE_CHECKING:
    from structir.ir.module import IRModule
    from structir.printer.files.column_panels import ModuleArrays

np = lazy_module("numpy")
executables = lazy_module("structir.runtime.executable")
thread_pool = lazy_module("structir.targets.cpu.thread_pool")
identity = lazy_module("structir.targets.cpu.identity")
objects = lazy_module("structir.targets.cpu.objects")
packed_references = lazy_module("structir.runtime.files.packed_references")
runner = lazy_module("structir.targets.cpu.runner")
size_interpreter = lazy_module("structir.targets.cpu.size_interpreter")
sized_bytecode = lazy_module("structir.targets.cpu.sized_bytecode")
stored_functions = lazy_module("structir.runtime.files.serialise")
ragged_executables = lazy_module("structir.runtime.ragged_executable")
disk = lazy_module("structir.system.cache")
compiling = provided_module("compiler")

TARGET = "structir.target"  # the backend that loads the file, if it has its own format
MACHINE, KERNELS, PLANS = "structir.machine", "structir.kernels", "structir.plans"
EXACT, FAST = "structir.exact_division", "structir.fast_math"
RAGGED = "structir.ragged"  # the program with ragged tensors, of an executable of their parts
PREFIX, PLANS_OF = "machine code ", "plans "
Path = str | os.PathLike[str]
Executable = Any  # lazy: the modules of these classes import this one
StoredFunction = Any


def save(executable: Executable, path: Path) -> None:
    """Saves an executable, so that `structir.load` need not compile it again on this machine."""
    arrays, facts = contents(executable.module)
    texts = [kernel.text for plan in executable.plans() for kernel in plan.kernels]
    keys = []
    _compile_library(executable.num_threads)
    for text, code in objects.codes_with_library(texts):
        key = objects.key_of(text)
        arrays[PREFIX + key] = _bytes(disk.pack_entry(key, objects.entry_of(text, code)))
        keys.append(key)
    put_plans(executable, stored_functions.TableWriter, arrays, facts)
    facts |= {MACHINE: identity.machine_identity(), KERNELS: json.dumps(keys)}
    facts |= {EXACT: str(executable.exact_division), FAST: str(executable.fast_math)}
    write(arrays, facts, path)


def _compile_library(num_threads: int) -> None:
    """Compiles the library functions that calls of a loaded executable may need: for sizes without
    a plan, and for several threads."""
    runner.run_address()
    runner.sized_run_address()
    sized_bytecode.sized_address()
    size_interpreter.size_evaluator()
    size_interpreter.offset_assigner()
    if num_threads > 1:
        thread_pool.worker_address()
        thread_pool.pool_functions()


def put_plans(executable: Executable, make_writer: Any, arrays: Any, facts: dict[str, str]) -> None:
    """Adds the compiled functions of an executable to the contents of its file."""
    functions = [function.stored for function in executable.direct.values()]
    names = {id(data): reference_name(data) for data in large_constants(executable.module)}
    table, panels = _Arrays(arrays, names), packed_references.StoredPanels()

    def reference_to(array: Any) -> Any:
        return panels.add(packed_references.reference_to(array, table.name_of), array)

    writer = make_writer(reference_to)
    serialized = stored_functions.serialise(functions, writer)
    key = disk.digest(facts[TEXT])  # plans are valid for this exact source only
    entry = disk.CacheEntry({}, json.dumps(serialized).encode())
    arrays[PLANS_OF + key] = _bytes(disk.pack_entry(key, entry))
    facts[PLANS] = json.dumps(executable.function_names)
    if len(serialized["functions"]) == len(executable.function_names):
        records = panels.replace_constants(arrays)
        facts |= {PANELS: json.dumps(records)} if records else {}


def load(path: Path) -> Any:
    """Loads a file of `structir.save` or `Executable.save`: a module, or an executable.

    Machine code of another processor or of other versions is not used: the program is compiled
    again, with a warning. Raises ParseError if the program was modified after saving.
    """
    arrays, facts = read(path)
    executable = _load_contents(path, arrays, facts)
    if RAGGED not in facts:
        return executable
    original = module_of(path, arrays, {TEXT: facts[RAGGED]})
    return ragged_executables.with_ragged_tensors(original, executable)


def add_ragged_program(module: IRModule, path: Path) -> None:
    """Adds the program with ragged tensors to the file of the executable of their parts."""
    arrays, facts = read(path)
    own, text = contents(module)
    write({**arrays, **own}, {**facts, RAGGED: text[TEXT]}, path)


def _load_contents(path: Path, arrays: ModuleArrays, facts: dict[str, str]) -> Any:
    """Returns the module or the executable in the contents of a file."""
    if TARGET in facts:
        return _of_backend(facts[TARGET]).loaded(path, arrays, facts)
    if not {KERNELS, MACHINE} & facts.keys():
        return module_of(path, arrays, facts)
    name, module = os.fspath(path), partial(module_of, path, arrays, facts)
    if PLANS_OF + disk.digest(facts[TEXT]) not in arrays:
        hint = "save it again: `exe.save(path)`"
        message = f"{name}: checksum mismatch: the program was modified after saving"
        raise ParseError(Diagnostic(message, hint=hint, code="E1005"))
    options = {"exact_division": EXACT, "fast_math": FAST}
    on = {name: facts.get(fact) == str(True) for name, fact in options.items()}
    new_executable = partial(executables.Executable, **on)
    if facts.get(MACHINE) != identity.machine_identity():
        warn_of_compiling(f"{name} was compiled for another processor or by other versions")
        return new_executable(module())
    plans = plans_in(arrays, facts, stored_functions.TableReader)
    kernels = listed(facts, KERNELS) if KERNELS in facts else None
    if kernels is None or plans is None or not offer_kernels(arrays, kernels, objects.offer):
        warn_of_compiling(f"machine code in {name} is damaged")
        return new_executable(module())
    return new_executable(module, store=plans)


def _of_backend(target: str) -> Any:
    """Returns the module with which a backend loads its own files."""
    module_name = f"structir.targets.{target}.archive"
    if target not in compiling.targets() or importlib.util.find_spec(module_name) is None:
        available = ", ".join(compiling.targets())
        message = f"unknown backend {target!r} in the file; available: {available}"
        raise ParseError(Diagnostic(message))
    return importlib.import_module(module_name)


def plans_in(arrays: ModuleArrays, facts: dict[str, str], make_reader: Any) -> SavedPlans | None:
    """Returns the compiled functions of a file; None if they are damaged."""
    key = disk.digest(facts[TEXT])  # plans are valid for this exact source only
    if PLANS_OF + key not in arrays:
        return None
    entry = disk.parse_entry(key, arrays[PLANS_OF + key].tobytes())
    names = listed(facts, PLANS)
    if entry is None or names is None:
        return None
    try:
        array_of = partial(packed_references.resolve_in_file, arrays=arrays)
        functions = stored_functions.decode(entry.data, make_reader, array_of)
    except stored_functions.NotStoredError:
        return None
    function_names = {f.name for f in functions}
    is_valid = len(function_names) == len(functions) and function_names <= {*names}
    return SavedPlans(names, functions) if is_valid else None


class _Arrays:
    """The arrays of a file being written, and their names by identity."""

    def __init__(self, arrays: dict[str, Any], names: dict[int, str]) -> None:
        self.arrays, self.names = arrays, names
        self.references: list[Any] = []

    def name_of(self, array: Any) -> str:
        """Returns the name of an array, after adding it to the file if needed."""
        if id(array) not in self.names:
            name = reference_name(array)
            if name not in self.arrays:
                name = f"{array.dtype.name}_of_plans_{len(self.names)}"
                self.arrays[name] = stored(array)
            self.names[id(array)] = name
            self.references.append(array)
        return self.names[id(array)]


@attrs.frozen(eq=False)
class SavedPlans:
    """The compiled functions in a file."""

    names: Collection[str]
    stored: list[StoredFunction]

    def functions(self) -> list[StoredFunction]:
        """Returns all functions in the file."""
        return self.stored

    def keep(self, functions: Iterable[StoredFunction]) -> None:
        """Does nothing: a saved file is not modified."""


def _bytes(data: bytes) -> Any:
    return np.frombuffer(data, np.uint8)


def offer_kernels(
    arrays: Mapping[str, Any], keys: list[str] | None, offer: Callable[[str, Any], None]
) -> bool:
    """Passes the valid kernels of a file to the compiler; returns whether all are valid."""
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
    return None if array is None else disk.parse_entry(key, array.tobytes())


def warn_of_compiling(text: str) -> None:
    """Warns that a program is compiled again, and why."""
    hint = "save it again on this machine: `exe.save(path)`"
    warn(Diagnostic(f"{text}: compiling again", hint=hint))
