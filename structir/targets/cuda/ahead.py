"""A device that only compiles: builds kernels for an architecture without a GPU; nothing can
run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from structir.errors import StructIRError
from structir.targets.cuda.compiler import GpuCode, capability_of, card_code
from structir.targets.cuda.device import DeviceMemory, Launch
from structir.targets.cuda.device_text import SIDE, THREADS, DeviceText


class AheadDevice:
    """An architecture to compile for."""

    threads = THREADS
    blocks, side = 1, SIDE

    def __init__(self, architecture: str) -> None:
        capability_of(architecture)
        self.architecture = architecture

    def kernel(self, text: DeviceText) -> GpuCode:
        """Returns the machine code of a kernel."""
        return card_code(text, self.architecture)

    def _absent(self) -> StructIRError:
        return StructIRError(
            f"compiled for {self.architecture}, but this machine has no such GPU: save the"
            " executable, and structir.load it on a machine that has one"
        )

    def allocate(self, size: int, stream: int = 0) -> DeviceMemory:
        """Raises an error: there is no memory."""
        raise self._absent()

    def copy_in(self, address: int, array: Any, stream: int = 0) -> None:
        """Raises an error: there is no memory."""
        raise self._absent()

    def copy_out(self, array: Any, address: int, stream: int = 0) -> None:
        """Raises an error: there is no memory."""
        raise self._absent()

    def copy_within(self, address: int, source: int, size: int, stream: int = 0) -> None:
        """Raises an error: there is no memory."""
        raise self._absent()

    def prepared(self, launches: Sequence[Launch], stream: int = 0) -> Callable[[], None]:
        """Raises an error: nothing can run."""
        raise self._absent()

    def synchronize(self, stream: int = 0) -> None:
        """Does nothing: there is no stream to wait for."""

    def dlpack_device(self) -> tuple[int, int]:
        """Raises an error: there is no memory."""
        raise self._absent()
