"""Conversion of ONNX tensors to NumPy arrays, with checked lengths and paths of external data."""

from __future__ import annotations

import math
import mmap
import reprlib
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from structir.errors import Diagnostic, DiagnosticError
from structir.ir.dtype import dtype_of

STRINGS = "object"  # NumPy's dtype of strings; StructIR has no string dtype
MIN_MAPPED_BYTES = 1 << 16  # bytes; smaller tensors are parsed
MAX_SPARSE_ELEMENTS = 1 << 26  # elements of a sparse tensor as a dense array
Array = np.ndarray[Any, Any]


def dtype_name(element_type: int) -> str:
    """Returns the dtype of an ONNX element type; `object` for strings."""
    try:
        return str(onnx.helper.tensor_dtype_to_np_dtype(element_type).name)
    except (KeyError, ValueError) as error:
        raise wrong(f"unknown ONNX element type {element_type}") from error


def element_type(name: str) -> int:
    """Returns the ONNX element type of a dtype."""
    for number in TensorProto.DataType.values():
        if number and dtype_name(number) == name:
            return int(number)
    raise wrong(f"dtype {name} has no ONNX element type")


def wrong(message: str, hint: str | None = None, code: str = "E0802") -> DiagnosticError:
    """Returns the error of an invalid file or call."""
    return DiagnosticError(Diagnostic(message, hint=hint, code=code))


class ExternalFiles:
    """The files of a model's external data in its folder; large tensors are memory-mapped."""

    def __init__(self, folder: Path | None, mapped: bool = False) -> None:
        self.folder, self.mapped = folder, mapped
        self.maps: dict[Path, mmap.mmap] = {}

    def read(self, path: Path, offset: int, length: int) -> bytes | memoryview:
        """Returns a range of a file: a view of the mapped file, or a copy if it is small."""
        if self.mapped and length >= MIN_MAPPED_BYTES:
            with suppress(OSError, ValueError):  # a file system without mapping
                return memoryview(self._map(path))[offset : offset + length]
        with path.open("rb") as file:
            file.seek(offset)
            return file.read(length)

    def _map(self, path: Path) -> mmap.mmap:
        if path not in self.maps:
            with path.open("rb") as file:
                self.maps[path] = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        return self.maps[path]


def array_of(tensor: TensorProto, files: ExternalFiles) -> Array:
    """Returns the elements of a tensor; external data is in the model's folder."""
    name = f"tensor {tensor.name!r}"
    if any(d < 0 for d in tensor.dims):
        raise wrong(f"{name} has a negative size: {list(tensor.dims)}")
    dtype_name(tensor.data_type)
    if tensor.data_location == TensorProto.EXTERNAL:
        data = _external_data(tensor, files)
        if isinstance(data, memoryview) and tensor.data_type not in ALWAYS_PARSED:
            return view_of(tensor, data)
        tensor = TensorProto(dims=tensor.dims, data_type=tensor.data_type, name=tensor.name)
        tensor.raw_data = bytes(data)
    _check_length(tensor, name)
    try:
        return numpy_helper.to_array(tensor)
    except (ValueError, TypeError, KeyError, OverflowError) as error:
        raise wrong(f"{name}: invalid data: {error}") from error


def _check_length(tensor: TensorProto, name: str) -> None:
    """Raises `DiagnosticError` if the stored length differs from the required length."""
    if tensor.data_type == TensorProto.STRING:
        needed, stored, unit = math.prod(tensor.dims), len(tensor.string_data), "strings"
    elif tensor.HasField("raw_data"):
        needed, stored, unit = byte_count(tensor), len(tensor.raw_data), "bytes"
    else:
        return
    if needed != stored:
        shape = list(tensor.dims)
        raise wrong(f"{name} of shape {shape}: expected {needed} {unit}, found {stored}")


def byte_count(tensor: TensorProto) -> int:
    """Returns the number of bytes of the elements in ONNX's packed representation."""
    bits = PACKED.get(tensor.data_type)
    if bits is None:
        bits = 8 * onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize
    return (math.prod(tensor.dims) * bits + 7) // 8


PACKED = {
    getattr(TensorProto, name): bits
    for name, bits in (("INT4", 4), ("UINT4", 4), ("FLOAT4E2M1", 4), ("INT2", 2), ("UINT2", 2))
    if hasattr(TensorProto, name)
}
ALWAYS_PARSED = {TensorProto.STRING, *PACKED}  # strings, and types smaller than a byte


def view_of(tensor: TensorProto, data: memoryview) -> Array:
    """Returns the bytes of a tensor as its elements, without a copy."""
    dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type)
    return np.frombuffer(data, dtype).reshape(tuple(tensor.dims))


def _external_data(tensor: TensorProto, files: ExternalFiles) -> bytes | memoryview:
    """Returns the external data of a tensor, which has the required length."""
    fields = {entry.key: entry.value for entry in tensor.external_data}
    name = f"tensor {tensor.name!r}"
    path = resolve_in_folder(fields.get("location", ""), files.folder, name)
    needed = byte_count(tensor)
    try:
        offset, length = int(fields.get("offset", 0)), int(fields.get("length", needed))
    except ValueError as error:
        raise wrong(f"{name}: its offset and length in {path.name} must be integers") from error
    size = path.stat().st_size
    if length != needed or offset < 0 or offset + length > size:
        raise wrong(
            f"{name}: expected {needed} bytes, found a range of {length} bytes at offset {offset} "
            f"of {path.name}, which has {size} bytes"
        )
    return files.read(path, offset, length)


def resolve_in_folder(location: str, folder: Path | None, name: str) -> Path:
    """Returns the path of an external data file, which must be in the model's folder."""
    if folder is None:
        raise wrong(
            f"{name} has external data in {location!r}, but the model has no folder",
            "pass the path of the model, or the folder: `from_onnx(model, folder=...)`",
        )
    root, text = folder.resolve(), reprlib.repr(location)
    try:
        path = (root / location).resolve()
        exists = path.is_file()
    except (OSError, ValueError) as error:  # a name that is too long, or has NUL
        raise wrong(f"{name}: external data file {text} cannot be read: {error.args[-1]}") from None
    if not location or not path.is_relative_to(root):
        raise wrong(f"{name}: external data {text} is outside the model's folder", code="E0807")
    if not exists:
        raise wrong(f"{name}: external data file {text} does not exist")
    return path


def dense(sparse: Any, files: ExternalFiles) -> Array:
    """Returns a sparse tensor as a dense array."""
    values, indices = array_of(sparse.values, files), array_of(sparse.indices, files)
    shape = tuple(sparse.dims)
    count = math.prod(shape)
    if any(d < 0 for d in shape) or count > MAX_SPARSE_ELEMENTS:
        raise wrong(f"sparse tensor {sparse.values.name!r} is too large: {list(shape)}")
    if indices.ndim == 2:
        coordinates = tuple(indices.T)
        in_range = len(coordinates) == len(shape) and all(
            ((i >= 0) & (i < n)).all() for i, n in zip(coordinates, shape, strict=True)
        )
        flat = np.ravel_multi_index(coordinates, shape) if in_range else np.array([-1])
    else:
        flat = indices
    if flat.shape != values.shape or ((flat < 0) | (flat >= count)).any():
        raise wrong(
            f"sparse tensor {sparse.values.name!r}: indices out of range for shape {list(shape)}"
        )
    result = np.zeros(count, values.dtype)
    result[flat] = values
    return result.reshape(shape)


__all__ = ["ExternalFiles", "array_of", "dense", "dtype_name", "dtype_of", "element_type", "wrong"]
