"""Stand-ins for what only a card has: its driver and cuBLAS, over memory of the host."""

import ctypes
from enum import IntEnum
from types import SimpleNamespace

import numpy as np

DTYPES = {0: np.float32, 1: np.float64, 2: np.float16}


class Cublas:
    """The functions of nvmath's binding that products need, by NumPy."""

    class ComputeType(IntEnum):
        COMPUTE_32F = 68
        COMPUTE_64F = 70
        COMPUTE_32F_FAST_TF32 = 77

    GemmAlgo = SimpleNamespace(DEFAULT=-1)

    def __init__(self):
        self.calls = []

    def create(self):
        return 7

    def set_stream(self, handle, stream):
        self.stream = stream

    def set_workspace(self, handle, address, size):
        assert address and size

    def gemm_strided_batched_ex(
        self, handle, ta, tb, m, n, k, alpha, a, at, lda, sa, b, bt, ldb, sb, beta, c, ct, ldc, sc,
        count, compute, algo,
    ):  # fmt: skip
        dtype = DTYPES[at]
        assert at == bt == ct and lda >= (k if ta else m) and ldb >= (n if tb else k) and ldc >= m
        self.calls.append((m, n, k, count, compute))
        for g in range(count):
            left = matrix(a, sa * g, lda, (k, m) if ta else (m, k), dtype)
            right = matrix(b, sb * g, ldb, (n, k) if tb else (k, n), dtype)
            out = matrix(c, sc * g, ldc, (m, n), dtype)
            out[...] = (left.T if ta else left) @ (right.T if tb else right)


def matrix(address, start, step, shape, dtype):
    """A matrix by columns in memory of the host."""
    rows, columns = shape
    size = np.dtype(dtype).itemsize
    memory = (ctypes.c_char * ((step * columns + rows) * size)).from_address(address + start * size)
    return np.ndarray(shape, dtype, memory, strides=(size, step * size))


class Status(IntEnum):
    CUDA_SUCCESS = 0
    CUDA_ERROR_OUT_OF_MEMORY = 2
    CUDA_ERROR_ILLEGAL_ADDRESS = 700


class Driver:
    """The functions of CUDA's driver that cards need. Kernels are only noted, with the words that
    they are called with; while a stream is captured, they are part of a graph."""

    CUdevice_attribute = SimpleNamespace(
        CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR="major",
        CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR="minor",
        CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT="count",
    )
    CUstream_flags = SimpleNamespace(CU_STREAM_NON_BLOCKING=1)
    CUstreamCaptureMode = SimpleNamespace(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL=1)

    def __init__(self):
        self.memory, self.launched, self.replayed = {}, [], []
        self.graph, self.most = None, 1 << 30
        self.failing = False

    def cuInit(self, flags):
        return (Status.CUDA_SUCCESS,)

    def cuDeviceGetCount(self):
        return Status.CUDA_SUCCESS, 1

    def cuDeviceGet(self, number):
        return Status.CUDA_SUCCESS, number

    def cuDevicePrimaryCtxRetain(self, device):
        return Status.CUDA_SUCCESS, "context"

    def cuDeviceGetAttribute(self, which, device):
        return Status.CUDA_SUCCESS, {"major": 9, "minor": 0, "count": 132}[which]

    def cuCtxSetCurrent(self, context):
        return (Status.CUDA_SUCCESS,)

    def cuModuleLoadData(self, image):
        assert image[:4] == b"\x7fELF"
        return Status.CUDA_SUCCESS, image

    def cuModuleGetFunction(self, module, name):
        assert name in module
        return Status.CUDA_SUCCESS, name

    def cuMemAlloc(self, size):
        if sum(len(m) for m in self.memory.values()) + size > self.most:
            return Status.CUDA_ERROR_OUT_OF_MEMORY, 0
        held = np.zeros(size, np.uint8)
        self.memory[held.ctypes.data] = held
        return Status.CUDA_SUCCESS, held.ctypes.data

    def cuMemFree(self, address):
        del self.memory[address]
        return (Status.CUDA_SUCCESS,)

    def cuMemcpyHtoDAsync(self, to, source, size, stream):
        ctypes.memmove(to, source, size)
        return (Status.CUDA_SUCCESS,)

    cuMemcpyDtoHAsync = cuMemcpyHtoDAsync

    def cuStreamSynchronize(self, stream):
        failed = Status.CUDA_ERROR_ILLEGAL_ADDRESS if self.failing else Status.CUDA_SUCCESS
        return (failed,)

    def cuStreamCreate(self, flags):
        return Status.CUDA_SUCCESS, 99

    def cuStreamBeginCapture(self, stream, mode):
        self.graph = []
        return (Status.CUDA_SUCCESS,)

    def cuStreamEndCapture(self, stream):
        graph, self.graph = self.graph, None
        return Status.CUDA_SUCCESS, graph

    def cuGraphInstantiate(self, graph, flags):
        return Status.CUDA_SUCCESS, tuple(graph)

    def cuGraphLaunch(self, graph, stream):
        self.replayed.append((graph, stream))
        return (Status.CUDA_SUCCESS,)

    def cuLaunchKernel(self, function, gx, gy, gz, bx, by, bz, shared, stream, parameters, extra):
        count = WORDS[function]
        places = (ctypes.c_void_p * count).from_address(parameters)
        words = [ctypes.c_int64.from_address(place).value for place in places]
        call = (function, (gx, gy, gz), (bx, by, bz), tuple(words))
        (self.launched if self.graph is None else self.graph).append(call)
        return (Status.CUDA_SUCCESS,)


WORDS: dict[bytes, int] = {}  # how many parameters a kernel has, by its entry
