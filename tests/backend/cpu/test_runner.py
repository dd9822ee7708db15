"""The runner and the addresses: kernels in order, statuses, and what an address function
refuses."""

import numpy as np
import pytest

from structir.backend.cpu.kernels import kernel, kernel_count
from structir.backend.cpu.runner import address_of, run_program

DOUBLE = """def kernel(a, lo, hi):
    p0 = float32_pointer(a[0])
    p1 = float32_pointer(a[1])
    for i in range(lo, hi):
        p1[i] = p0[i] * float32(2.0)
"""


def test_equal_texts_are_one_kernel():
    first, before = kernel(DOUBLE), kernel_count()
    assert kernel(DOUBLE) is first
    assert kernel_count() == before


def test_kernels_run_in_order_over_their_ranges():
    code = kernel(DOUBLE).address
    x, y, z = (np.full(6, v, np.float32) for v in (1, 0, 0))
    arguments = np.zeros(4, np.int64)
    block = arguments.ctypes.data
    arguments[1] = arguments[2] = y.ctypes.data
    program = np.array([code, block, 0, 6, code, block + 16, 2, 5], np.int64)
    patches = np.array([0, 0, 3, 1], np.int64)
    addresses = np.array([x.ctypes.data, z.ctypes.data], np.int64)
    assert run_program(program, arguments, patches, addresses) == 0
    np.testing.assert_array_equal(y, np.full(6, 2))
    np.testing.assert_array_equal(z, [0, 0, 4, 4, 4, 0])


def test_addresses_check_what_they_are_given():
    address = address_of("float32", 2)
    x = np.zeros((3, 4), np.float32)
    assert address(x) == x.ctypes.data
    x.flags.writeable = False
    assert address(x) == x.ctypes.data
    for wrong in (x[:, ::2], x.T, x.astype(np.float64), x[0]):
        with pytest.raises(TypeError):
            address(wrong)
