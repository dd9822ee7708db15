"""Compiles the source of a kernel to PTX and to machine code for an architecture; needs no GPU."""

from __future__ import annotations

import hashlib
import importlib.metadata
import re
import time
from functools import cache
from pathlib import Path
from typing import Any

import attrs
from cuda.core import Linker, LinkerOptions, ObjectCode

from structir.errors import StructIRError
from structir.interrupts import defer_interrupts
from structir.lazy import lazy_module
from structir.loops.program.kernel_text import MissingCodeError
from structir.system import cache as disk
from structir.system.locks import new_rlock
from structir.targets.cpu.identity import sources_digest
from structir.targets.cpu.operations import UntranslatedError
from structir.targets.cuda.device_text import DeviceText
from structir.targets.cuda.ptx import ptx_of_module
from structir.targets.cuda.translated import translated

structir = lazy_module("structir")

WARP_PRODUCTS = (8, 0)  # the first compute capability with the instructions of `fragments`
ARCHITECTURE = re.compile(r"sm_(\d+)(\d)")
PARTS = ("llvmlite", "numba", "cuda-core", "nvidia-nvvm", "nvidia-nvjitlink")
_lock = new_rlock()


@attrs.frozen(eq=False)
class GpuCode:
    """A kernel compiled for an architecture: PTX, machine code, its name in both, the compile
    time."""

    text: str
    architecture: str
    entry: str
    ptx: str
    cubin: bytes
    seconds: float


def capability_of(architecture: str) -> tuple[int, int]:
    """Returns the compute capability of an architecture such as sm_90."""
    match = ARCHITECTURE.fullmatch(architecture)
    if match is None:
        raise StructIRError(f"no architecture {architecture!r}: they are called sm_80, sm_90, ...")
    return int(match[1]), int(match[2])


def card_code(text: DeviceText, architecture: str) -> GpuCode:
    """Returns the machine code of a source, cached on disk. Source that was read from a file is not
    compiled."""
    with _lock:
        key = key_of(text.known_as, architecture)
        code = _codes.get(key) or _from_disk(key, text.known_as, architecture)
        if code is None:
            if text.from_file:
                raise MissingCodeError
            code = _made(text, architecture)
            store = disk.store()
            if store is not None:
                store.write(key, entry_of(code))
        _codes[key] = code
        return code


def key_of(text: str, architecture: str) -> str:
    """Returns the key of a source in the cache."""
    return disk.digest(identity(), architecture, text)


def entry_of(code: GpuCode) -> disk.CacheEntry:
    """Returns code as an entry of the cache."""
    facts = {"entry": code.entry, "ptx": code.ptx, "seconds": code.seconds}
    return disk.CacheEntry({"kind": "cubin", "text": code.text, **facts}, code.cubin)


def offer(key: str, entry: disk.CacheEntry, architecture: str) -> None:
    """Adds an entry to the cache under its key; raises ValueError if it is malformed."""
    code = _code_of(entry, entry.facts.get("text"), architecture)
    if code is None:
        raise ValueError("no machine code")
    _codes[key] = code


@cache
def identity() -> str:
    """Returns everything besides source and architecture that determines whether cached code is
    valid."""
    digest = hashlib.sha256(sources_digest().encode())
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    versions = [_version(part) for part in PARTS]
    return "\n".join(["cuda", structir.__version__, *versions, digest.hexdigest()])


def _version(part: str) -> str:
    """Returns the version of an installed distribution. A CUDA toolkit of the machine may take the
    place of NVIDIA's distributions."""
    try:
        return importlib.metadata.version(part)
    except importlib.metadata.PackageNotFoundError:
        return "none"


_codes: dict[str, GpuCode] = {}


def _from_disk(key: str, text: str, architecture: str) -> GpuCode | None:
    store = disk.store()
    entry = None if store is None else store.read(key)
    if entry is None or entry.facts.get("kind") != "cubin":
        return None
    return _code_of(entry, text, architecture)


def _code_of(entry: disk.CacheEntry, text: Any, architecture: str) -> GpuCode | None:
    """Returns the code in an entry, or None if the entry is malformed."""
    match entry.facts:
        case {"entry": str(name), "ptx": str(ptx), "seconds": int() | float() as seconds}:
            if isinstance(text, str) and entry.data:
                return GpuCode(text, architecture, name, ptx, entry.data, seconds)
    return None


def _made(text: DeviceText, architecture: str) -> GpuCode:
    start = time.perf_counter()
    entry, ptx = entry_name(text.known_as), ptx_of(text, architecture)
    linker = Linker(ObjectCode.from_ptx(ptx.encode()), options=LinkerOptions(arch=architecture))
    cubin = bytes(linker.link("cubin").code)
    return GpuCode(text.known_as, architecture, entry, ptx, cubin, time.perf_counter() - start)


def entry_name(text: str) -> str:
    """Returns the name of a kernel, unique for its source."""
    return f"kernel_{disk.digest(text)[:16]}"


def ptx_of(text: DeviceText, architecture: str) -> str:
    """Compiles a source to PTX."""
    capability = capability_of(architecture)
    try:
        module = translated(text, entry_name(text.known_as), capability < WARP_PRODUCTS)
    except UntranslatedError as error:
        where = ", ".join(text.origins)
        raise StructIRError(f"{where}: a GPU thread cannot run this: {error}") from None
    with defer_interrupts():
        return ptx_of_module(module, capability)
