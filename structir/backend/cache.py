"""The cache on disk: checked blocks of bytes under the digests of what they were made from.

The environment variable STRUCTIR_CACHE says where it is; `off` keeps everything in memory. A
file that is damaged, cut off or was written for something else counts as absent, and so does one
that another user can write: the first of these is reported. Writers never meet: each writes a file
of its own, which then takes its place in one step. An OSError never stops a compilation.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs

from structir.backend.private_files import NotPrivateError, check_folder, make_folder, read_file
from structir.errors import Diagnostic, warn

LOCATION = "STRUCTIR_CACHE"
MOST_BYTES = "STRUCTIR_CACHE_BYTES"
DEFAULT_MOST_BYTES = 512 * 1024**2
MOST_DIGITS = 18  # of a number of bytes
MOST_ENTRY_BYTES = 64 * 1024**2
MAGIC = b"structir-cache-1\n"
CHECKSUM = hashlib.sha256().digest_size
SUFFIX = ".entry"
WRITES_BETWEEN_SWEEPS = 64
KEPT_SHARE = 0.8  # of the bytes allowed, after a sweep


@attrs.frozen
class CacheEntry:
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
    return (Path(said) if said else _user_directory() / "structir").absolute()


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


def packed(key: str, entry: CacheEntry) -> bytes:
    """An entry as it is written: it says for which key it is, and proves that it is whole."""
    head = json.dumps({"key": key, **entry.facts}).encode()
    body = len(head).to_bytes(8, "little") + head + entry.data
    return MAGIC + hashlib.sha256(body).digest() + body


def unpacked(key: str, data: bytes) -> CacheEntry | None:
    """The entry for a key; None unless the bytes are whole and were written for it."""
    start = len(MAGIC) + CHECKSUM
    body = data[start:]
    if data[: len(MAGIC)] != MAGIC or hashlib.sha256(body).digest() != data[len(MAGIC) : start]:
        return None
    length = int.from_bytes(body[:8], "little")
    try:
        facts = json.loads(body[8 : 8 + length])
    except (ValueError, RecursionError):
        return None
    if not isinstance(facts, dict) or facts.pop("key", None) != key:
        return None
    return CacheEntry(facts, body[8 + length :])


class CacheStore:
    """The cache in one directory."""

    def __init__(self, root: Path, most_bytes: int) -> None:
        self.root, self.most_bytes = root, most_bytes
        self._writes = 0
        self._private: bool | None = None  # unknown until the directory exists

    def path(self, key: str) -> Path:
        """Where the entry of a key lies."""
        return self.root / key[:2] / f"{key}{SUFFIX}"

    def is_private(self) -> bool:
        """Whether no other user can write the directory, or whether it does not exist yet."""
        if self._private is None:
            try:
                self._private = check_folder(self.root) or None
            except NotPrivateError as error:
                self._private = False
                _warn_once(error)
            except OSError:
                self._private = False
        return self._private is not False

    def read(self, key: str) -> CacheEntry | None:
        """The entry of a key, if there is a sound one; a broken one is removed."""
        path = self.path(key)
        if not self.is_private():
            return None
        try:
            entry = unpacked(key, read_file(path, MOST_ENTRY_BYTES))
        except NotPrivateError as error:
            _warn_once(error)
            return None
        except OSError:
            return None
        with contextlib.suppress(OSError):
            if entry is None:
                path.unlink()
            else:
                os.utime(path)  # the time of last use, by which the oldest go first
        return entry

    def write(self, key: str, entry: CacheEntry) -> None:
        """Keep an entry; a disk that is full or read-only loses it, and nothing else."""
        data = packed(key, entry)
        if not self.is_private() or len(data) > MOST_ENTRY_BYTES:
            return
        with contextlib.suppress(OSError):
            self._write(self.path(key), data)
        if self._writes % WRITES_BETWEEN_SWEEPS == 0:
            self.sweep()
        self._writes += 1

    def _write(self, path: Path, data: bytes) -> None:
        make_folder(path.parent)
        handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".part")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            Path(temporary).replace(path)
        except OSError:
            Path(temporary).unlink(missing_ok=True)

    def files(self) -> Iterator[Stored]:
        """Every entry; those that go away meanwhile are left out."""
        for path in self._paths(SUFFIX):
            with contextlib.suppress(OSError):
                status = path.lstat()
                if stat.S_ISREG(status.st_mode):
                    yield Stored(path, status.st_size, status.st_mtime)

    def _paths(self, suffix: str) -> list[Path]:
        """The files of one kind, none of them behind a link."""
        with contextlib.suppress(OSError):
            found = list(self.root.glob(f"??/*{suffix}"))
            return [path for path in found if not path.parent.is_symlink()]
        return []

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
        for path in self._paths(".part"):
            self._removed(path)
        return sum(self._removed(s.path) for s in list(self.files()))

    @staticmethod
    def _removed(path: Path) -> bool:
        with contextlib.suppress(OSError):
            path.unlink()
            return True
        return False


_stores: dict[tuple[Path, int], CacheStore] = {}


def store() -> CacheStore | None:
    """The cache that the environment names now."""
    try:
        root = directory()
    except (OSError, RuntimeError):  # the user has no home directory, or there is no current one
        return None
    if root is None:
        return None
    key = (root, _most_bytes())
    return _stores.setdefault(key, CacheStore(*key))


def _most_bytes() -> int:
    said = os.environ.get(MOST_BYTES, "")
    return int(said) if said.isdecimal() and len(said) <= MOST_DIGITS else DEFAULT_MOST_BYTES


_warned: set[str] = set()  # of the cache, at most once in a process


def _warn_once(error: NotPrivateError) -> None:
    if not _warned:
        _warned.add(LOCATION)
        hint = f"`chmod go-w` it, or set {LOCATION} to a directory that only you can write"
        warn(Diagnostic(f"{error}: the cache does not use it", hint=hint))
