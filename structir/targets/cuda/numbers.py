"""The functions that GPU kernels call, as plain Python: compiled into kernels, and executed by the
simulator. The others are shared with the CPU."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from types import FunctionType
from typing import Any

import numpy as np

from structir.ir.scalar_functions import with_double
from structir.projections.monoid import MONOIDS
from structir.targets.cpu.scalars import helpers
from structir.targets.cuda.integer_functions import integer_functions
from structir.targets.cuda.scalar_text import accumulation_text, number_text

Number = Any  # a scalar, as compiled code sees it
Make = Callable[[Any], Any]  # converts a plain function to a callable of kernels

# Single instructions; compiled code and the simulator implement each in its own way.
bits_of_single: Any = None
single_of_bits: Any = None
exponential: Any = None

INTS = tuple([f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)])
DTYPES = (*INTS, "float32", "float64")
PUT_TOGETHER = ("sum", "prod", "max", "min", "any", "all")


def add_to(total: Number, value: Number) -> Number:
    """Adds a term to a sum."""
    return total + value


def multiply_to(total: Number, value: Number) -> Number:
    """Multiplies a product by a factor."""
    return total * value


def wrapping_add(x: Number, y: Number) -> Number:
    """Adds two int64, wrapping around."""
    return np.int64(np.uint64(np.int64(x)) + np.uint64(np.int64(y)))


def wrapping_sub(x: Number, y: Number) -> Number:
    """Subtracts two int64, wrapping around."""
    return np.int64(np.uint64(np.int64(x)) - np.uint64(np.int64(y)))


def wrapping_mul(x: Number, y: Number) -> Number:
    """Multiplies two int64, wrapping around."""
    return np.int64(np.uint64(np.int64(x)) * np.uint64(np.int64(y)))


def maximum(x: Number, y: Number) -> Number:
    """Returns the greater number; NaN if one is NaN."""
    return x if x > y or x != x else y


def minimum(x: Number, y: Number) -> Number:
    """Returns the smaller number; NaN if one is NaN."""
    return x if x < y or x != x else y


def greater(x: Number, y: Number) -> Number:
    """Returns the greater number, the second one of equal ones; NaN propagates."""
    return x if x > y or x != x else y


def lesser(x: Number, y: Number) -> Number:
    """Returns the smaller number, the second one of equal ones; NaN propagates."""
    return x if x < y or x != x else y


def sigmoid(x: Number) -> Number:
    """Returns 1 / (1 + exp(-x)), without overflow."""
    e, one = exponential(-abs(x)), type(x)(1)
    return (one if x >= 0 else e) / (one + e)


def brain_value(bits: Number) -> Number:
    """Converts a stored bfloat16 to float32."""
    return single_of_bits(np.int32(np.uint32(bits) << np.uint32(16)))


def brain_bits(value: Number) -> Number:
    """Rounds a float32 to a stored bfloat16, to nearest even; NaN stays NaN."""
    bits = np.int64(bits_of_single(value)) & 0xFFFFFFFF
    rounded = bits + 0x7FFF + ((bits >> 16) & 1)
    return np.uint16((0x7FC0 if value != value else rounded >> 16) & 0xFFFF)


def add_product(total: Number, left: Number, right: Number) -> Number:
    """Adds the product of two factors to a sum."""
    return type(total)(total + left * right)


def times(number: Number, size: Number) -> Number:
    """Returns the quotient of two numbers that are not negative; the divisor 0 counts as 1."""
    return number // max(size, 1)


def left_over(number: Number, size: Number) -> Number:
    """Returns the remainder of that division."""
    return number % max(size, 1)


def floor_divided(x: Number, y: Number) -> Number:
    """Floor division of integers; 0 where the divisor is 0, negation where it is -1."""
    kind = type(x)  # of the very dtype: a signed 0 would make a float of an unsigned quotient
    if y == 0:
        return kind(0)
    return kind(-x) if y == -1 else kind(x // y)


def divided(x: Number, y: Number) -> Number:
    """Division of integers, rounded toward zero; 0 where the divisor is 0."""
    kind = type(x)
    if y == 0:
        return kind(0)
    if y == -1:
        return kind(-x)
    low = x // y
    return kind(low + kind((x < 0) != (y < 0) and low * y != x))


def floor_remainder(x: Number, y: Number) -> Number:
    """The remainder of floor division of integers; 0 where the divisor is 0 or -1."""
    return x - x if y == 0 or y == -1 else x % y


def floor_quotient(x: Number, y: Number) -> Number:
    """Floor division of floats, by the implementation of numba."""
    return x // y


def remainder(x: Number, y: Number) -> Number:
    """The remainder of the floor division of floats, by the implementation of numba."""
    return x % y


FLOAT_DIVISIONS = {"floor_quotient": floor_quotient, "remainder": remainder}
DIVISIONS = {"floordiv": floor_divided, "quotient": divided, "mod": floor_remainder}


def inside(index: Number, size: Number, site: Number, report: Any) -> Number:
    """Returns the index, or 0 if it is out of range; then its value is stored in the report."""
    if index >= 0 and index < size:
        return index
    if report[0] == 0:
        report[0] = site
        report[1] = index
        report[2] = size
    return 0


PLAIN: tuple[Callable[..., Any], ...] = (
    *(add_to, multiply_to, greater, lesser, maximum, minimum, brain_value),
)
PLAIN += (wrapping_add, wrapping_sub, wrapping_mul)
PLAIN += (brain_bits, add_product, times, left_over, inside)


def shared_names(own: Mapping[str, Any], make: Make) -> dict[str, Any]:
    """Returns the names that every device has. `own` maps names to the single instructions."""
    names = {function.__name__: _over(function, own, make) for function in PLAIN}
    for dtype in ("float32", "float64"):
        names[f"sigmoid_{dtype}"] = _over(sigmoid, {"exponential": own[f"exp_{dtype}"]}, make)
    for name, function in _taken_over().items():
        names[name] = _over(function, own, make)
    names |= {dtype: getattr(np, dtype) for dtype in DTYPES}
    return names | {"inf": np.inf, "nan": np.nan, "np": np}


@cache
def _taken_over() -> dict[str, Any]:
    """Returns the functions that are the same on the CPU."""
    own = {n: f for n, f in helpers().items() if n.rpartition("_float")[0] not in with_double()}
    for dtype in ("float32", "float64"):
        own |= {f"{name}_{dtype}": divide for name, divide in FLOAT_DIVISIONS.items()}
    plain = {name: function.py_func for name, function in integer_functions().items()}
    divisions = {f"{name}_{dtype}": DIVISIONS[name] for dtype in INTS for name in DIVISIONS}
    return own | plain | divisions


def _over(function: Any, own: Mapping[str, Any], make: Make) -> Any:
    """Returns a function with other implementations of the names that it uses."""
    known = {**function.__globals__, **own, "__name__": __name__}
    moved = FunctionType(
        function.__code__, known, function.__name__, function.__defaults__, function.__closure__
    )
    return make(moved)


WARP = """
def {name}(value):
    lanes = cuda.shared.array(32, {held})
    thread = cuda.threadIdx.x
    step = 16
    while step > 0:
        a, b = value, cuda.shfl_xor_sync(0xFFFFFFFF, value, step)
        value = {combined}
        step >>= 1
    if cuda.blockDim.x > 32:
        cuda.syncthreads()
        if thread & 31 == 0:
            lanes[thread >> 5] = {stored}
        cuda.syncthreads()
        k = thread & 31
        value = {read} if k < (cuda.blockDim.x + 31) >> 5 else {identity}
        step = 16
        while step > 0:
            a, b = value, cuda.shfl_xor_sync(0xFFFFFFFF, value, step)
            value = {combined}
            step >>= 1
    return value
"""
HANDED = """
def {name}(value, lane):
    return cuda.{instruction}(0xFFFFFFFF, value, lane)
"""
HANDED_SHARED = """
def {name}(value, lane):
    lanes = cuda.shared.array(1024, {held})
    thread = cuda.threadIdx.x
    cuda.syncthreads()
    lanes[thread] = value
    cuda.syncthreads()
    own = thread & 31
    other = {other}
    return lanes[thread - own + other] if 0 <= other and other < 32 else value
"""
OTHERS = {
    "xor": ("shfl_xor_sync", "own ^ lane"),
    "up": ("shfl_up_sync", "own - lane"),
    "down": ("shfl_down_sync", "own + lane"),
    "from": ("shfl_sync", "lane"),
}
SHARED = """
def {name}(value):
    lanes = cuda.shared.array(1024, {held})
    cuda.syncthreads()
    lanes[cuda.threadIdx.x] = {stored}
    cuda.syncthreads()
    total = {identity}
    for k in range(cuda.blockDim.x):
        a, b = total, {read}
        total = {combined}
    return total
"""


@cache
def functions_of_blocks(warps: bool) -> dict[str, str]:
    """Returns the functions by which the threads of a block exchange values."""
    texts = dict(totals_of_blocks(warps))
    for dtype in DTYPES:
        for way, (instruction, other) in OTHERS.items():
            name = f"shuffle_{way}_{dtype}"
            text = HANDED if warps else HANDED_SHARED
            texts[name] = text.format(name=name, held=dtype, instruction=instruction, other=other)
    return texts


def totals_of_blocks(warps: bool) -> dict[str, str]:
    """Returns the reductions over the threads of a block, by name: through shared memory, or with
    `warps` first among the lanes of each warp."""
    texts = {}
    for dtype in (*DTYPES, "bool"):
        truth = dtype == "bool"
        for monoid in PUT_TOGETHER if truth else PUT_TOGETHER[:4]:
            name = f"block_{monoid}_{dtype}"
            texts[name] = (WARP if warps else SHARED).format(
                name=name,
                held="uint8" if truth else dtype,
                stored="uint8(value)" if truth else "value",
                read="lanes[k] != 0" if truth else "lanes[k]",
                combined=accumulation_text(monoid, dtype, "a", "b"),
                identity=number_text(MONOIDS[monoid].identity(dtype), dtype),
            )
    return texts
