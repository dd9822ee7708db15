"""From the text of a kernel to PTX and machine code for an architecture: no card is needed."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import re
import threading
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import attrs
from cuda.core import Linker, LinkerOptions, ObjectCode
from numba import cuda
from numba.cuda import dispatcher, types
from numba.cuda.core import config

from structir.backend import cache as disk
from structir.backend.cpu.identity import sources_digest
from structir.backend.cuda.device_text import DeviceText
from structir.backend.cuda.instructions import names_on_card, on_card, routine_on_card
from structir.backend.cuda.numbers import totals_of_blocks
from structir.backend.loops.scalar_text import STORED_AS
from structir.errors import StructIRError
from structir.lazy import lazy_module

structir = lazy_module("structir")

ARCHITECTURE = re.compile(r"sm_(\d+)(\d)")
ENTRY = re.compile(r"\.visible \.entry (\w+)\(")
PARTS = ("numba-cuda", "cuda-core", "nvidia-nvvm", "nvidia-nvjitlink")
_lock = threading.RLock()


@attrs.frozen(eq=False)
class CardCode:
    """A kernel for an architecture: PTX, machine code, the name in both, what making it took."""

    text: str
    architecture: str
    entry: str
    ptx: str
    cubin: bytes
    seconds: float


def capability_of(architecture: str) -> tuple[int, int]:
    """The compute capability of an architecture such as sm_90."""
    found = ARCHITECTURE.fullmatch(architecture)
    if found is None:
        raise StructIRError(f"no architecture {architecture!r}: they are called sm_80, sm_90, ...")
    return int(found[1]), int(found[2])


def card_code(text: DeviceText, architecture: str) -> CardCode:
    """The machine code for a text: made once, and kept in the cache on disk."""
    with _lock:
        key = key_of(text.text, architecture)
        found = _codes.get(key) or _from_disk(key, text.text, architecture)
        if found is None:
            found = _made(text, architecture)
            store = disk.store()
            if store is not None:
                store.write(key, entry_of(found))
        _codes[key] = found
        return found


def key_of(text: str, architecture: str) -> str:
    """The name that code for a text has in the cache."""
    return disk.digest(identity(), architecture, text)


def entry_of(code: CardCode) -> disk.Entry:
    """Code as an entry of the cache."""
    facts = {"entry": code.entry, "ptx": code.ptx, "seconds": code.seconds}
    return disk.Entry({"kind": "cubin", "text": code.text, **facts}, code.cubin)


def offer(key: str, entry: disk.Entry, architecture: str) -> None:
    """Have an entry used when its key is asked for."""
    _codes[key] = _code_of(entry, entry.facts["text"], architecture)


@cache
def identity() -> str:
    """All that must be the same for code to be used again, besides its text and architecture."""
    found = hashlib.sha256(sources_digest().encode())
    for path in sorted(Path(__file__).parent.glob("*.py")):
        found.update(path.read_bytes())
    versions = [importlib.metadata.version(part) for part in PARTS]
    return "\n".join(["cuda", structir.__version__, *versions, found.hexdigest()])


_codes: dict[str, CardCode] = {}


def _from_disk(key: str, text: str, architecture: str) -> CardCode | None:
    store = disk.store()
    entry = None if store is None else store.read(key)
    if entry is None or entry.facts.get("kind") != "cubin":
        return None
    return _code_of(entry, text, architecture)


def _code_of(entry: disk.Entry, text: str, architecture: str) -> CardCode:
    facts = entry.facts
    return CardCode(text, architecture, facts["entry"], facts["ptx"], entry.data, facts["seconds"])


def _made(text: DeviceText, architecture: str) -> CardCode:
    start = time.perf_counter()
    ptx = ptx_of(text, architecture)
    entry = ENTRY.search(ptx)
    if entry is None:
        raise StructIRError(f"{', '.join(text.origins)}: the PTX of its kernel has no entry")
    linker = Linker(ObjectCode.from_ptx(ptx.encode()), options=LinkerOptions(arch=architecture))
    cubin = bytes(linker.link("cubin").code)
    return CardCode(text.text, architecture, entry[1], ptx, cubin, time.perf_counter() - start)


def ptx_of(text: DeviceText, architecture: str) -> str:
    """The text as PTX."""
    capability = capability_of(architecture)
    names: dict[str, Any] = dict(names_on_card())
    for name, code in totals_of_blocks(warps=True).items():
        if name in text.text:
            exec(code, names)
            names[name] = on_card(names[name])
    if text.function is not None:
        names["routine"] = routine_on_card(text.function)
    exec(compile(text.text, "<kernel>", "exec"), names)
    kernel = names["kernel"]
    kernel.__qualname__ = f"kernel_{disk.digest(text.text)[:16]}"
    with _compiling_for(capability):
        ptx, _ = cuda.compile_ptx(kernel, _signature(text), cc=capability)
    return str(ptx)


def _signature(text: DeviceText) -> Any:
    pointers = [_pointer(buffer.dtype) for buffer in text.pointers]
    report = [_pointer("int64")] if text.sites else []
    return types.void(*pointers, *report, *[types.int64] * len(text.sizes))


def _pointer(dtype: str) -> Any:
    return types.CPointer(getattr(types, STORED_AS.get(dtype, dtype)))


@attrs.frozen
class _Asked:
    """Stands for the current device: numba asks it what functions that kernels call are compiled
    for."""

    compute_capability: tuple[int, int]


@contextlib.contextmanager
def _compiling_for(capability: tuple[int, int]) -> Iterator[None]:
    """Have numba compile for an architecture, with or without a card of it."""
    current, forced = dispatcher.get_current_device, config.FORCE_CUDA_CC
    dispatcher.get_current_device = lambda: _Asked(capability)
    config.FORCE_CUDA_CC = capability
    try:
        yield
    finally:
        dispatcher.get_current_device, config.FORCE_CUDA_CC = current, forced
