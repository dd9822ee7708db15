"""Reads files that no other user can write; machine code is loaded only from such files.

A user who can write such a file controls this process. Systems without file owners (Windows) check
only that a file is a regular one.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from io import FileIO
from pathlib import Path

HAS_OWNERS = hasattr(os, "geteuid")
# Symbolic links are not followed, and a pipe without a writer does not block.
OPEN = os.O_RDONLY | sum(
    getattr(os, name, 0)
    for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_NOCTTY", "O_CLOEXEC", "O_BINARY")
)
OPEN_FOLDER = OPEN | getattr(os, "O_DIRECTORY", 0)
WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH
PRIVATE = 0o700
MAX_LINKS = 40  # symbolic links in a path, as on Linux


class NotPrivateError(OSError):
    """Another user can write or replace a file; the message gives the reason."""


def check_folder(folder: Path) -> bool:
    """Raises NotPrivateError if another user can write or replace a directory; returns whether the
    directory exists."""
    if not HAS_OWNERS:
        return folder.is_dir()
    try:
        for path, status in _way_to(folder):
            _check_above(path, status)
        status = folder.stat()
    except FileNotFoundError:
        return False
    if not stat.S_ISDIR(status.st_mode):
        raise NotADirectoryError(str(folder))
    _check(folder, status)
    return True


def make_folder(folder: Path) -> None:
    """Creates a directory and its missing parents, for this user alone."""
    if not folder.is_dir():
        make_folder(folder.parent)
        with suppress(FileExistsError):
            folder.mkdir(PRIVATE)


def read_file(path: Path, max_bytes: int) -> bytes:
    """Returns the contents of a regular file which no other user can write, in a directory of that
    kind.

    Raises NotPrivateError for any other file, and OSError for a larger one.
    """
    if not HAS_OWNERS:
        return _contents(path, _open(path, OPEN), max_bytes)
    folder = _open(path.parent, OPEN_FOLDER)
    try:
        _check(path.parent, os.fstat(folder))
        return _contents(path, _open(path, OPEN, folder), max_bytes)
    finally:
        os.close(folder)


def _contents(path: Path, file: int, max_bytes: int) -> bytes:
    """Returns the contents of an open file and closes it."""
    try:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode):
            raise NotPrivateError(f"{path} is not a regular file")
        _check(path, status)
        if status.st_size > max_bytes:
            raise OSError(f"{path} has {status.st_size} bytes")
        with FileIO(file, closefd=False) as opened:
            return opened.readall()
    finally:
        os.close(file)


def _open(path: Path, flags: int, folder: int | None = None) -> int:
    try:
        return os.open(path if folder is None else path.name, flags, dir_fd=folder)
    except OSError:
        if path.is_symlink():
            raise NotPrivateError(f"{path} is a symbolic link") from None
        raise


def _check(path: Path, status: os.stat_result) -> None:
    """Checks that only this user can write a file or directory."""
    if not HAS_OWNERS:
        return
    if status.st_uid != os.geteuid():
        raise NotPrivateError(f"{path} belongs to user {status.st_uid}, not to {os.geteuid()}")
    if status.st_mode & WRITABLE_BY_OTHERS:
        raise NotPrivateError(f"other users can write {path}")


def _check_above(path: Path, status: os.stat_result) -> None:
    """Checks a parent directory or link: its owner, and whether others can rename its entries."""
    if status.st_uid not in (0, os.geteuid()):
        raise NotPrivateError(f"{path} belongs to user {status.st_uid}, not to {os.geteuid()}")
    mode = status.st_mode
    if stat.S_ISDIR(mode) and mode & WRITABLE_BY_OTHERS and not mode & stat.S_ISVTX:
        raise NotPrivateError(f"other users can write {path}")


def _way_to(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Returns all directories and links that the system resolves in a path."""
    current, links = Path(folder.absolute().anchor), 0
    remaining = list(reversed(folder.absolute().parts[1:]))
    yield current, current.lstat()
    while remaining:
        part = remaining.pop()
        path = current.parent if part == ".." else current / part
        status = path.lstat()
        yield path, status
        if not stat.S_ISLNK(status.st_mode):
            current = path
            continue
        links += 1
        if links > MAX_LINKS:
            raise NotADirectoryError(f"{folder}: too many links")
        target = path.readlink()
        current = Path(target.anchor) if target.is_absolute() else current
        remaining += reversed(target.parts[1:] if target.is_absolute() else target.parts)
