"""Functions over arrays as LLVM IR: the results of Python, and no memory that stays allocated."""

import ctypes
import math

import numpy as np
import pytest

import structir
from structir.ir.dims import Sym
from structir.loops.program.buffer import Buffer
from structir.loops.program.expression import axis_dim
from structir.loops.program.routine import BufferPoint, Routine
from structir.targets.cpu import kernels, libc, point_translation, routine_translation
from tests.ops.test_every_op import OPS, PROGRAMS
from tests.targets.cpu.routines import run_routine


def indices_from_the_end(x, y):
    for k in range(len(x)):
        y[k] = x[-1 - k] + x[k - x.shape[0]] * x[-1]


def parts(x, y):
    middle, tail, nothing = x[2:-1], x[-3:], x[4:2]
    y[0], y[1], y[2] = len(middle), len(tail), nothing.shape[0]
    y[3], y[4], y[5] = middle[0], tail[-1], x[1:][0]
    inner = tail[:2]
    inner[1] = 7
    y[6] = x[-2]
    for k in range(7, len(y)):
        y[k] = x[: k - 3][-1] if k < len(x) else x[k - 100 : k + 100].shape[0]


def exchanged_buffers(x, y):
    values, spare = np.empty(len(x), np.float64), np.empty(len(x), np.float64)
    for k in range(len(x)):
        values[k] = x[k]
    for step in range(3):
        for k in range(len(x)):
            spare[k] = values[k - 1] + step
        values, spare = spare, values
    for k in range(len(y)):
        y[k] = values[k]


def shorter(x, least):
    if len(x) < least:
        return x, 1
    copy = np.zeros(least, np.float32)
    copy[0] = x[0]
    return copy, 2


def one_of_several_arrays(x, y):
    for least in range(4, 9):
        row, kind = shorter(x[:6], least)
        y[least] = len(row) + 10 * kind
        y[least - 4] = row[0]


def several_axes(x, y):
    table = np.zeros((3, len(x)), np.int64)
    for row in range(3):
        for k in range(len(x)):
            table[row, k] = row * 10 + k
    table[1] = -1
    table[2, 1:3] = 5
    total = 0
    for index in np.ndindex(table.shape):
        total += table[index]
    y[0], y[1], y[2] = total, table.size, table.ndim
    y[3], y[4] = table[2][-1], table.ravel()[len(x) + 1]
    y[5] = np.asarray(x[3]).size
    y[6] = np.atleast_1d(np.asarray(x[3]))[0]


def extremes(x, y):
    y[0], y[1] = min(x[0], x[1]), max(x[0], x[1], 0.5)
    y[2], y[3] = min(len(x), 3, 5), max(2, len(y))
    y[4] = max(min(x[2], 1.0), -1.0)
    y[5], y[6] = math.floor(x[3] * 3), math.ceil(x[3] * 3)
    y[7] = math.copysign(2.0, x[4])
    y[8] = math.exp(x[5]) + math.log(abs(x[6]) + 1)


def bits(x, y):
    for k in range(len(x)):
        word = np.float32(x[k]).view(np.uint32)
        key = ~np.uint64(word) >> np.uint64(40)
        if isinstance(x[k], np.float32) and not isinstance(x[k], np.int8):
            y[k] = key & np.uint64(2**8 - 1)
        else:
            y[k] = -1


def conditions(x, y):
    count, seen = 0, False
    for value in x:
        if value > 0.5 and (seen or value < 0.9):
            continue
        seen = True
        count += value < 0
        if 0 <= count < x.shape[0] <= 5:
            break
    y[:] = count
    y[1] = 1 if seen else 0


FUNCTIONS = (
    *(indices_from_the_end, parts, exchanged_buffers, one_of_several_arrays, several_axes),
    *(extremes, bits, conditions),
)
SIZE = Sym("m")
x, y = (Buffer((axis_dim(SIZE),), "float32") for _ in range(2))


@pytest.fixture(autouse=True)
def translated(monkeypatch):
    """Functions of this file are translated like those of the package, and never by numba."""
    monkeypatch.setattr(point_translation, "is_of_package", lambda _: True)
    monkeypatch.setattr(kernels, "numba_code", None)


def routine_of(function):
    return Routine(function, (BufferPoint(x, (None,)), BufferPoint(y, (None,))), {}, frozenset({y}))


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_results_are_those_of_python(function):
    for seed in range(12):
        rng = np.random.default_rng(seed)
        values = rng.standard_normal(int(rng.integers(9, 20))).astype(np.float32)
        wanted = [values.copy(), np.full_like(values, 3)]
        given = {x: values.copy(), y: np.full_like(values, 3)}
        function(*wanted)
        assert run_routine(routine_of(function), given, {SIZE: len(values)}) == 0
        np.testing.assert_allclose(given[x], wanted[0], rtol=0)
        np.testing.assert_allclose(given[y], wanted[1], rtol=1e-6, atol=1e-6)


def rejecting(x, y):
    scratch = np.empty(len(x), np.float64)
    for k in range(len(x)):
        scratch[k] = x[k]
        if x[k] < 0:
            raise ValueError("x: expected positive numbers")
    for k in range(len(x)):
        y[k] = scratch[k]


@pytest.mark.parametrize(("first", "status"), [(1, 0), (-1, 1)])
def test_memory_is_freed(first, status, monkeypatch):
    """Also where the function raises an error."""
    allocated = []
    library = ctypes.CDLL(None)
    library.malloc.restype = library.malloc.argtypes = None
    library.malloc.argtypes, library.malloc.restype = [ctypes.c_size_t], ctypes.c_void_p
    library.free.argtypes, library.free.restype = [ctypes.c_void_p], None

    def allocate(size):
        allocated.append(library.malloc(size))
        return allocated[-1]

    def free(address):
        allocated.remove(address)
        library.free(address)

    functions = (
        ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_size_t)(allocate),
        ctypes.CFUNCTYPE(None, ctypes.c_void_p)(free),
    )
    for name, function in zip(("ALLOCATE", "FREE"), functions, strict=True):
        symbol = f"counted_{name}"
        address = ctypes.cast(function, ctypes.c_void_p).value
        libc.llvm.add_symbol(symbol, address)
        monkeypatch.setattr(routine_translation, name, symbol)
    monkeypatch.setenv("STRUCTIR_CACHE", "off")
    given = {x: np.full(5, first, np.float32), y: np.zeros(5, np.float32)}
    assert run_routine(routine_of(rejecting), given, {SIZE: 5}) == status
    assert not allocated


@pytest.mark.parametrize(
    "name", sorted(name for name, op in OPS.items() if "kernel.cpu" in op.definition.hooks)
)
def test_no_kernel_of_an_op_needs_numba(name):
    for case in PROGRAMS[name][:1]:
        structir.compile(structir.parse(case["script"]))
