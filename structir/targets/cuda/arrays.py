"""Arrays on a device: dense, typed memory that other libraries can read without a copy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import prod
from typing import Any

import attrs
import numpy as np

from structir.errors import ShapeMismatchError
from structir.interpret.argument_conversion import as_value, in_field_order
from structir.interpret.dlpack import capsule_of, tensor_of
from structir.interpret.scope import ForeignTensor
from structir.ir.struct_info import StructInfo
from structir.targets.cuda.device import Device, DeviceMemory

ALIGNED = 16  # bytes: the alignment that kernels expect, because they load several elements at once
VERSION = 3  # of `__cuda_array_interface__`
GPU_MEMORY = (2, 13)  # the device types of DLPack for GPU memory and for pinned host memory


@attrs.frozen(eq=False, repr=False)
class DeviceArray(ForeignTensor):
    """A dense array on a device. Reading its elements, or converting it to a NumPy array, copies it
    to the host."""

    device: Device
    memory: DeviceMemory
    shape: tuple[int, ...]
    dtype: Any

    @property
    def size(self) -> int:
        """The number of elements."""
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        """The size of the elements in bytes."""
        return self.size * int(self.dtype.itemsize)

    @property
    def address(self) -> int:
        """The address of the first element."""
        return self.memory.address

    def copy_to_host(self, stream: int = 0) -> Any:
        """Returns the elements as a NumPy array."""
        host = np.empty(self.shape, self.dtype)
        self.device.copy_out(host, self.address, stream)
        self.device.synchronize(stream)
        return host

    def reshape(self, shape: tuple[int, ...]) -> DeviceArray:
        """Returns a view of the same memory with another shape."""
        return attrs.evolve(self, shape=tuple(shape))

    def copy(self, stream: int = 0) -> DeviceArray:
        """Returns an array with the same elements in new memory."""
        copy = new_array(self.device, self.shape, self.dtype, stream)
        self.device.copy_within(copy.address, self.address, self.nbytes, stream)
        return copy

    @property
    def __cuda_array_interface__(self) -> Mapping[str, Any]:
        kind = self.dtype.str if self.dtype.kind != "V" else f"<u{self.dtype.itemsize}"
        return {
            "shape": self.shape,
            "typestr": kind,
            "data": (self.address, False),
            "strides": None,
            "version": VERSION,
        }

    def __dlpack__(self, *, stream: Any = None, **options: Any) -> Any:
        return capsule_of(self, self.address, self.shape, self.dtype, self.__dlpack_device__())

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device.dlpack_device()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        host = self.copy_to_host()
        return host if dtype is None else host.astype(dtype)

    def __bool__(self) -> bool:
        return bool(self.copy_to_host())

    def __int__(self) -> int:
        return int(self.copy_to_host())

    __index__ = __int__

    def __float__(self) -> float:
        return float(self.copy_to_host())

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        return f"<DeviceArray: {self.dtype.name} {self.shape} on {self.device.architecture}>"


def new_array(device: Device, shape: tuple[int, ...], dtype: Any, stream: int = 0) -> DeviceArray:
    """Returns an array with uninitialized elements."""
    kind = np.dtype(dtype)
    return DeviceArray(device, device.allocate(prod(shape) * kind.itemsize, stream), shape, kind)


def moved(device: Device, array: Any, stream: int = 0) -> DeviceArray:
    """Returns a copy of a NumPy array on the device."""
    dense = np.ascontiguousarray(array).reshape(array.shape)
    array_on_device = new_array(device, array.shape, array.dtype, stream)
    device.copy_in(array_on_device.address, dense, stream)
    return array_on_device


def owned(value: Any, args: Any, constants: Iterable[DeviceArray], stream: int = 0) -> Any:
    """Returns the result of a call, with a copy of each array over memory of a constant, of an
    argument or of another result."""
    return _owned(value, [*constants, *_arrays(args)], stream)


def _owned(value: Any, taken: list[DeviceArray], stream: int) -> Any:
    if isinstance(value, tuple):
        return tuple([_owned(item, taken, stream) for item in value])
    if isinstance(value, np.ndarray):
        return np.array(value)
    if isinstance(value, DeviceArray):
        value = value.copy(stream) if any(_overlap(value, other) for other in taken) else value
        taken.append(value)
    return value


def _arrays(value: Any) -> list[DeviceArray]:
    if isinstance(value, tuple):
        return [array for item in value for array in _arrays(item)]
    return [value] if isinstance(value, DeviceArray) else []


def _overlap(one: DeviceArray, other: DeviceArray) -> bool:
    first, second = sorted([one, other], key=lambda array: array.address)
    return one.memory is other.memory or second.address < first.address + first.nbytes


def on_device(device: Device, info: StructInfo, value: Any, stream: int = 0) -> Any:
    """Converts an argument to a run-time value: tensors on the device are kept, all others are
    copied to it."""
    fields = getattr(info, "fields", None)
    value = value if fields is None else in_field_order(info, value)
    if isinstance(value, list | tuple) and fields is None:
        value = as_value(info, value)
    if isinstance(value, tuple) or (fields is not None and isinstance(value, list)):
        both = zip((info,) * len(value) if fields is None else fields, value, strict=False)
        there = [on_device(device, field, item, stream) for field, item in both]
        return (*there, *value[len(there) :])  # surplus fields are reported later
    if isinstance(value, DeviceArray):
        return value
    shared = _shared(device, value)
    if shared is not None:
        aligned = shared.address % ALIGNED == 0
        return shared if aligned else moved(device, shared.copy_to_host(stream), stream)
    value = as_value(info, value)
    return moved(device, value, stream) if isinstance(value, np.ndarray) else value


def _shared(device: Device, value: Any) -> DeviceArray | None:
    """Returns the array of another library on the device, imported through DLPack, which supports
    every dtype."""
    place = getattr(value, "__dlpack_device__", None)
    if place is None or place()[0] not in GPU_MEMORY:
        interface = getattr(value, "__cuda_array_interface__", None)
        return None if interface is None else _described(device, value, interface)
    address, shape, dtype, owner = tensor_of(value)
    size = prod(shape) * dtype.itemsize
    return DeviceArray(device, DeviceMemory(address, size, owner), shape, dtype)


def _described(device: Device, value: Any, interface: Mapping[str, Any]) -> DeviceArray:
    shape, dtype = tuple(interface["shape"]), np.dtype(interface["typestr"])
    strides = interface.get("strides")
    if strides is not None and not _is_dense(shape, strides, dtype.itemsize):
        raise ShapeMismatchError(
            f"a {type(value).__name__} of shape {shape} on the device is not dense: copy it first"
        )
    waits_for = interface.get("stream")
    if waits_for is not None:
        device.synchronize(int(waits_for))
    memory = DeviceMemory(int(interface["data"][0]), prod(shape) * dtype.itemsize, value)
    return DeviceArray(device, memory, shape, dtype)


def _is_dense(shape: tuple[int, ...], strides: tuple[int, ...], step: int) -> bool:
    for size, stride in zip(reversed(shape), reversed(strides), strict=True):
        if size != 1 and stride != step:
            return False
        step *= size
    return True
