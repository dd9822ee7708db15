"""Files of arrays and facts in the format of safetensors, mapped into memory instead of read.

Arrays begin on cache lines wherever their sizes allow it, as kernels like them; the library keeps
to an order of its own, and copies. A file takes its place in one step, so that who has the old one
mapped keeps it.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import tempfile
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Any

from structir.lazy import lazy_module

np = lazy_module("numpy")

LINE = 64
LENGTH = 8  # bytes of the header's length
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
    """Write arrays and facts; those of whole cache lines first, then the widest elements."""
    order = sorted(arrays, key=lambda n: (arrays[n].nbytes % LINE != 0, -arrays[n].itemsize, n))
    head: dict[str, Any] = {FACTS: dict(facts)}
    end = 0
    for name in order:
        array, start = arrays[name], end
        end += array.nbytes
        form = {"dtype": CODES[array.dtype.name], "shape": list(array.shape)}
        head[name] = {**form, "data_offsets": [start, end]}
    said = json.dumps(head).encode()
    said += b" " * (-(LENGTH + len(said)) % LINE)
    if not path.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "there is no such folder", str(path.parent))
    if path.exists() and not path.is_file():
        raise FileExistsError(errno.EEXIST, "there is something else than a file", str(path))
    handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(len(said).to_bytes(LENGTH, "little") + said)
            for name in order:
                file.write(np.ascontiguousarray(arrays[name]).data)
        Path(temporary).replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(temporary).unlink()
        raise


def mapped_file(path: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """The arrays and the facts in a file; raises ValueError where it is not whole."""
    if path.stat().st_size <= LENGTH:
        raise ValueError("no head")
    whole = np.asarray(np.memmap(path, np.uint8, mode="r"))
    length = int.from_bytes(whole[:LENGTH].tobytes(), "little")
    head = read_json(whole[LENGTH : LENGTH + length].tobytes())
    facts = head.pop(FACTS, {}) if isinstance(head, dict) else None
    if not isinstance(facts, dict) or not all(isinstance(v, str) for v in facts.values()):
        raise ValueError("no table")
    data = whole[LENGTH + length :]
    arrays = {name: _array(data, form) for name, form in head.items()}
    if sum(array.nbytes for array in arrays.values()) != len(data):
        raise ValueError("cut off")
    return arrays, facts


def read_json(text: str | bytes) -> Any:
    """Parses JSON; raises ValueError for invalid or too deeply nested text."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _array(data: Any, form: Any) -> Any:
    match form:
        case {"dtype": str(code), "shape": list(shape), "data_offsets": [int(start), int(end)]}:
            dtype, whole = np.dtype(DTYPES.get(code, "V")), all(type(n) is int for n in shape)
            inside = whole and 0 <= start <= end <= len(data)
            if inside and end - start == prod(shape) * dtype.itemsize:
                return data[start:end].view(dtype).reshape(shape)
    raise ValueError(f"no array: {form}")
