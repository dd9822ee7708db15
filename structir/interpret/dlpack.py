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
CPU = 1  # the type code of the memory of a CPU
BRAIN = 4
EXTENDED_KINDS = {  # the type codes of dtypes that NumPy does not have
    BRAIN: "bfloat16",
    10: "float8_e4m3fn",
    11: "float8_e4m3fnuz",
    12: "float8_e5m2",
    13: "float8_e5m2fnuz",
    14: "float8_e8m0fnu",
}


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
    address, shape, strides, dtype, owner = _described(value)
    if strides is not None and not _is_dense(shape, strides):
        raise ShapeMismatchError(
            f"a {type(value).__name__} of shape {shape} on the device is not dense: copy it first"
        )
    return address, shape, dtype, owner


def array_of(value: Any) -> Any:
    """Returns a read-only array over the memory of another library's tensor on the CPU.

    `numpy.from_dlpack` lacks the dtypes that NumPy itself lacks, such as bfloat16.
    """
    address, shape, strides, dtype, owner = _described(value)
    if 0 in shape:
        return np.zeros(shape, dtype)
    steps = strides or tuple([prod(shape[k + 1 :]) for k in range(len(shape))])
    extent = 1 + sum([(size - 1) * step for size, step in zip(shape, steps, strict=True)])
    buffer: Any = (ctypes.c_char * (extent * dtype.itemsize)).from_address(address)
    buffer.owner = owner  # the array keeps its buffer alive, and the buffer the tensor
    array = np.ndarray(shape, dtype, buffer, 0, [step * dtype.itemsize for step in steps])
    array.flags.writeable = False
    return array


def _described(value: Any) -> tuple[int, tuple[int, ...], tuple[int, ...] | None, Any, Any]:
    """Returns the address, the shape, the strides in elements (None if dense), the dtype and the
    owner of another library's tensor."""
    capsule = value.__dlpack__()
    get = _api("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
    managed = ManagedTensor.from_address(get(capsule, NAME))
    tensor = managed.tensor
    shape = tuple(tensor.shape[: tensor.ndim])
    strides = tuple(tensor.strides[: tensor.ndim]) if tensor.strides else None
    address = int(tensor.data or 0) + int(tensor.offset)
    return address, shape, strides, _dtype(tensor), (capsule, value)


def _dtype(tensor: DLTensor) -> Any:
    if tensor.kind in EXTENDED_KINDS:
        return numpy_dtype(EXTENDED_KINDS[tensor.kind])
    letters = {number: letter for letter, number in KINDS.items()}
    if tensor.kind not in letters or tensor.lanes != 1:
        raise ShapeMismatchError("a tensor of a dtype that NumPy does not have")
    return np.dtype(f"{letters[tensor.kind]}{tensor.bits // 8}")


def _is_dense(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    return all(
        size == 1 or stride == prod(shape[k + 1 :])
        for k, (size, stride) in enumerate(zip(shape, strides, strict=True))
    )
