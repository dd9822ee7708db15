"""The runner: equal kernels once, kernels in order over their ranges."""

import numpy as np

from structir.runtime.plans.plan import run_space
from structir.targets.cpu.kernels import kernel, kernel_count
from structir.targets.cpu.layouts import ROW, SPACE
from tests.runtime.scaled_kernels import scaled

KEY, CODE = scaled(2.0)


def doubling():
    return kernel(KEY, lambda: CODE)


def test_equal_texts_are_one_kernel():
    first, before = doubling(), kernel_count()
    assert doubling() is first
    assert kernel_count() == before


def words(*values):
    return np.array(values, np.int64)


def row(**values):
    """A row of the runner: the words of these names, and zeros."""
    row = np.zeros(len(ROW), np.int64)
    for name, value in values.items():
        row[getattr(ROW, name)] = value
    return row


def test_kernels_run_in_order_over_their_ranges():
    code = doubling().address
    x, y, z = (np.full(6, v, np.float32) for v in (1, 0, 0))
    arguments = words(0, y.ctypes.data, y.ctypes.data, 0)
    block = arguments.ctypes.data
    rows = [row(code=code, table=block, high=6), row(code=code, table=block + 16, low=2, high=5)]
    program = np.concatenate(rows)
    patches, outside = words(0, 0, 3, 1), words(x.ctypes.data, z.ctypes.data)
    space = np.zeros(len(SPACE), np.int64)
    for place, value in {
        SPACE.rows: program.ctypes.data,
        SPACE.row_count: 2,
        SPACE.patches: patches.ctypes.data,
        SPACE.patch_count: 2,
        SPACE.arguments: block,
        SPACE.outside: outside.ctypes.data,
        SPACE.threads: 1,
    }.items():
        space[place] = value
    assert run_space()(space.ctypes.data) == 0
    np.testing.assert_array_equal(y, np.full(6, 2))
    np.testing.assert_array_equal(z, [0, 0, 4, 4, 4, 0])
