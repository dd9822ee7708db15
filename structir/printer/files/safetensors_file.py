"""Reads and writes safetensors files of arrays and metadata; arrays are memory-mapped.

Arrays are aligned to cache lines wherever their sizes allow it, for aligned vector loads; the
safetensors library sorts by dtype and name, and copies on load. A new file replaces an old one
atomically, so existing mappings of the old one stay valid. A symbolic link is followed: its target
is replaced. The umask determines the mode of the new file.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import secrets
from collections.abc import Iterator, Mapping
from math import prod
from pathlib import Path
from typing import IO, Any

from structir.lazy import lazy_module
from structir.printer.files.mapped_memory import chunks

np = lazy_module("numpy")

LINE = 64
LENGTH = 8  # bytes of the length field
FACTS = "__metadata__"
CODES = {
    "float64": "F64",
    "float32": "F32",
    "float16": "F16",
    "int64": "I64",
    "int32": "I32",
    "int16": "I16",
    "int8": "I8",
    "uint64": "U64",
    "uint32": "U32",
    "uint16": "U16",
    "uint8": "U8",
    "bool": "BOOL",
}
DTYPES = {code: dtype for dtype, code in CODES.items()}


def write_file(arrays: Mapping[str, Any], facts: Mapping[str, str], path: Path) -> None:
    """Writes arrays and metadata, arrays of whole cache lines first, then by element width."""
    order = sorted(arrays, key=lambda n: (arrays[n].nbytes % LINE != 0, -arrays[n].itemsize, n))
    entries: dict[str, Any] = {FACTS: dict(facts)}
    end = 0
    for name in order:
        array, start = arrays[name], end
        end += array.nbytes
        entry = {"dtype": CODES[array.dtype.name], "shape": list(array.shape)}
        entries[name] = {**entry, "data_offsets": [start, end]}
    header = json.dumps(entries).encode()
    header += b" " * (-(LENGTH + len(header)) % LINE)
    with _replaced(path) as file:
        file.write(len(header).to_bytes(LENGTH, "little") + header)
        for name in order:
            for chunk in chunks(arrays[name]):
                file.write(chunk)


@contextlib.contextmanager
def _replaced(path: Path) -> Iterator[IO[bytes]]:
    """Opens a new file that replaces `path`, or the target of this link, once it is complete."""
    target = Path(os.path.realpath(path))
    if target.is_symlink():
        raise OSError(errno.ELOOP, "the symbolic link leads to itself", str(path))
    if not target.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "no such folder", str(target.parent))
    if target.exists() and not target.is_file():
        raise FileExistsError(errno.EEXIST, "not a regular file", str(path))
    temporary = target.with_name(f"tmp{secrets.token_hex(8)}.part")
    try:
        with temporary.open("xb") as file:
            yield file
        temporary.replace(target)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


def mapped_file(path: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """Maps the arrays of a file, and reads its metadata; raises ValueError for an invalid file."""
    if path.stat().st_size <= LENGTH:
        raise ValueError("no header")
    contents = np.asarray(np.memmap(path, np.uint8, mode="r"))
    length = int.from_bytes(contents[:LENGTH].tobytes(), "little")
    entries = read_json(contents[LENGTH : LENGTH + length].tobytes())
    facts = entries.pop(FACTS, {}) if isinstance(entries, dict) else None
    if not isinstance(facts, dict) or not all(isinstance(v, str) for v in facts.values()):
        raise ValueError("invalid header")
    data = contents[LENGTH + length :]
    arrays = {name: _array(data, entry) for name, entry in entries.items()}
    if sum(array.nbytes for array in arrays.values()) != len(data):
        raise ValueError("truncated")
    return arrays, facts


def read_json(text: str | bytes) -> Any:
    """Parses JSON; raises ValueError for invalid or too deeply nested text."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _array(data: Any, entry: Any) -> Any:
    match entry:
        case {"dtype": str(code), "shape": list(shape), "data_offsets": [int(start), int(end)]}:
            dtype, integral = np.dtype(DTYPES.get(code, "V")), all(type(n) is int for n in shape)
            in_range = integral and 0 <= start <= end <= len(data)
            if in_range and end - start == prod(shape) * dtype.itemsize:
                return data[start:end].view(dtype).reshape(shape)
    raise ValueError(f"invalid array entry: {entry}")
