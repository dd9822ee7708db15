"""Functions of Python as LLVM IR: results and dtypes are those of numba's whole compiler, bit for
bit."""

import ctypes
import functools
import itertools
import math
import operator
from enum import IntEnum
from types import CellType, FunctionType

import numpy as np
import pytest
from llvmlite import ir
from numba import cfunc, njit, types
from numba.core.registry import cpu_target
from numba.extending import intrinsic as intrinsic_of_numba

from structir.targets.cpu import runner
from structir.targets.cpu.inlined import parse_function
from structir.targets.cpu.intrinsics import POINTERS, half_bits, half_value, maximum
from structir.targets.cpu.kinds import INDEX, NOTHING, WORDS, Intrinsic, is_pointer, llvm_type
from structir.targets.cpu.operations import NUMBERS, Operations, Typed, UntranslatedError
from structir.targets.cpu.registries import read_all
from structir.targets.cpu.scalars import helpers
from structir.targets.cpu.translated import LibraryTranslation, Translation, translate
from tests.runtime.python_functions import compiled, function_of

POINTER = types.CPointer
SIGNATURE = types.void(POINTER(types.int64), types.int64, types.int64)
DTYPES = ("float32", "float64", "int32", "int64", "uint8")


def names():
    """The names in the functions of this file."""
    return {
        **helpers(),
        **{f"{dtype}_pointer": pointer for dtype, pointer in POINTERS.items()},
        **{dtype: getattr(np, dtype) for dtype in DTYPES},
        "maximum": maximum,
        "half_value": half_value,
        "half_bits": half_bits,
        "inf": np.inf,
    }


def type_of(kind):
    """numba's type of a kind."""
    if is_pointer(kind):
        return POINTER(type_of(kind.removesuffix("*")))
    return types.boolean if kind == "bool" else getattr(types, kind)


@functools.cache
def for_numba(value):
    """An intrinsic or a function, with all that it calls, as numba has it."""
    if isinstance(value, Intrinsic):
        return one_of_numba(value)
    cells = [CellType(known_to_numba(c.cell_contents)) for c in value.__closure__ or ()]
    copy = FunctionType(value.__code__, known(value), value.__name__, None, tuple(cells))
    return njit(error_model="numpy", fastmath={"contract"}, _nrt=False)(copy)


def known(function):
    """The global names of a function, as numba has them."""
    used = function.__globals__.keys() & {*function.__code__.co_names}
    return {name: known_to_numba(function.__globals__[name]) for name in used}


def known_to_numba(value):
    is_own = isinstance(value, FunctionType) and value.__module__.startswith("structir.targets")
    return for_numba(value) if is_own or isinstance(value, Intrinsic) else value


def one_of_numba(own):
    def typed(*given):
        result, kinds = own.signature(*[str(types.unliteral(kind)) for kind in given])

        def generate(context, builder, signature, args):
            return own.write(builder, args, kinds)

        return type_of(result)(*map(type_of, kinds)), generate

    def of_one(typing_context, x):
        return typed(x)

    def of_two(typing_context, x, y):
        return typed(x, y)

    def of_three(typing_context, x, y, z):
        return typed(x, y, z)

    count = len(own.signature("float32")[1])
    return intrinsic_of_numba((of_one, of_two, of_three)[count - 1])


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
            total = total + x[j] * x[i]
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
    function = function_of(HEAD + body, names())
    own = compiled(function, NOTHING, WORDS, INDEX, INDEX)
    of_numba = FunctionType(function.__code__, known(function))
    whole = cfunc(SIGNATURE, error_model="numpy", _nrt=False)(of_numba)
    found, expected = run(own.code.addresses[0]), run(whole.address)
    assert found.tobytes() == expected.tobytes()
    assert np.count_nonzero(found) > 20


@functools.cache
def typing_of_numba():
    read_all()
    cpu_target.typing_context.refresh()
    return cpu_target.typing_context


def kind_of(function, kinds):
    """The kind of a result; None if the function has no such operands."""
    module = ir.Module()
    shape = ir.FunctionType(ir.VoidType(), [llvm_type(kind) for kind in kinds])
    holder = ir.Function(module, shape, "holder")
    operations = Operations(ir.IRBuilder(holder.append_basic_block()))
    try:
        args = [Typed(*pair) for pair in zip(holder.args, kinds, strict=True)]
        return operations.applied(function, args).kind
    except UntranslatedError:
        return None


ARITHMETIC = ("add", "sub", "mul", "truediv", "floordiv", "mod", "and_", "or_", "xor", "lshift")
ARITHMETIC += ("rshift", "lt", "le", "gt", "ge", "eq", "ne")
BINARY = [getattr(operator, name) for name in ARITHMETIC]
UNARY = [operator.neg, operator.invert, operator.not_, abs, int, bool, np.float32, np.int16]
UNARY += [np.uint64, np.floor, np.rint, math.sqrt]


@pytest.mark.parametrize("function", [*BINARY, *UNARY], ids=lambda f: f.__name__)
def test_dtypes_are_those_of_numba(function):
    typing, count = typing_of_numba(), 2 if function in BINARY else 1
    for kinds in itertools.product(sorted(NUMBERS), repeat=count):
        own = kind_of(function, kinds)
        if own is None or {*kinds} == {"uint16", "float32"}:  # NumPy's is float32
            continue
        of_numba = typing.resolve_value_type(function)
        signature = typing.resolve_function_type(of_numba, tuple(map(type_of, kinds)), {})
        assert str(signature.return_type) == own, kinds


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
    function = function_of(HEAD + body, names())
    with pytest.raises(UntranslatedError):
        translate(function, "kernel_left", NOTHING, [WORDS, INDEX, INDEX])


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


def _sum(builder, args, kinds):
    return functools.reduce(builder.add, args[0])


sum_of = Intrinsic(lambda fields: (INDEX, (fields,)), _sum)


@pytest.mark.parametrize("translation", [Translation, LibraryTranslation])
def test_functions_of_python_as_c_functions(translation):
    function = compiled(outer, INDEX, WORDS, INDEX, WORDS, translation=translation)
    for values in ([3, 1, -8, 2], [1, 2, 3, 4, 5], [4] * 9, [-1, 7]):
        x, to = np.array(values, np.int64), np.zeros(1, np.int64)
        expected = inner(x, len(x))
        assert function(x.ctypes.data, len(x), to.ctypes.data) == expected
        assert to[0] == expected + 1 + inner(x, 1)


def test_functions_of_the_library_are_all_translated():
    for function in (runner.enter, runner.run_space):
        assert parse_function(function) is not None
    assert parse_function(lambda x: x) is None
    assert parse_function(max) is None
