"""Stand-ins for what only a GPU has: its driver and cuBLAS, over memory of the host."""

import ctypes
from enum import IntEnum
from types import SimpleNamespace

import ml_dtypes
import numpy as np

TYPES = {0: np.float32, 1: np.float64, 2: np.float16, 14: ml_dtypes.bfloat16}
ROOM = 1 << 10  # bytes that each product wants to work in


class Failure(Exception):
    def __init__(self, status):
        super().__init__("the library failed")
        self.status = status


class CublasLt:
    """The functions of nvmath's binding that products need, by NumPy: descriptions are looked at
    as they are by the library, by columns."""

    class MatmulDescAttribute(IntEnum):
        TRANSA = 3
        TRANSB = 4
        EPILOGUE = 7
        BIAS_POINTER = 8
        BIAS_BATCH_STRIDE = 10

    class MatrixLayoutAttribute(IntEnum):
        BATCH_COUNT = 5
        STRIDED_BATCH_OFFSET = 6

    class MatmulPreferenceAttribute(IntEnum):
        MAX_WORKSPACE_BYTES = 1
        REDUCTION_SCHEME_MASK = 3
        MIN_ALIGNMENT_A_BYTES = 5
        MIN_ALIGNMENT_B_BYTES = 6
        MIN_ALIGNMENT_C_BYTES = 7
        MIN_ALIGNMENT_D_BYTES = 8

    class Epilogue(IntEnum):
        DEFAULT = 1
        RELU = 2
        BIAS = 4
        RELU_BIAS = 6
        GELU = 32
        GELU_BIAS = 36

    class ReductionScheme(IntEnum):
        COMPUTE_TYPE = 2

    matmul_heuristic_result_dtype = np.dtype(
        [("algo", [("data_", "<u8", 8)]), ("workspace_size", "<u8"), ("state", "<i4"),
         ("waves_count", "<f4"), ("reserved", "<i4", 4)]
    )  # fmt: skip

    def __init__(self):
        self.calls, self.held, self.asked, self.failing = [], {}, 0, {}

    def _fail(self, where):
        if where in self.failing:
            raise Failure(self.failing[where])

    def create(self):
        self._fail("create")
        return 7

    # descriptions

    def _made(self, **facts):
        self.held[1000 + self.asked] = facts
        self.asked += 1
        return 999 + self.asked

    def matmul_desc_create(self, compute, scale):
        assert (scale == 1) is (compute == 70) and scale in (0, 1)
        return self._made(compute=compute)

    def matrix_layout_create(self, type, rows, cols, ld):
        assert ld >= rows > 0 and cols > 0
        return self._made(dtype=TYPES[type], shape=(rows, cols), step=ld)

    def matmul_preference_create(self):
        return self._made()

    def matmul_desc_destroy(self, made):
        del self.held[made]

    matrix_layout_destroy = matmul_preference_destroy = matmul_desc_destroy

    def get_matmul_desc_attribute_dtype(self, name):
        kinds = {"TRANSA": "i4", "TRANSB": "i4", "EPILOGUE": "u4"}
        return np.dtype(kinds.get(name.name, "i8")).type

    def get_matrix_layout_attribute_dtype(self, name):
        return np.int32 if name.name == "BATCH_COUNT" else np.int64

    def get_matmul_preference_attribute_dtype(self, name):
        return np.uint64 if name.name == "MAX_WORKSPACE_BYTES" else np.uint32

    def _set(self, kind, made, name, address, size):
        assert size == np.dtype(kind).itemsize
        memory = (ctypes.c_char * size).from_address(address)
        self.held[made][name.name] = int(np.frombuffer(memory, kind)[0])

    def matmul_desc_set_attribute(self, made, name, address, size):
        self._set(self.get_matmul_desc_attribute_dtype(name), made, name, address, size)

    def matrix_layout_set_attribute(self, made, name, address, size):
        self._set(self.get_matrix_layout_attribute_dtype(name), made, name, address, size)

    def matmul_preference_set_attribute(self, made, name, address, size):
        self._set(self.get_matmul_preference_attribute_dtype(name), made, name, address, size)

    # products

    def matmul_algo_get_heuristic(self, handle, desc, a, b, c, d, preference, most, found, count):
        self._fail("heuristic")
        assert handle == 7 and most == 1
        assert self.held[preference]["MAX_WORKSPACE_BYTES"] >= ROOM
        kind = self.matmul_heuristic_result_dtype
        ways = np.frombuffer((ctypes.c_char * kind.itemsize).from_address(found), kind)
        names = [f"MIN_ALIGNMENT_{side}_BYTES" for side in "ABD"]
        ways["algo"]["data_"][0][:3] = [self.held[preference][name] for name in names]
        ways["workspace_size"] = ROOM
        ctypes.c_int32.from_address(count).value = 1

    def matmul(
        self, handle, desc, alpha, a, a_layout, b, b_layout, beta, c, c_layout, d, d_layout, way,
        room, size, stream,
    ):  # fmt: skip
        self._fail("matmul")
        desc, left, right, out = (self.held[x] for x in (desc, a_layout, b_layout, d_layout))
        assert c == d and c_layout == d_layout and room and size == ROOM
        number = ctypes.c_double if desc["compute"] == 70 else ctypes.c_float
        assert (number.from_address(alpha).value, number.from_address(beta).value) == (1, 0)
        for aligned, address in zip(
            (ctypes.c_uint64 * 3).from_address(way), (a, b, d), strict=True
        ):
            assert address % aligned == 0
        epilogue = self.Epilogue(desc["EPILOGUE"]).name
        self.calls.append((desc["compute"], epilogue, stream))
        bias = desc.get("BIAS_POINTER")
        for g in range(out.get("BATCH_COUNT", 1)):
            x, y, z = (matrix(at, side, g) for at, side in ((a, left), (b, right), (d, out)))
            x, y = x.T if desc["TRANSA"] else x, y.T if desc["TRANSB"] else y
            assert "BATCH_COUNT" not in out or left["BATCH_COUNT"] == right["BATCH_COUNT"]
            found = x.astype("f8") @ y.astype("f8")
            if "BIAS" in epilogue:
                along = {"shape": (len(z), 1), "step": 1, "dtype": z.dtype}
                along["STRIDED_BATCH_OFFSET"] = desc.get("BIAS_BATCH_STRIDE", 0)
                along["step"] = len(z)
                found += matrix(bias, along, g)
            z[...] = applied(epilogue, found)


def applied(epilogue, x):
    if "GELU" in epilogue:
        return x * 0.5 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
    return np.maximum(x, 0) if "RELU" in epilogue else x


def matrix(address, layout, number):
    """A matrix by columns in memory of the host, of those that lie one after another."""
    (rows, columns), step, dtype = layout["shape"], layout["step"], np.dtype(layout["dtype"])
    start = address + number * layout.get("STRIDED_BATCH_OFFSET", 0) * dtype.itemsize
    memory = (ctypes.c_char * ((step * (columns - 1) + rows) * dtype.itemsize)).from_address(start)
    return np.ndarray(
        (rows, columns), dtype, memory, strides=(dtype.itemsize, step * dtype.itemsize)
    )


class Status(IntEnum):
    CUDA_SUCCESS = 0
    CUDA_ERROR_OUT_OF_MEMORY = 2
    CUDA_ERROR_ILLEGAL_ADDRESS = 700


class Driver:
    """The functions of CUDA's driver that GPUs need. Kernels are only noted, with the words that
    they are called with; while a stream is captured, they are part of a graph."""

    CUdevice_attribute = SimpleNamespace(
        CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR="major",
        CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR="minor",
        CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT="count",
    )
    CUstream_flags = SimpleNamespace(CU_STREAM_NON_BLOCKING=1)
    CUstreamCaptureMode = SimpleNamespace(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL=1)

    def __init__(self):
        self.memory, self.launched, self.replayed, self.graphs = {}, [], [], []
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

    cuMemcpyDtoHAsync = cuMemcpyDtoDAsync = cuMemcpyHtoDAsync

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
        self.graphs.append(tuple(graph))
        return Status.CUDA_SUCCESS, self.graphs[-1]

    def cuGraphDestroy(self, graph):
        graph.clear()
        return (Status.CUDA_SUCCESS,)

    def cuGraphExecDestroy(self, graph):
        self.graphs.remove(graph)
        return (Status.CUDA_SUCCESS,)

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
