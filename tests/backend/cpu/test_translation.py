"""Texts brought into LLVM's form by ourselves: what numba's whole compiler makes of them, bit for
bit."""

import ctypes

import numpy as np
import pytest

from structir.backend.cpu import kernels
from structir.backend.cpu.operations import UntranslatedError
from structir.backend.cpu.products import has_own_products

HEAD = """def kernel(a, lo, hi):
    x = float32_pointer(a[0])
    y = float32_pointer(a[1])
    k = int32_pointer(a[2])
    n = a[3]
"""
BODIES = {
    "loops that are left and gone on with": """
    for i in range(lo, hi):
        total = float32(0.0)
        for j in range(0, n, 2):
            if x[j] < float32(-1.0) or k[j] > 5:
                continue
            if j > 20 and x[j] > float32(1.0):
                break
            total = add_to(total, x[j] * x[i])
        y[i] = total
""",
    "a loop downwards, and one that tests first": """
    for i in range(hi - 1, lo - 1, -1):
        rest = i * 7 + 3
        while rest > 4:
            rest = rest // 2
        y[i] = x[i] if rest % 3 != 0 else -x[n - 1 - i]
""",
    "a range that is empty, and names that outlive their block": """
    last = 0
    for i in range(5, 2):
        last = i
    for i in range(lo, hi):
        if x[i] > float32(0.0):
            last = last + i
        else:
            last += 2
        y[i] = float32(last)
""",
    "integers of several widths": """
    for i in range(lo, hi):
        v = int32(k[i] * k[n - 1 - i])
        w = int64(v & 255) ^ (~i) << 2
        u = uint8(w >> 1)
        y[i] = float32(whole_remainder(w, k[i])) + float32(u) / float32(3) + float32(v | 1)
""",
    "math functions, comparisons and conditions": """
    for i in range(lo, hi):
        v = exp_float32(x[i]) if not (x[i] < float32(0.0)) else tanh_float32(abs(x[i]))
        low = min(max(i - 3, 0), n)
        m = maximum(v, x[low])
        y[i] = m if (abs(m) < inf) & (x[i] == x[i]) and True else float32(-1)
""",
    "sums in addresses": """
    first = lo + 1
    for i in range(lo, hi - 2):
        y[first + i] = x[lo * n + i + 2] * half_value(half_bits(x[lo + i]))
""",
}


def run(code, seed=5, n=37):
    rng = np.random.default_rng(seed)
    x, y = rng.standard_normal(n, np.float32), np.zeros(n, np.float32)
    k = rng.integers(-9, 9, n, np.int32)
    table = np.array([x.ctypes.data, y.ctypes.data, k.ctypes.data, n], np.int64)
    words = [ctypes.c_int64() for _ in range(2)]  # a result and an error, which nobody reads
    function = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * 3, *[ctypes.c_int64] * 2)(code)
    assert function(*map(ctypes.addressof, words), table.ctypes.data, 0, n) == 0
    return y


def address(library, symbol):
    return library.get_pointer_to_function(symbol)


def names():
    return {**kernels.NAMES, **kernels.helpers(), **kernels.routine_helpers()}


@pytest.mark.parametrize("head", ["", kernels.EXACT], ids=["contracted", "exact"])
@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_same_as_numba(head, body):
    has_own_products("float32")
    text = head + HEAD + body
    own = kernels.translated_library(text, "kernel_own", names())
    whole, symbol = kernels.numba_library(text, "kernel_numba", names(), False)
    found, expected = run(address(own, "kernel_own")), run(address(whole, symbol))
    assert found.tobytes() == expected.tobytes()
    assert np.count_nonzero(found) > 20


@pytest.mark.parametrize(
    "body",
    [
        "    v = 1\n    for i in range(lo, hi):\n        v = x[i]\n        y[i] = v\n",
        "    for i in range(lo, hi):\n        t = x[i]\n    y[0] = t\n",
        "    for v in (lo, hi):\n        y[v] = x[v]\n",
        "    y[lo:hi] = x[lo:hi]\n",
        "    y[0] = unheard_of(x[0])\n",
    ],
)
def test_what_is_not_understood_is_left_to_numba(body):
    with pytest.raises(UntranslatedError):
        kernels.translated_library(HEAD + body, "kernel_left", names())


def test_numba_takes_what_is_left_to_it():
    body = "    for i in range(lo, hi):\n        t = x[i]\n    y[3] = t\n"
    made = kernels.kernel(HEAD + body)
    found = run(made.address)
    assert np.flatnonzero(found).tolist() == [3]
