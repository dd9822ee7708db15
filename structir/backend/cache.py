"""The cache on disk: checked blocks of bytes under the digests of what they were made from.

The environment variable STRUCTIR_CACHE says where it is; `off` keeps everything in memory. A
file that is damaged, cut off or was written for something else counts as absent. Writers never
meet: each writes a file of its own, which then takes its place in one step.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs

LOCATION = "STRUCTIR_CACHE"
MOST_BYTES = "STRUCTIR_CACHE_BYTES"
DEFAULT_MOST_BYTES = 512 * 1024**2
MAGIC = b"structir-cache-1\n"
CHECKSUM = hashlib.sha256().digest_size
SUFFIX = ".entry"
WRITES_BETWEEN_SWEEPS = 64
KEPT_SHARE = 0.8  # of the bytes allowed, after a sweep


@attrs.frozen
class Entry:
    """What the cache holds for a key: facts in words and numbers, and a block of bytes."""

    facts: Mapping[str, Any]
    data: bytes


@attrs.frozen
class Stored:
    """A file of the cache, as a listing shows it."""

    path: Path
    size: int
    used: float  # seconds since the epoch


def directory() -> Path | None:
    """Where the cache lies; None where it is turned off."""
    said = os.environ.get(LOCATION)
    if said == "off":
        return None
    return Path(said) if said else _user_directory() / "structir"


def _user_directory() -> Path:
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def digest(*parts: str) -> str:
    """The name under which things made from these texts are kept."""
    found = hashlib.sha256()
    for part in parts:
        data = part.encode()
        found.update(len(data).to_bytes(8, "little") + data)
    return found.hexdigest()


def packed(key: str, entry: Entry) -> bytes:
    """An entry as it is written: it says for which key it is, and proves that it is whole."""
    head = json.dumps({"key": key, **entry.facts}).encode()
    body = len(head).to_bytes(8, "little") + head + entry.data
    return MAGIC + hashlib.sha256(body).digest() + body


def unpacked(key: str, data: bytes) -> Entry | None:
    """The entry for a key; None unless the bytes are whole and were written for it."""
    start = len(MAGIC) + CHECKSUM
    body = data[start:]
    if data[: len(MAGIC)] != MAGIC or hashlib.sha256(body).digest() != data[len(MAGIC) : start]:
        return None
    length = int.from_bytes(body[:8], "little")
    facts = json.loads(body[8 : 8 + length])
    return Entry(facts, body[8 + length :]) if facts.pop("key", None) == key else None


class Store:
    """The cache in one directory."""

    def __init__(self, root: Path, most_bytes: int) -> None:
        self.root, self.most_bytes = root, most_bytes
        self._writes = 0

    def path(self, key: str) -> Path:
        """Where the entry of a key lies."""
        return self.root / key[:2] / f"{key}{SUFFIX}"

    def read(self, key: str) -> Entry | None:
        """The entry of a key, if there is a sound one; a broken one is removed."""
        path = self.path(key)
        try:
            entry = unpacked(key, path.read_bytes())
        except OSError:
            return None
        with contextlib.suppress(OSError):
            if entry is None:
                path.unlink()
            else:
                os.utime(path)  # the time of last use, by which the oldest go first
        return entry

    def write(self, key: str, entry: Entry) -> None:
        """Keep an entry; a disk that is full or read-only loses it, and nothing else."""
        path = self.path(key)
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".part")
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(packed(key, entry))
                Path(temporary).replace(path)
            except OSError:
                Path(temporary).unlink(missing_ok=True)
        if self._writes % WRITES_BETWEEN_SWEEPS == 0:
            self.sweep()
        self._writes += 1

    def files(self) -> Iterator[Stored]:
        """Every entry; those that go away meanwhile are left out."""
        for path in self.root.glob(f"??/*{SUFFIX}"):
            with contextlib.suppress(OSError):
                stat = path.stat()
                yield Stored(path, stat.st_size, stat.st_mtime)

    def sweep(self) -> int:
        """Remove what has not been used for longest until the rest fits; how many files went."""
        found = sorted(self.files(), key=lambda s: s.used)
        size = sum(s.size for s in found)
        if size <= self.most_bytes:
            return 0
        removed = 0
        for stored in found:
            if size <= KEPT_SHARE * self.most_bytes:
                break
            removed += self._removed(stored.path)
            size -= stored.size
        return removed

    def clear(self) -> int:
        """Remove every entry; how many there were."""
        for left in self.root.glob("??/*.part"):
            self._removed(left)
        return sum(self._removed(s.path) for s in list(self.files()))

    @staticmethod
    def _removed(path: Path) -> bool:
        with contextlib.suppress(OSError):
            path.unlink()
            return True
        return False


_stores: dict[tuple[Path, int], Store] = {}


def store() -> Store | None:
    """The cache that the environment names now."""
    root = directory()
    if root is None:
        return None
    said = os.environ.get(MOST_BYTES, "")
    key = (root, int(said) if said.isdecimal() else DEFAULT_MOST_BYTES)
    return _stores.setdefault(key, Store(*key))
