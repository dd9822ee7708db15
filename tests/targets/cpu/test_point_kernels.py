"""Kernels that call a function of Python at each point, with any index of the rows that it gets."""

import ctypes

import numpy as np
import pytest

from structir.ir import dims
from structir.ir.dims import Sym
from structir.loops.program.buffer import Buffer
from structir.loops.program.expression import axis_dim
from structir.loops.program.routine import BufferPoint, Routine
from structir.targets.cpu.kernels import kernel
from structir.targets.cpu.point_kernels import PointKernel

SIZE, ROW, PLANE = Sym("n"), Sym("i"), Sym("j")
n, i, j = map(axis_dim, (SIZE, ROW, PLANE))
INDICES = {
    "half": dims.floordiv(i, 2),
    "remainder": dims.floormod(i, n),
    "least": dims.dim_min(i, n - 1),
    "greatest": dims.dim_max(i - n, 0),
    "choice": dims.select(dims.compare("<", i, n), n - 1 - i, 0),
    "comparison": dims.compare("<=", i, 2) + dims.compare("==", i, 3),
    "product": 2 * n - 1 - i,
}


def scale_row(x, y, factors, total):
    for k in range(len(x)):
        y[k] = x[k] * factors[0] + factors[1]
    total[0] = x.sum()


@pytest.mark.parametrize("index", INDICES.values(), ids=INDICES)
def test_views_of_points(index):
    x, y, total = [Buffer(shape, "float32") for shape in ((2 * n, 5), (2 * n, 3, 5), (2 * n, 3))]
    points = [BufferPoint(x, (index, None)), BufferPoint(y, (i, j, None)), (2.5, 3)]
    arguments = (*points, BufferPoint(total, (i, j)))
    routine = Routine(scale_row, arguments, {ROW: 2 * n, PLANE: 3}, frozenset({y, total}))
    built = PointKernel(routine)
    address = kernel(built.source, built).address
    data = {
        buffer: np.random.default_rng(0).random([dims.evaluate(d, {SIZE: 4}) for d in buffer.shape])
        for buffer in (x, y, total)
    }
    arrays = {buffer: array.astype(np.float32) for buffer, array in data.items()}
    sizes = [dims.evaluate(size, {SIZE: 4}) for size in routine.sizes]
    table = np.array([*[arrays[b].ctypes.data for b in routine.buffers], *sizes], np.int64)
    words = [ctypes.c_int64() for _ in range(2)]  # a result and an error, which nobody reads
    kinds = [*[ctypes.c_void_p] * 3, *[ctypes.c_int64] * 2]
    run = ctypes.CFUNCTYPE(ctypes.c_int32, *kinds)(address)
    assert run(*map(ctypes.addressof, words), table.ctypes.data, 0, 24) == 0
    rows = arrays[x][[dims.evaluate(index, {SIZE: 4, ROW: k}) for k in range(8)]]
    expected = np.repeat(rows * np.float32(2.5) + np.float32(3), 3, axis=0).reshape(8, 3, 5)
    np.testing.assert_allclose(arrays[y], expected, rtol=1e-6)
    np.testing.assert_allclose(arrays[total], np.repeat(rows.sum(1), 3).reshape(8, 3), rtol=1e-6)
