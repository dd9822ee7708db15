"""Texts brought into LLVM's form by ourselves: what numba's whole compiler makes of them, bit for
bit."""

import ctypes
import functools
from enum import IntEnum

import numpy as np
import pytest
from numba import cfunc, types
from numba.extending import intrinsic

from structir.targets.cpu import runner
from structir.targets.cpu.inlined import inlinable
from structir.targets.cpu.operations import UntranslatedError
from structir.targets.cpu.translated import translate_c_function
from structir.targets.cuda.names import kernel_names
from tests.runtime.python_functions import POINTER, WORD, function_of

SIGNATURE = types.void(POINTER(WORD), WORD, WORD)

HEAD = """def kernel(a, lo, hi):
    x = float32_pointer(a[0])
    y = float32_pointer(a[1])
    k = int32_pointer(a[2])
    n = a[3]
"""
BODIES = {
    "what is between two others": """
    for i in range(lo, hi):
        y[i] = x[i] if lo + 2 < i <= hi - 3 else float32(1.0)
""",
    "a step that is known when it runs": """
    step = int64(k[0]) * 0 + (-3 if n > 1000 else 3)
    for i in range(lo, hi, step):
        y[i] = x[i]
    for i in range(hi - 1, lo, 0 - step + 1):
        y[i] = y[i] + float32(2.0) * x[i]
""",
    "functions that are taken in, and one that is not": """
    for i in range(lo, hi):
        v = sigmoid_float32(x[i]) + exp_float32(x[i]) * log_float32(abs(x[i]))
        w = float32(sign_of(x[i])) + float32(odd_single(float64(x[i]) / 3.0))
        y[i] = v * w + sin_float32(x[i]) + float32(whole_power(k[i], int32(3)))
""",
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
    "fields by name": """
    for i in range(lo, hi):
        pair = (x[i], k[i])
        v, count = pair
        one, two = v, float32(count)
        y[i] = one * two
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
        y[i] = float32(mod_int64(w, int64(k[i]))) + float32(u) / float32(3) + float32(v | 1)
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
    ctypes.CFUNCTYPE(None, ctypes.c_void_p, *[ctypes.c_int64] * 2)(code)(table.ctypes.data, 0, n)
    return y


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_same_as_numba(body):
    function = function_of(HEAD + body, kernel_names())
    own = translate_c_function(function, "kernel_own", SIGNATURE)
    whole = cfunc(SIGNATURE, error_model="numpy", _nrt=False)(function)
    found, expected = run(own.get_pointer_to_function("kernel_own")), run(whole.address)
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
def test_what_is_not_understood_is_an_error(body):
    with pytest.raises(UntranslatedError):
        translate_c_function(function_of(HEAD + body, kernel_names()), "kernel_left", SIGNATURE)


def inner(x, n):
    """A function with ways out of a loop."""
    half, found = n // 2, 0
    for i in range(n):
        if x[i] < 0:
            return -x[i]
        if i > half:
            found += LIMITS.most
    while True:
        found -= 1
        if found % 7 == 3:
            return found


class LIMITS(IntEnum):
    most = 5


def outer(x, n, to):
    a, b = inner(x, n), len(LIMITS)
    fields = (a, b)
    to[0] = sum_of((*fields, inner(x, b)))
    return a


@intrinsic
def sum_of(typing_context, fields):
    def generate(context, builder, signature, args):
        parts = [builder.extract_value(args[0], k) for k in range(len(fields.types))]
        return functools.reduce(builder.add, parts)

    return types.int64(fields), generate


def test_functions_of_python_as_c_functions():
    pointer = types.CPointer(types.int64)
    signature = types.int64(pointer, types.int64, pointer)
    library = translate_c_function(outer, "structir_test_outer", signature)
    code = library.get_pointer_to_function("structir_test_outer")
    function = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p)(
        code
    )
    for values in ([3, 1, -8, 2], [1, 2, 3, 4, 5], [4] * 9, [-1, 7]):
        x, to = np.array(values, np.int64), np.zeros(1, np.int64)
        expected = inner(x, len(x))
        assert function(x.ctypes.data, len(x), to.ctypes.data) == expected
        assert to[0] == expected + 1 + inner(x, 1)


def test_functions_of_the_library_are_all_translated():
    for function in (runner.enter, runner.run_space):
        assert inlinable(function) is not None
    assert inlinable(lambda x: x) is None
    assert inlinable(max) is None
