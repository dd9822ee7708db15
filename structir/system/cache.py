"""The disk cache: blocks of bytes with checksums, by the hash of the inputs they depend on.

STRUCTIR_CACHE is its directory; `off` disables it. STRUCTIR_CACHE_MAX_BYTES is its maximum size.
A damaged or truncated file, or one of another key, counts as absent. A file that another user can
write counts as absent, too, with a warning for the first. Writers are independent: each writes a
temporary file and renames it atomically. An OSError never stops a compilation.
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

from structir.errors import Diagnostic, warn
from structir.system.private_files import NotPrivateError, check_folder, make_folder, read_file

LOCATION = "STRUCTIR_CACHE"
MAX_BYTES = "STRUCTIR_CACHE_MAX_BYTES"
DEFAULT_MAX_BYTES = 512 * 1024**2
MAX_DIGITS = 18  # of STRUCTIR_CACHE_MAX_BYTES
MAX_ENTRY_BYTES = 64 * 1024**2
MAGIC = b"structir-cache-1\n"
CHECKSUM = hashlib.sha256().digest_size
SUFFIX = ".entry"
WRITES_BETWEEN_SWEEPS = 64
SHARE_AFTER_EVICTION = 0.8  # fraction of the maximum size that remains after an eviction


@attrs.frozen
class CacheEntry:
    """The cached entry of a key: facts as strings and numbers, and a block of bytes."""

    facts: Mapping[str, Any]
    data: bytes


@attrs.frozen
class Stored:
    """A file of the cache, for listings."""

    path: Path
    size: int
    used: float  # seconds since the epoch


def directory() -> Path | None:
    """Returns the directory of the cache; None if it is disabled."""
    setting = os.environ.get(LOCATION)
    if setting == "off":
        return None
    return (Path(setting) if setting else _user_directory() / "structir").absolute()


def _user_directory() -> Path:
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def digest(*parts: str) -> str:
    """Returns the hash of these strings, the cache key of results computed from them."""
    hasher = hashlib.sha256()
    for part in parts:
        data = part.encode()
        hasher.update(len(data).to_bytes(8, "little") + data)
    return hasher.hexdigest()


def pack_entry(key: str, entry: CacheEntry) -> bytes:
    """Serializes an entry, with its key and a checksum."""
    head = json.dumps({"key": key, **entry.facts}).encode()
    body = len(head).to_bytes(8, "little") + head + entry.data
    return MAGIC + hashlib.sha256(body).digest() + body


def parse_entry(key: str, data: bytes) -> CacheEntry | None:
    """Parses the entry of a key; None unless the checksum and the key are correct."""
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

    def __init__(self, root: Path, max_bytes: int) -> None:
        self.root, self.max_bytes = root, max_bytes
        self._writes_before_sweep = 0
        self._private: bool | None = None  # unknown until the directory exists

    def path(self, key: str) -> Path:
        """Returns the path of the entry of a key."""
        return self.root / key[:2] / f"{key}{SUFFIX}"

    def is_private(self) -> bool:
        """Whether no other user can write the directory, or the directory does not exist yet."""
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
        """Returns the valid entry of a key, if any; removes an invalid one."""
        path = self.path(key)
        if not self.is_private():
            return None
        try:
            entry = parse_entry(key, read_file(path, MAX_ENTRY_BYTES))
        except NotPrivateError as error:
            _warn_once(error)
            return None
        except OSError:
            return None
        with contextlib.suppress(OSError):
            if entry is None:
                path.unlink()
            else:
                os.utime(path)  # the time of last use, by which entries are evicted
        return entry

    def write(self, key: str, entry: CacheEntry) -> None:
        """Writes an entry; if the disk is full or read-only, the entry is lost without an error."""
        data = pack_entry(key, entry)
        if not self.is_private() or len(data) > MAX_ENTRY_BYTES:
            return
        with contextlib.suppress(OSError):
            self._write(self.path(key), data)
        if self._writes_before_sweep == 0:
            self.sweep()
        self._writes_before_sweep -= 1

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
        """Yields every entry, except those removed meanwhile."""
        for file in self._scan(SUFFIX):
            with contextlib.suppress(OSError):
                status = file.stat(follow_symlinks=False)
                if stat.S_ISREG(status.st_mode):
                    yield Stored(Path(file.path), status.st_size, status.st_mtime)

    def _scan(self, suffix: str) -> Iterator[os.DirEntry[str]]:
        """Yields the files with a suffix in directories that are not symbolic links."""
        for folder in _entries(self.root):
            if len(folder.name) == 2 and folder.is_dir(follow_symlinks=False):
                yield from [file for file in _entries(folder) if file.name.endswith(suffix)]

    def sweep(self) -> int:
        """Evicts least recently used entries until the rest fits; returns how many."""
        entries = list(self.files())
        # The interval grows with the cache, so that the time of all sweeps is linear in its size.
        self._writes_before_sweep = max(WRITES_BETWEEN_SWEEPS, len(entries) // 8)
        size = sum([stored.size for stored in entries])
        if size <= self.max_bytes:
            return 0
        entries.sort(key=lambda stored: stored.used)
        removed = 0
        for stored in entries:
            if size <= SHARE_AFTER_EVICTION * self.max_bytes:
                break
            removed += self._removed(stored.path)
            size -= stored.size
        return removed

    def clear(self) -> int:
        """Removes every entry; returns how many there were."""
        for file in list(self._scan(".part")):
            self._removed(Path(file.path))
        return sum(self._removed(s.path) for s in list(self.files()))

    @staticmethod
    def _removed(path: Path) -> bool:
        with contextlib.suppress(OSError):
            path.unlink()
            return True
        return False


def _entries(folder: Path | os.DirEntry[str]) -> list[os.DirEntry[str]]:
    """Returns what a directory holds; nothing if it cannot be read."""
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        return list(entries)
    return []


_stores: dict[tuple[Path, int], CacheStore] = {}


def store() -> CacheStore | None:
    """Returns the cache named by the environment."""
    try:
        root = directory()
    except (OSError, RuntimeError):  # the user has no home directory, or there is no current one
        return None
    if root is None:
        return None
    key = (root, _max_bytes())
    return _stores.setdefault(key, CacheStore(*key))


def _max_bytes() -> int:
    setting = os.environ.get(MAX_BYTES, "")
    return int(setting) if setting.isdecimal() and len(setting) <= MAX_DIGITS else DEFAULT_MAX_BYTES


_warned: set[str] = set()  # a process warns of the cache at most once


def _warn_once(error: NotPrivateError) -> None:
    if not _warned:
        _warned.add(LOCATION)
        hint = f"`chmod go-w` it, or set {LOCATION} to a directory that only you can write"
        warn(Diagnostic(f"cache ignored: {error}", hint=hint))
