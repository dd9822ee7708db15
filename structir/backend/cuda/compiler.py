"""From the text of a kernel to PTX and machine code for an architecture: no card is needed."""

from __future__ import annotations

import hashlib
import importlib.metadata
import re
import threading
import time
from functools import cache
from pathlib import Path
from typing import Any

import attrs
from cuda.core import Linker, LinkerOptions, ObjectCode

from structir.backend import cache as disk
from structir.backend.cpu.identity import sources_digest
from structir.backend.cpu.operations import UntranslatedError
from structir.backend.cuda.device_text import DeviceText
from structir.backend.cuda.ptx import ptx_of_module
from structir.backend.cuda.translated import translated
from structir.backend.loops.writer import MissingCodeError
from structir.errors import StructIRError
from structir.interrupts import defer_interrupts
from structir.lazy import lazy_module

structir = lazy_module("structir")

WARP_PRODUCTS = (8, 0)  # the first capability that has those of `fragments`
ARCHITECTURE = re.compile(r"sm_(\d+)(\d)")
PARTS = ("llvmlite", "numba", "cuda-core", "nvidia-nvvm", "nvidia-nvjitlink")
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
    """The machine code for a text: made once, and kept in the cache on disk. A text that was read
    from a file is not compiled."""
    with _lock:
        key = key_of(text.known_as, architecture)
        found = _codes.get(key) or _from_disk(key, text.known_as, architecture)
        if found is None:
            if text.from_file:
                raise MissingCodeError
            found = _made(text, architecture)
            store = disk.store()
            if store is not None:
                store.write(key, entry_of(found))
        _codes[key] = found
        return found


def key_of(text: str, architecture: str) -> str:
    """The name that code for a text has in the cache."""
    return disk.digest(identity(), architecture, text)


def entry_of(code: CardCode) -> disk.CacheEntry:
    """Code as an entry of the cache."""
    facts = {"entry": code.entry, "ptx": code.ptx, "seconds": code.seconds}
    return disk.CacheEntry({"kind": "cubin", "text": code.text, **facts}, code.cubin)


def offer(key: str, entry: disk.CacheEntry, architecture: str) -> None:
    """Have an entry used when its key is asked for; raises ValueError where it is not one."""
    code = _code_of(entry, entry.facts.get("text"), architecture)
    if code is None:
        raise ValueError("no machine code")
    _codes[key] = code


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


def _code_of(entry: disk.CacheEntry, text: Any, architecture: str) -> CardCode | None:
    """The code in an entry; None where it is not what `entry_of` writes."""
    match entry.facts:
        case {"entry": str(name), "ptx": str(ptx), "seconds": int() | float() as seconds}:
            if isinstance(text, str) and entry.data:
                return CardCode(text, architecture, name, ptx, entry.data, seconds)
    return None


def _made(text: DeviceText, architecture: str) -> CardCode:
    start = time.perf_counter()
    entry, ptx = entry_name(text.known_as), ptx_of(text, architecture)
    linker = Linker(ObjectCode.from_ptx(ptx.encode()), options=LinkerOptions(arch=architecture))
    cubin = bytes(linker.link("cubin").code)
    return CardCode(text.known_as, architecture, entry, ptx, cubin, time.perf_counter() - start)


def entry_name(text: str) -> str:
    """The name of a kernel, which is as unique as its text."""
    return f"kernel_{disk.digest(text)[:16]}"


def ptx_of(text: DeviceText, architecture: str) -> str:
    """The text as PTX."""
    capability = capability_of(architecture)
    try:
        module = translated(text, entry_name(text.known_as), capability < WARP_PRODUCTS)
    except UntranslatedError as error:
        where = ", ".join(text.origins)
        raise StructIRError(f"{where}: no thread of a card can do this: {error}") from None
    with defer_interrupts():
        return ptx_of_module(module, capability)
