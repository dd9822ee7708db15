"""The interface of a device: kernels, memory, copies and launches. A GPU and the simulator
implement it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import attrs

from structir.targets.cuda.device_text import DeviceText, Product


@attrs.frozen(eq=False)
class DeviceMemory:
    """Memory of a device; the owner keeps it alive."""

    address: int
    size: int
    owner: Any


@attrs.frozen
class KernelPointer:
    """A pointer argument of a kernel, with its number of elements."""

    address: int
    dtype: str
    elements: int


@attrs.frozen
class Launch:
    """A kernel with all arguments of a launch."""

    kernel: Any
    blocks: int
    threads: int
    arguments: tuple[KernelPointer, ...]
    sizes: tuple[int, ...]
    product: Product | None = None  # with numbers for all sizes
    tf32: bool = False  # whether a library may round factors of float32 to 10 bits


class Device(Protocol):
    """A GPU, or a substitute for one."""

    architecture: str
    threads: int  # of a block
    blocks: int  # of a kernel, at most
    side: int  # threads per side of a square block, for tiled kernels

    def kernel(self, text: DeviceText) -> Any:
        """Returns a kernel, ready to be launched."""

    def allocate(self, size: int, stream: int = 0) -> DeviceMemory:
        """Returns uninitialized memory."""

    def copy_in(self, address: int, array: Any, stream: int = 0) -> None:
        """Copies a dense array of the host to the device."""

    def copy_out(self, array: Any, address: int, stream: int = 0) -> None:
        """Copies device memory to a dense array of the host."""

    def copy_within(self, address: int, source: int, size: int, stream: int = 0) -> None:
        """Copies device memory to another address of the device."""

    def prepared(self, launches: Sequence[Launch], stream: int = 0) -> Callable[[], None]:
        """Returns a function that runs these launches on a stream."""

    def synchronize(self, stream: int = 0) -> None:
        """Waits until all work of a stream is done."""

    def dlpack_device(self) -> tuple[int, int]:
        """The device type and number for DLPack."""
