"""Hashes of Python functions of users, by which their compiled code is cached."""

from __future__ import annotations

import hashlib
import marshal
import os
import sys
from collections.abc import Iterator
from types import CodeType, ModuleType
from typing import Any

from structir.lazy import lazy_module

np = lazy_module("numpy")
PLAIN = (int, float, complex, str, bytes, type(None))
LIBRARIES = frozenset({"math", "numba", "numpy", "structir"})  # whose versions are in cache keys
STANDARD = LIBRARIES | sys.stdlib_module_names
Names = tuple[str, ...]
Seen = dict[tuple[int, Names], tuple[int, Any]]


def is_of_package(value: Any) -> bool:
    """Returns whether this package defines a function."""
    return _package(value) == "structir"


def _package(value: Any) -> str:
    return str(getattr(value, "__module__", "")).partition(".")[0]


def code_hash(value: Any) -> str:
    """Returns a hash of a function and of all that it refers to: closures, constants and functions.

    A value of another kind has a new hash in each process.
    """
    hasher = hashlib.sha256()
    for part in _parts(value, {}, ()):
        hasher.update(len(part).to_bytes(8, "little") + part)
    return hasher.hexdigest()


def _parts(value: Any, seen: Seen, names: Names) -> Iterator[bytes]:
    """Yields the parts of a value; `names` are the attributes that code may read from a module."""
    if isinstance(value, PLAIN):
        yield repr(value).encode()
        return
    key = id(value), names if isinstance(value, ModuleType) else ()
    if key in seen:
        yield f"seen {seen[key][0]}".encode()
        return
    seen[key] = len(seen), value  # keeps it alive, so that no other value has its id
    function = getattr(value, "py_func", value)  # of a function compiled by numba
    code = getattr(function, "__code__", None)
    if isinstance(value, np.ndarray | np.generic) and not value.dtype.hasobject:
        yield repr((value.dtype, value.shape)).encode() + value.tobytes()
    elif isinstance(value, tuple | list):
        yield f"{len(value)} values".encode()
        for each in value:
            yield from _parts(each, seen, names)
    elif isinstance(value, ModuleType):
        yield value.__name__.encode()
        members = vars(value) if value.__name__.partition(".")[0] not in STANDARD else {}
        for name in names:
            if name in members:
                yield name.encode()
                yield from _parts(members[name], seen, names)
    elif _package(value) in LIBRARIES | {"builtins"} and hasattr(value, "__name__"):
        yield f"{value.__module__} {value.__name__}".encode()
    elif isinstance(value, np.dtype):
        yield repr(value).encode()
    elif isinstance(code, CodeType):
        yield marshal.dumps(code)
        names = tuple(sorted({*_names(code)}))
        yield from _parts(function.__defaults__, seen, names)
        yield from _parts(sorted((function.__kwdefaults__ or {}).items()), seen, names)
        for cell in function.__closure__ or ():
            yield from _parts(cell.cell_contents, seen, names)
        for name in names:
            if name in function.__globals__:
                yield from _parts(function.__globals__[name], seen, names)
    else:
        yield _of_process(value)


def _names(code: CodeType) -> Iterator[str]:
    """Returns the names that a function and the functions inside of it look up."""
    yield from code.co_names
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _names(each)


PROCESS = os.urandom(16)


def _of_process(value: Any) -> bytes:
    return PROCESS + str(id(value)).encode()
