"""Calls of the kernel of a routine on arrays."""

import ctypes

import numpy as np

from structir.ir import dims
from structir.loops.program.kernel_text import KernelText
from structir.targets.cpu.kernels import kernel_of
from structir.targets.cpu.point_kernels import PointKernel


def run_routine(routine, arrays, sizes=None):
    """Runs the kernel of a routine at all points, on arrays by buffer; returns its status."""
    sizes = sizes or {}
    built = PointKernel(routine)
    text = KernelText(built.source, routine.buffers, routine.sizes, routine.range, function=built)
    words = [dims.evaluate(size, sizes) for size in routine.sizes]
    table = np.array([*[arrays[b].ctypes.data for b in routine.buffers], *words], np.int64)
    slots = [ctypes.c_int64() for _ in range(2)]  # a result and an error, which nobody reads
    kinds = [*[ctypes.c_void_p] * 3, *[ctypes.c_int64] * 2]
    run = ctypes.CFUNCTYPE(ctypes.c_int32, *kinds)(kernel_of(text).address)
    count = dims.evaluate(routine.range, sizes)
    return run(*map(ctypes.addressof, slots), table.ctypes.data, 0, count)
