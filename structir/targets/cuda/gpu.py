"""A GPU through the CUDA driver: pooled memory, kernel launches without numba, and CUDA graphs for
repeated launches."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import attrs

from structir.errors import StructIRError
from structir.system.locks import new_rlock
from structir.targets.cuda.compiler import GpuCode, card_code
from structir.targets.cuda.cublas import Library
from structir.targets.cuda.device import DeviceMemory, Launch
from structir.targets.cuda.device_text import SIDE, THREADS, DeviceText

BLOCKS_EACH = 32  # blocks of a kernel per multiprocessor, at most
SMALLEST = 512  # smallest allocation, in bytes
GPU_MEMORY = 2  # its device type in DLPack
LAUNCHES_BEFORE = 1  # launches of the same kernels on the same arrays before they become a graph


def checked(what: str, answer: Sequence[Any]) -> Any:
    """Returns the result of a driver call, or raises its error."""
    error, *values = answer
    if int(error) != 0:
        raise StructIRError(f"CUDA: {what} failed: {getattr(error, 'name', error)}")
    return values[0] if len(values) == 1 else tuple(values)


@attrs.define(eq=False)
class GpuKernel:
    """A kernel of a GPU, loaded when it is first launched."""

    code: GpuCode
    function: Any = None

    @property
    def text(self) -> str:
        """Its source."""
        return self.code.text


class Owner:
    """Owns memory, which returns to the pool when no reference is left."""

    __slots__ = ("address", "free")

    def __init__(self, address: int, free: list[int]) -> None:
        self.address, self.free = address, free

    def __del__(self) -> None:
        self.free.append(self.address)


class Gpu:
    """A GPU of this machine. `driver` is the Python binding of the CUDA driver, `binding` that of
    cuBLAS, if installed."""

    threads, side = THREADS, SIDE

    def __init__(self, driver: Any, binding: Any = None, number: int = 0) -> None:
        self.driver, self.binding, self.number = driver, binding, number
        checked("initialisation", driver.cuInit(0))
        if checked("counting the GPUs", driver.cuDeviceGetCount()) <= number:
            raise StructIRError(f"CUDA: there is no GPU number {number}")
        self._device = checked("opening the GPU", driver.cuDeviceGet(number))
        self._context = checked("its context", driver.cuDevicePrimaryCtxRetain(self._device))
        facts = driver.CUdevice_attribute
        major = self._fact(facts.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)
        minor = self._fact(facts.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)
        self.architecture = f"sm_{major}{minor}"
        self.blocks = BLOCKS_EACH * self._fact(facts.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)
        self._kernels: dict[str, GpuKernel] = {}
        self._free: dict[tuple[int, int], list[int]] = {}  # by stream and size
        self._lock = new_rlock()
        self._capturing: Any = None
        self._library: Library | None = None

    def _fact(self, which: Any) -> int:
        return int(
            checked(
                "reading an attribute of the GPU",
                self.driver.cuDeviceGetAttribute(which, self._device),
            )
        )

    def enter(self) -> None:
        """Makes the GPU's context current in this Python thread."""
        checked("setting the context", self.driver.cuCtxSetCurrent(self._context))

    # kernels

    def kernel(self, text: DeviceText) -> GpuKernel:
        """Returns a kernel, ready to be launched."""
        with self._lock:
            if text.known_as not in self._kernels:
                self._kernels[text.known_as] = GpuKernel(card_code(text, self.architecture))
            return self._kernels[text.known_as]

    def _loaded(self, kernel: GpuKernel) -> Any:
        if kernel.function is None:
            module = checked("loading a kernel", self.driver.cuModuleLoadData(kernel.code.cubin))
            answer = self.driver.cuModuleGetFunction(module, kernel.code.entry.encode())
            kernel.function = checked("finding a kernel", answer)
        return kernel.function

    # memory

    def allocate(self, size: int, stream: int = 0) -> DeviceMemory:
        """Returns uninitialized memory, from this stream's pool if a block fits."""
        key = (stream, _rounded(size))
        with self._lock:
            free = self._free.setdefault(key, [])
            address = free.pop() if free else self._fresh(key[1])
        return DeviceMemory(address, size, Owner(address, free))

    def _fresh(self, size: int) -> int:
        self.enter()
        error, address = self.driver.cuMemAlloc(size)
        if int(error) != 0:
            self.free_unused()
            error, address = self.driver.cuMemAlloc(size)
        return int(checked(f"taking {size} bytes", (error, address)))

    def free_unused(self) -> None:
        """Returns unused memory to the driver."""
        self.synchronize()
        for free in list(self._free.values()):
            while free:
                checked("freeing memory", self.driver.cuMemFree(free.pop()))

    def copy_in(self, address: int, array: Any, stream: int = 0) -> None:
        """Copies a dense array of the host to the GPU."""
        if array.nbytes:
            self.enter()
            answer = self.driver.cuMemcpyHtoDAsync(address, array.ctypes.data, array.nbytes, stream)
            checked("copying to the GPU", answer)

    def copy_out(self, array: Any, address: int, stream: int = 0) -> None:
        """Copies GPU memory to a dense array of the host."""
        if array.nbytes:
            self.enter()
            answer = self.driver.cuMemcpyDtoHAsync(array.ctypes.data, address, array.nbytes, stream)
            checked("copying from the GPU", answer)

    def copy_within(self, address: int, source: int, size: int, stream: int = 0) -> None:
        """Copies GPU memory to another address of the GPU."""
        if size:
            self.enter()
            answer = self.driver.cuMemcpyDtoDAsync(address, source, size, stream)
            checked("copying on the GPU", answer)

    def synchronize(self, stream: int = 0) -> None:
        """Waits until all work of a stream is done; raises errors that occurred meanwhile."""
        self.enter()
        checked("a kernel before this", self.driver.cuStreamSynchronize(stream))

    def dlpack_device(self) -> tuple[int, int]:
        """The device type and number for DLPack."""
        return (GPU_MEMORY, self.number)

    # launches

    def prepared(self, launches: Sequence[Launch], stream: int = 0) -> Callable[[], None]:
        """Returns a function that runs these launches on a stream."""
        self.enter()
        launchers = [self._product(launch, stream) or self._launcher(launch) for launch in launches]
        return PreparedLaunches(self, launchers, stream).run

    def _product(self, launch: Launch, stream: int) -> Callable[[int], None] | None:
        """Returns a matrix product by cuBLAS, if cuBLAS supports it."""
        if launch.product is None or self.binding is None:
            return None
        with self._lock:
            if self._library is None:
                self._library = Library(self.binding, self.allocate)
        addresses = [argument.address for argument in launch.arguments]
        launcher: Callable[[int], None] | None = self._library.launcher(
            launch.product, addresses, launch.tf32, stream
        )
        return launcher

    def _launcher(self, launch: Launch) -> Callable[[int], None]:
        function = self._loaded(launch.kernel)
        words = [*[a.address for a in launch.arguments], *launch.sizes]
        values = (ctypes.c_int64 * max(len(words), 1))(*words)
        first, step = ctypes.addressof(values), ctypes.sizeof(ctypes.c_int64)
        places = (ctypes.c_void_p * max(len(words), 1))(
            *[first + step * k for k in range(len(words))]
        )
        return partial(self._launch, function, launch, (values, places))

    def _launch(self, function: Any, launch: Launch, held: Any, stream: int) -> None:
        places = ctypes.addressof(held[1])
        shape = (launch.blocks, 1, 1, launch.threads, 1, 1)
        checked("a launch", self.driver.cuLaunchKernel(function, *shape, 0, stream, places, 0))

    def captured(self, launch: Callable[[int], None]) -> Any:
        """Captures launches as a CUDA graph."""
        with self._lock:
            driver = self.driver
            if self._capturing is None:
                kind = driver.CUstream_flags.CU_STREAM_NON_BLOCKING
                self._capturing = checked("making a stream", driver.cuStreamCreate(kind))
            stream = self._capturing
            mode = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
            checked("capturing", driver.cuStreamBeginCapture(stream, mode))
            try:
                launch(stream)
            finally:
                graph = checked("capturing", driver.cuStreamEndCapture(stream))
            answer = driver.cuGraphInstantiate(graph, 0)
            checked("giving back what was captured", driver.cuGraphDestroy(graph))
            return checked("making a graph", answer)

    def replay(self, graph: Any, stream: int) -> None:
        """Launches a graph."""
        checked("launching a graph", self.driver.cuGraphLaunch(graph, stream))


class PreparedLaunches:
    """Launches with their arguments; a graph from the second run on."""

    def __init__(self, gpu: Gpu, launchers: Sequence[Callable[[int], None]], stream: int) -> None:
        self.gpu, self.launchers, self.stream = gpu, launchers, stream
        self.graph: Any = None
        self.runs = 0

    def run(self) -> None:
        """Launches everything on the stream."""
        self.gpu.enter()
        if self.graph is None and len(self.launchers) > 1 and self.runs >= LAUNCHES_BEFORE:
            self.graph = self.gpu.captured(self._each)
            # memory of running work is released after the work
            weakref.finalize(self, self.gpu.driver.cuGraphExecDestroy, self.graph).atexit = False
        self.runs += 1
        if self.graph is None:
            self._each(self.stream)
        else:
            self.gpu.replay(self.graph, self.stream)

    def _each(self, stream: Any) -> None:
        for launcher in self.launchers:
            launcher(stream)


def _rounded(size: int) -> int:
    """Rounds sizes up by at most an eighth, so that memory can be reused."""
    step = max(1 << max(size.bit_length() - 4, 0), SMALLEST)
    return -(-max(size, 1) // step) * step
