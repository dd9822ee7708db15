"""Machine code as object files: built once, stored in the disk cache, and loaded by MCJIT."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

import attrs
import llvmlite.binding as llvm

from structir.errors import StructIRError
from structir.interrupts import defer_interrupts
from structir.system import cache as disk
from structir.system.locks import new_rlock
from structir.targets.cpu.identity import machine_identity

SOURCE_HEAD = "# code "  # of kernels, before the hash of the code; library functions have names


@attrs.frozen(eq=False)
class MachineCode:
    """An object file: its exported symbols, its undefined symbols, and its compile time in
    seconds."""

    data: bytes
    symbols: tuple[str, ...]
    needs: tuple[str, ...]
    alone: bool  # needs its own engine, because it may define symbols of other objects, too
    seconds: float


@attrs.frozen(eq=False)
class Loaded:
    """Loaded machine code: the addresses of its symbols. `owner` keeps it alive."""

    code: MachineCode
    addresses: tuple[int, ...]
    owner: Any
    from_disk: bool


def code_key(text: str) -> str:
    """Returns the key of a source's machine code.

    It is the first line, with a hash of the code, for kernels: their names and shapes do not
    matter. For library functions it is the name.
    """
    return text.partition("\n")[0] if text.startswith(SOURCE_HEAD) else text


def key_of(text: str) -> str:
    """Returns the disk cache key of a source on this machine."""
    return disk.digest(machine_identity(), code_key(text))


def from_disk(text: str) -> Loaded | None:
    """Loads the machine code of a source from a saved executable or the disk cache; None if it is
    missing or needs an undefined symbol."""
    store = disk.store()
    key = key_of(text)
    code = _offered.get(key)
    if code is None:
        entry = None if store is None else store.read(key)
        code = None if entry is None else _code_of(entry)
    return None if code is None else load_code(code)


def to_disk(text: str, code: MachineCode) -> None:
    """Stores machine code in the disk cache."""
    store = disk.store()
    if store is not None:
        store.write(key_of(text), entry_of(text, code))


def entry_of(text: str, code: MachineCode) -> disk.CacheEntry:
    """Returns machine code as a cache entry."""
    facts = attrs.asdict(code, filter=lambda field, _: field.name != "data")
    return disk.CacheEntry({"kind": "object", "text": text, **facts}, code.data)


def _code_of(entry: disk.CacheEntry) -> MachineCode | None:
    """Returns the machine code in a cache entry; None if the entry is malformed."""
    match entry.facts:
        case {
            "kind": "object",
            "symbols": [str(), *_] as symbols,
            "needs": [*needs],
            "alone": bool(alone),
            "seconds": int() | float() as seconds,
        }:
            if _are_names([*symbols, *needs]):
                return MachineCode(entry.data, tuple(symbols), tuple(needs), alone, seconds)
    return None


def _are_names(values: list[Any]) -> bool:
    """Whether all values are valid symbol names."""
    return all(isinstance(n, str) and n and n.isascii() and "\0" not in n for n in values)


def load_code(code: MachineCode) -> Loaded | None:
    """Loads machine code into the process; None if a symbol that it needs or exports is
    undefined."""
    for name in code.needs:
        require_symbol(name)
    with _lock, defer_interrupts():
        _shared_engine()  # LLVM finds the symbols of the process, such as `sin`, from now on
        if any(llvm.address_of_symbol(name) is None for name in code.needs):
            return None  # LLVM would abort the process
        file: Any = llvm.ObjectFileRef.from_data(code.data)
        if not file._ptr:
            return None  # not an object file: LLVM would abort the process
        shared = not code.alone and _shared_symbols.isdisjoint(code.symbols)
        engine = _shared_engine() if shared else _engine()
        if shared:
            _shared_symbols.update(code.symbols)
        engine.add_object_file(file)
        engine.finalize_object()
        _engines.append(engine)
        addresses = tuple([engine.get_function_address(name) for name in code.symbols])
        if 0 in addresses:
            return None  # an exported symbol is missing
        return Loaded(code, addresses, engine, from_disk=True)


def load_new_code(code: MachineCode) -> Loaded:
    """Loads machine code that was just generated."""
    kernel_code = load_code(code)
    if kernel_code is None:
        raise StructIRError(f"machine code needs undefined symbols: {', '.join(code.needs)}")
    return Loaded(code, kernel_code.addresses, kernel_code.owner, from_disk=False)


def require_symbol(name: str) -> None:
    """Builds the library function with this symbol, unless the symbol is defined."""
    if name in symbol_builders and llvm.address_of_symbol(name) is None:
        symbol_builders[name]()


def load_or_build(text: str, build: Callable[[], Loaded]) -> Loaded:
    """Returns the machine code of a source, from the cache or newly built and stored there."""
    return load_cached(text) or register_code(text, build())


def load_cached(text: str) -> Loaded | None:
    """Returns the machine code of a source if it is cached."""
    code = from_disk(text)
    if code is not None:
        _codes[code_key(text)] = code.code
    return code


def register_code(text: str, code: Loaded) -> Loaded:
    """Registers newly built machine code in the process and the disk cache."""
    to_disk(text, code.code)
    _codes[code_key(text)] = code.code
    return code


def offer(key: str, entry: disk.CacheEntry) -> None:
    """Registers the entry of a saved executable, which takes precedence over the disk cache.

    Raises ValueError if the entry is malformed.
    """
    code = _code_of(entry)
    if code is None:
        raise ValueError("no machine code")
    _offered[key] = code


def codes_with_library(kernels: Iterable[str]) -> list[tuple[str, MachineCode]]:
    """Returns the machine code of these kernels and of all library functions, with their keys."""
    wanted = set(map(code_key, kernels))
    return [(t, c) for t, c in _codes.items() if t in wanted or not t.startswith(SOURCE_HEAD)]


symbol_builders: dict[str, Callable[[], object]] = {}  # functions that define a symbol, by symbol
_lock = new_rlock()
_codes: dict[str, MachineCode] = {}  # of this process, by `code_key`
_offered: dict[str, MachineCode] = {}  # of loaded executables, by disk cache key
_shared_symbols: set[str] = set()
_engines: list[Any] = []


def _engine() -> Any:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(jit=True)
    return llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)


@cache
def _shared_engine() -> Any:
    """Returns the engine that objects share: creating one takes 1 ms, adding an object 0.1 ms."""
    return _engine()
