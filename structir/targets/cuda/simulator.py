"""A GPU on numba's simulator: host memory, and kernels as plain Python, thread by thread."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

import attrs
import numpy as np
from numba import cuda

from structir.ir.scalar_functions import with_double
from structir.loops.program.buffer import STORED_AS
from structir.loops.program.kernel_text import MissingCodeError
from structir.projections.scalar_expr import FUNCTIONS
from structir.projections.values import ufunc
from structir.targets.cpu.functions import plain_function
from structir.targets.cuda import simulated_fragments
from structir.targets.cuda.device import DeviceMemory, KernelPointer, Launch
from structir.targets.cuda.device_text import DeviceText
from structir.targets.cuda.numbers import functions_of_blocks, shared_names

THREADS, BLOCKS = 4, 3  # threads of a block, blocks of a kernel; each is a thread of the system
SIDE = 4  # the side of square blocks


@attrs.frozen(eq=False)
class Pointer:
    """A pointer: some memory and an offset."""

    elements: Any
    first: int = 0

    def __getitem__(self, place: int) -> Any:
        return self.elements[self._place(place)]

    def __setitem__(self, place: int, value: Any) -> None:
        self.elements[self._place(place)] = value

    def _place(self, place: int) -> int:
        index = self.first + int(place)
        if not 0 <= index < len(self.elements):
            raise IndexError(f"element {index} of {len(self.elements)}")
        return index


def _offset_by(pointer: Pointer, elements: int) -> Pointer:
    return Pointer(pointer.elements, pointer.first + int(elements))


def _array_at(pointer: Pointer, shape: tuple[int, ...]) -> Any:
    return pointer.elements[pointer.first :][: int(np.prod(shape))].reshape(shape)


def _library(name: str) -> Callable[..., Any]:
    return ufunc(FUNCTIONS[name].numpy)


@cache
def _names() -> dict[str, Any]:
    own: dict[str, Any] = {
        "bits_of_single": lambda x: np.float32(x).view(np.int32),
        "single_of_bits": lambda x: np.int32(x).view(np.float32),
        "half_value": lambda x: np.float32(np.uint16(x).view(np.float16)),
        "half_bits": lambda x: np.float16(x).view(np.uint16),
        "square_root": np.sqrt,
        "floor": np.floor,
        "ceil": np.ceil,
        "trunc": np.trunc,
        "nearest": np.rint,
        "offset_by": _offset_by,
        "array_at": _array_at,
        "tile_side": SIDE,
        **simulated_fragments.names(),
        "power_of_two": np.exp2,
        "unrolled": range,
    }
    for name in with_double():
        own |= {f"{name}_{dtype}": _library(name) for dtype in ("float32", "float64")}
    return {**own, **shared_names(own, lambda function: function)}


def _simulated(text: DeviceText) -> Any:
    """Returns a kernel in the form that the simulator runs."""
    names: dict[str, Any] = {**_names(), "cuda": cuda}
    if text.function is not None:
        names["routine"] = plain_function(text.function)
    own = {n: t for n, t in functions_of_blocks(warps=False).items() if n in text.text}
    for name, code in {**own, **simulated_fragments.functions_of_warps(text.text)}.items():
        # the simulator identifies shared memory by its allocation site
        exec(compile(code, f"<{name}>", "exec"), names)
    exec(compile(text.text, "<kernel>", "exec"), names)
    exec(compile(QUIET, "<kernel>", "exec"), names)
    jit: Any = cuda.jit
    return jit(names["quiet"])


QUIET = """
def quiet(*arguments):
    with np.errstate(all="ignore"):  # each simulated thread has a state of its own
        kernel(*arguments)
"""


class SimulatedDevice:
    """The simulator as a device."""

    architecture = "simulator"
    threads, blocks, side = THREADS, BLOCKS, SIDE

    def __init__(self) -> None:
        self._kernels: dict[str, Any] = {}

    def kernel(self, text: DeviceText) -> Any:
        """Returns a kernel, ready to be launched."""
        if text.text not in self._kernels:
            if text.from_file:  # the simulator executes the source, which must not come from a file
                raise MissingCodeError
            self._kernels[text.text] = _simulated(text)
        return self._kernels[text.text]

    def allocate(self, size: int, stream: int = 0) -> DeviceMemory:
        """Returns uninitialized memory."""
        held = np.empty(max(size, 1), np.uint8)
        return DeviceMemory(held.ctypes.data, size, held)

    def copy_in(self, address: int, array: Any, stream: int = 0) -> None:
        """Copies a dense array of the host to the device."""
        ctypes.memmove(address, array.ctypes.data, array.nbytes)

    def copy_out(self, array: Any, address: int, stream: int = 0) -> None:
        """Copies device memory to a dense array of the host."""
        ctypes.memmove(array.ctypes.data, address, array.nbytes)

    def copy_within(self, address: int, source: int, size: int, stream: int = 0) -> None:
        """Copies device memory to another address of the device."""
        ctypes.memmove(address, source, size)

    def prepared(self, launches: Sequence[Launch], stream: int = 0) -> Callable[[], None]:
        """Returns a function that runs these launches."""
        return partial(_run, launches)

    def synchronize(self, stream: int = 0) -> None:
        """Does nothing: all launches are synchronous."""

    def dlpack_device(self) -> tuple[int, int]:
        """The device type and number for DLPack: those of the host."""
        return (1, 0)


def _run(launches: Sequence[Launch]) -> None:
    for launch in launches:
        arguments = [_value(argument) for argument in launch.arguments]
        launch.kernel[launch.blocks, launch.threads](*arguments, *launch.sizes)


def _value(argument: KernelPointer) -> Pointer:
    dtype = np.dtype(STORED_AS.get(argument.dtype, argument.dtype))
    size = max(argument.elements * dtype.itemsize, 1)
    memory: Any = (ctypes.c_char * size).from_address(argument.address)
    return Pointer(np.ndarray((argument.elements,), dtype, memory))
