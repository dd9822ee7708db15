"""Object files in memory: made once, kept in the cache on disk, loaded without compiling again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any

import attrs
import llvmlite.binding as llvm

from structir.backend import cache as disk
from structir.backend.cpu.identity import machine_identity
from structir.backend.locks import new_rlock
from structir.interrupts import defer_interrupts

KERNEL_HEAD = "def kernel("  # in the texts of kernels; those of the library are names
SOURCE_HEAD = "# code "  # begins the source of a kernel of the program, before the hash of its code


@attrs.frozen(eq=False)
class MachineCode:
    """An object file: what it defines for others, what it needs, and how long making it took."""

    data: bytes
    symbols: tuple[str, ...]
    needs: tuple[str, ...]
    alone: bool  # whether it defines names that other objects may define as well
    seconds: float


@attrs.frozen(eq=False)
class Loaded:
    """Machine code in this process: the addresses of its symbols. The owner keeps it alive."""

    code: MachineCode
    addresses: tuple[int, ...]
    owner: Any
    from_disk: bool


def code_key(text: str) -> str:
    """Returns what identifies the machine code of a text: the hash in the first line of the source
    of a kernel of the program, whose names and shapes do not matter; else the text."""
    return text.partition("\n")[0] if text.startswith(SOURCE_HEAD) else text


def key_of(text: str) -> str:
    """The name that machine code for a text has in the cache, on this machine."""
    return disk.digest(machine_identity(), code_key(text))


def from_disk(text: str) -> Loaded | None:
    """The machine code for a text, if a file or the cache has it and all that it needs is here."""
    store = disk.store()
    key = key_of(text)
    code = _offered.get(key)
    if code is None:
        entry = None if store is None else store.read(key)
        code = None if entry is None else _code_of(entry)
    return None if code is None else loaded(code)


def to_disk(text: str, code: MachineCode) -> None:
    """Keep machine code for a text."""
    store = disk.store()
    if store is not None:
        store.write(key_of(text), entry_of(text, code))


def entry_of(text: str, code: MachineCode) -> disk.CacheEntry:
    """Machine code as an entry of the cache."""
    facts = attrs.asdict(code, filter=lambda field, _: field.name != "data")
    return disk.CacheEntry({"kind": "object", "text": text, **facts}, code.data)


def _code_of(entry: disk.CacheEntry) -> MachineCode | None:
    """The code in an entry; None where it is not what `entry_of` writes."""
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


def _are_names(said: list[Any]) -> bool:
    """Whether all of some values are names that an object file can have."""
    return all(isinstance(n, str) and n and n.isascii() and "\0" not in n for n in said)


def loaded(code: MachineCode) -> Loaded | None:
    """Machine code put into the process; None where a name that it needs is not known, or one that
    it should define is not defined."""
    for name in code.needs:
        require_symbol(name)
    with _lock, defer_interrupts():
        if any(llvm.address_of_symbol(name) is None for name in code.needs):
            return None  # LLVM would end the process
        file: Any = llvm.ObjectFileRef.from_data(code.data)
        if not file._ptr:
            return None  # the same: it is no object file
        shared = not code.alone and _in_shared.isdisjoint(code.symbols)
        engine = _shared_engine() if shared else _engine()
        if shared:
            _in_shared.update(code.symbols)
        engine.add_object_file(file)
        engine.finalize_object()
        _kept.append(engine)
        addresses = tuple([engine.get_function_address(name) for name in code.symbols])
        if 0 in addresses:
            return None  # the object does not define what it is loaded for
        return Loaded(code, addresses, engine, from_disk=True)


def require_symbol(name: str) -> None:
    """Builds a function of the library that has this symbol, unless it is known already."""
    if name in makers and llvm.address_of_symbol(name) is None:
        makers[name]()


def built(text: str, build: Callable[[], Loaded]) -> Loaded:
    """The machine code for a text: from the cache, else built and kept there."""
    return stored(text) or add(text, build())


def stored(text: str) -> Loaded | None:
    """The machine code for a text, if it need not be built."""
    code = from_disk(text)
    if code is not None:
        _codes[code_key(text)] = code.code
    return code


def add(text: str, code: Loaded) -> Loaded:
    """Keeps newly built machine code for a text."""
    to_disk(text, code.code)
    _codes[code_key(text)] = code.code
    return code


def offer(key: str, entry: disk.CacheEntry) -> None:
    """Have an entry used when its key is asked for, before the cache is; raises ValueError where it
    is not one of machine code."""
    code = _code_of(entry)
    if code is None:
        raise ValueError("no machine code")
    _offered[key] = code


def codes_with_library(kernels: Iterable[str]) -> list[tuple[str, MachineCode]]:
    """The machine code of these kernels, and of all that is not made for any one program."""
    wanted = set(map(code_key, kernels))
    return [(t, c) for t, c in _codes.items() if t in wanted or not _is_kernel(t)]


def _is_kernel(text: str) -> bool:
    return KERNEL_HEAD in text or text.startswith(SOURCE_HEAD)


makers: dict[str, Callable[[], object]] = {}  # builds the function of a symbol
_lock = new_rlock()
_codes: dict[str, MachineCode] = {}  # of this process, by `code_key`
_offered: dict[str, MachineCode] = {}  # of files that were loaded, by key
_in_shared: set[str] = set()
_kept: list[Any] = []


def _engine() -> Any:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(jit=True)
    return llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)


@cache
def _shared_engine() -> Any:
    """An engine takes a millisecond to make, an object in it a tenth of one."""
    return _engine()


def code_of_library(library: Any, symbols: Sequence[str], seconds: float) -> MachineCode:
    """The machine code that numba has made for a library of its own."""
    functions = list(library._final_module.functions)
    declared = [f.name for f in functions if f.is_declaration]
    needs = tuple([name for name in declared if not name.startswith("llvm.")])
    defined = {f.name for f in functions if not f.is_declaration}
    alone = defined != set(symbols)
    return MachineCode(bytes(library._get_compiled_object()), tuple(symbols), needs, alone, seconds)
