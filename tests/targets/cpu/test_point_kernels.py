"""Kernels that call a function of Python at each point, with any index of the rows that it gets."""

import numpy as np
import pytest

from structir.ir import dims
from structir.ir.dims import Sym
from structir.loops.program.buffer import Buffer
from structir.loops.program.expression import axis_dim
from structir.loops.program.routine import BufferPoint, Routine
from structir.targets.cpu import point_translation
from tests.targets.cpu.routines import run_routine

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
    total[0] = 0
    for value in x:
        total[0] += value


@pytest.mark.parametrize("is_translated", [False, True], ids=["by numba", "translated"])
@pytest.mark.parametrize("index", INDICES.values(), ids=INDICES)
def test_views_of_points(index, is_translated, monkeypatch):
    monkeypatch.setattr(point_translation, "is_of_package", lambda _: is_translated)
    x, y, total = [Buffer(shape, "float32") for shape in ((2 * n, 5), (2 * n, 3, 5), (2 * n, 3))]
    points = [BufferPoint(x, (index, None)), BufferPoint(y, (i, j, None)), (2.5, 3)]
    arguments = (*points, BufferPoint(total, (i, j)))
    routine = Routine(scale_row, arguments, {ROW: 2 * n, PLANE: 3}, frozenset({y, total}))
    data = {
        buffer: np.random.default_rng(0).random([dims.evaluate(d, {SIZE: 4}) for d in buffer.shape])
        for buffer in (x, y, total)
    }
    arrays = {buffer: array.astype(np.float32) for buffer, array in data.items()}
    assert run_routine(routine, arrays, {SIZE: 4}) == 0
    rows = arrays[x][[dims.evaluate(index, {SIZE: 4, ROW: k}) for k in range(8)]]
    expected = np.repeat(rows * np.float32(2.5) + np.float32(3), 3, axis=0).reshape(8, 3, 5)
    np.testing.assert_allclose(arrays[y], expected, rtol=1e-6)
    np.testing.assert_allclose(arrays[total], np.repeat(rows.sum(1), 3).reshape(8, 3), rtol=1e-6)
