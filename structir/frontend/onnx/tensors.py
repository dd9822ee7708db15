"""ONNX tensors as NumPy arrays: sizes checked first, files outside the model's folder never
touched."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from structir.errors import Diagnostic, DiagnosticError
from structir.ir.dtype import dtype_of

TEXTS = "object"  # NumPy's dtype of strings; StructIR has none for them
MOST_SPARSE = 1 << 26  # elements that a sparse tensor may stand for
Array = np.ndarray[Any, Any]


def dtype_name(element_type: int) -> str:
    """StructIR's name for an ONNX element type; `object` for strings."""
    try:
        return str(onnx.helper.tensor_dtype_to_np_dtype(element_type).name)
    except (KeyError, ValueError) as error:
        raise wrong(f"there is no element type {element_type}") from error


def element_type(name: str) -> int:
    """ONNX's number for a dtype."""
    for number in TensorProto.DataType.values():
        if number and dtype_name(number) == name:
            return int(number)
    raise wrong(f"ONNX has no element type {name}")


def wrong(message: str, hint: str | None = None) -> DiagnosticError:
    """The error of a file that cannot be right."""
    return DiagnosticError(Diagnostic(message, hint=hint))


def array_of(tensor: TensorProto, folder: Path | None) -> Array:
    """The elements of a tensor; external ones are read from the model's folder."""
    name = f"tensor {tensor.name!r}"
    if any(d < 0 for d in tensor.dims):
        raise wrong(f"{name} has a negative size: {list(tensor.dims)}")
    dtype_name(tensor.data_type)
    if tensor.data_location == TensorProto.EXTERNAL:
        tensor = _loaded(tensor, folder)
    _check_length(tensor, name)
    try:
        return numpy_helper.to_array(tensor)
    except (ValueError, TypeError, KeyError, OverflowError) as error:
        raise wrong(f"{name} cannot be read: {error}") from error


def _check_length(tensor: TensorProto, name: str) -> None:
    """The bytes that are there must be those that the sizes ask for."""
    if tensor.data_type == TensorProto.STRING:
        needed, there, unit = math.prod(tensor.dims), len(tensor.string_data), "texts"
    elif tensor.HasField("raw_data"):
        needed, there, unit = byte_count(tensor), len(tensor.raw_data), "bytes"
    else:
        return
    if needed != there:
        shape = list(tensor.dims)
        raise wrong(f"{name} of shape {shape} needs {needed} {unit}, but has {there}")


def byte_count(tensor: TensorProto) -> int:
    """How many bytes the elements take, packed as ONNX packs them."""
    bits = PACKED.get(tensor.data_type)
    if bits is None:
        bits = 8 * onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize
    return (math.prod(tensor.dims) * bits + 7) // 8


PACKED = {
    getattr(TensorProto, name): bits
    for name, bits in (("INT4", 4), ("UINT4", 4), ("FLOAT4E2M1", 4), ("INT2", 2), ("UINT2", 2))
    if hasattr(TensorProto, name)
}


def _loaded(tensor: TensorProto, folder: Path | None) -> TensorProto:
    """The tensor with its bytes out of the file that it names."""
    said = {entry.key: entry.value for entry in tensor.external_data}
    name = f"tensor {tensor.name!r}"
    path = confined(said.get("location", ""), folder, name)
    needed = byte_count(tensor)
    try:
        offset, length = int(said.get("offset", 0)), int(said.get("length", needed))
    except ValueError as error:
        raise wrong(f"{name}: its place in {path.name} is no number") from error
    size = path.stat().st_size
    if length != needed or offset < 0 or offset + length > size:
        raise wrong(
            f"{name} needs {needed} bytes, but {length} at {offset} of {path.name} are stated, "
            f"which has {size}"
        )
    with path.open("rb") as file:
        file.seek(offset)
        loaded = TensorProto(dims=tensor.dims, data_type=tensor.data_type, name=tensor.name)
        loaded.raw_data = file.read(length)
    return loaded


def confined(location: str, folder: Path | None, name: str) -> Path:
    """The file of a location, which must lie in the model's folder."""
    if folder is None:
        raise wrong(
            f"{name} is in a file of its own, {location!r}",
            "give the path of the model, not the model itself",
        )
    root = folder.resolve()
    path = (root / location).resolve()
    if not location or "\0" in location or not path.is_relative_to(root):
        raise wrong(f"{name} is in {location!r}, outside the model's folder")
    if not path.is_file():
        raise wrong(f"{name} is in {location!r}, but there is no such file")
    return path


def dense(sparse: Any, folder: Path | None) -> Array:
    """A sparse tensor as a dense one."""
    values, indices = array_of(sparse.values, folder), array_of(sparse.indices, folder)
    shape = tuple(sparse.dims)
    count = math.prod(shape)
    if any(d < 0 for d in shape) or count > MOST_SPARSE:
        raise wrong(f"sparse tensor {sparse.values.name!r} is too large: {list(shape)}")
    if indices.ndim == 2:
        ranks = tuple(indices.T)
        inside = len(ranks) == len(shape) and all(
            ((i >= 0) & (i < n)).all() for i, n in zip(ranks, shape, strict=True)
        )
        flat = np.ravel_multi_index(ranks, shape) if inside else np.array([-1])
    else:
        flat = indices
    if flat.shape != values.shape or ((flat < 0) | (flat >= count)).any():
        raise wrong(f"sparse tensor {sparse.values.name!r} has indices outside {list(shape)}")
    made = np.zeros(count, values.dtype)
    made[flat] = values
    return made.reshape(shape)


__all__ = ["array_of", "dense", "dtype_name", "dtype_of", "element_type", "wrong"]
