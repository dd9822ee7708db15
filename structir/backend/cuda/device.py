"""What a device offers: kernels, memory, copies and launches; a card and the simulator are such."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import attrs

from structir.backend.cuda.device_text import DeviceText, Product


@attrs.frozen(eq=False)
class DeviceMemory:
    """Memory of a device; the owner keeps it alive."""

    address: int
    size: int
    owner: Any


@attrs.frozen
class KernelPointer:
    """A pointer that a kernel gets, and how many elements lie there."""

    address: int
    dtype: str
    elements: int


@attrs.frozen
class Launch:
    """A kernel with all that it is called with."""

    kernel: Any
    blocks: int
    threads: int
    arguments: tuple[KernelPointer, ...]
    sizes: tuple[int, ...]
    product: Product | None = None  # with numbers for all sizes
    tf32: bool = False  # whether a library may round factors of float32 to 10 bits


class Device(Protocol):
    """A GPU, or what stands for one."""

    architecture: str
    threads: int  # of a block
    blocks: int  # of a kernel, at most
    side: int  # of the square that the threads of a block are, where tiles are made by such

    def kernel(self, text: DeviceText) -> Any:
        """A kernel, ready to be launched."""

    def allocate(self, size: int, stream: int = 0) -> DeviceMemory:
        """Memory of any contents."""

    def copy_in(self, address: int, array: Any, stream: int = 0) -> None:
        """Bytes of a dense array of the host to the device."""

    def copy_out(self, array: Any, address: int, stream: int = 0) -> None:
        """Bytes of the device to a dense array of the host."""

    def copy_within(self, address: int, source: int, size: int, stream: int = 0) -> None:
        """Copies bytes of the device to another address of it."""

    def prepared(self, launches: Sequence[Launch], stream: int = 0) -> Callable[[], None]:
        """What runs these launches on a stream, as often as it is called."""

    def synchronize(self, stream: int = 0) -> None:
        """Wait until all that was asked for is done."""

    def dlpack_device(self) -> tuple[int, int]:
        """What DLPack calls the place of the memory."""
