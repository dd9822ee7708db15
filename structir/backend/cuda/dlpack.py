"""DLPack through ctypes: tensors exported to and imported from other libraries without a copy."""

from __future__ import annotations

import ctypes
from math import prod
from typing import Any

import numpy as np

from structir.errors import ShapeMismatchError
from structir.ir.dtype import numpy_dtype

NAME, USED = b"dltensor", b"used_dltensor"
KINDS = {"i": 0, "u": 1, "f": 2, "b": 6}  # the type codes of DLPack
BRAIN = 4


class DLTensor(ctypes.Structure):
    """The address, shape and dtype of a tensor."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("kind", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("offset", ctypes.c_uint64),
    )


class ManagedTensor(ctypes.Structure):
    """A tensor with its deleter."""


Deleter = ctypes.CFUNCTYPE(None, ctypes.POINTER(ManagedTensor))
ManagedTensor._fields_ = (
    ("tensor", DLTensor),
    ("context", ctypes.c_void_p),
    ("deleter", Deleter),
)
_lent: dict[int, tuple[Any, ...]] = {}  # exported tensors, by the addresses of their structures


def _give_back(managed: Any) -> None:
    _lent.pop(ctypes.addressof(managed.contents), None)


_returned = Deleter(_give_back)


def _api(name: str, result: Any, *arguments: Any) -> Any:
    function = getattr(ctypes.pythonapi, name)
    function.restype, function.argtypes = result, arguments
    return function


def capsule_of(
    owner: Any, address: int, shape: tuple[int, ...], dtype: Any, place: tuple[int, int]
) -> Any:
    """Exports a tensor; the owner lives as long as the importer needs it."""
    sizes = (ctypes.c_int64 * max(len(shape), 1))(*shape)
    kind = BRAIN if dtype.name == "bfloat16" else KINDS.get(dtype.kind)
    if kind is None:
        raise BufferError(f"DLPack has no {dtype.name}")
    form = (kind, 8 * dtype.itemsize, 1, sizes, None, 0)
    managed = ManagedTensor(DLTensor(address, *place, len(shape), *form), None, _returned)
    _lent[ctypes.addressof(managed)] = (owner, managed, sizes)
    new = _api("PyCapsule_New", ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    return new(ctypes.addressof(managed), NAME, None)


def tensor_of(value: Any) -> tuple[int, tuple[int, ...], Any, Any]:
    """Returns the address, the shape, the dtype and the owner of another library's tensor."""
    capsule = value.__dlpack__()
    get = _api("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
    managed = ManagedTensor.from_address(get(capsule, NAME))
    tensor = managed.tensor
    shape = tuple(tensor.shape[: tensor.ndim])
    dtype = _dtype(tensor)
    if tensor.strides and not _is_dense(shape, tuple(tensor.strides[: tensor.ndim])):
        raise ShapeMismatchError(
            f"a {type(value).__name__} of shape {shape} on the device is not dense: copy it first"
        )
    return int(tensor.data or 0) + int(tensor.offset), shape, dtype, (capsule, value)


def _dtype(tensor: DLTensor) -> Any:
    if tensor.kind == BRAIN:
        return numpy_dtype("bfloat16")
    letters = {number: letter for letter, number in KINDS.items()}
    if tensor.kind not in letters or tensor.lanes != 1:
        raise ShapeMismatchError("a tensor of a dtype that NumPy does not have")
    return np.dtype(f"{letters[tensor.kind]}{tensor.bits // 8}")


def _is_dense(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    return all(
        size == 1 or stride == prod(shape[k + 1 :])
        for k, (size, stride) in enumerate(zip(shape, strides, strict=True))
    )
