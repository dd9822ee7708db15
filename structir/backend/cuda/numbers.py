"""What the names in kernels' texts stand for on a GPU, as plain Python: taken into kernels for
cards, and run as it is by the simulator. The rest is what the CPU's kernels call, taken over."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from types import FunctionType
from typing import Any

import numpy as np

from structir.backend.cpu.routines import routine_helpers
from structir.backend.cpu.scalars import helpers
from structir.backend.loops.scalar_text import accumulation_text, number_text
from structir.ir.scalar_functions import with_double
from structir.projections.monoid import MONOIDS

Number = Any  # a number of one dtype, as compiled code sees it
Make = Callable[[Any], Any]  # of a plain function, what texts can call

# Single instructions, which compiled code and the simulator say in ways of their own.
bits_of_single: Any = None
single_of_bits: Any = None
exponential: Any = None

INTS = tuple([f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)])
DTYPES = (*INTS, "float32", "float64")
PUT_TOGETHER = ("sum", "prod", "max", "min", "any", "all")


def add_to(total: Number, value: Number) -> Number:
    """A sum with one term more."""
    return total + value


def multiply_to(total: Number, value: Number) -> Number:
    """A product with one factor more."""
    return total * value


def wrapping_add(x: Number, y: Number) -> Number:
    """The sum of two int64, wrapping around."""
    return np.int64(np.uint64(np.int64(x)) + np.uint64(np.int64(y)))


def wrapping_sub(x: Number, y: Number) -> Number:
    """The difference of two int64, wrapping around."""
    return np.int64(np.uint64(np.int64(x)) - np.uint64(np.int64(y)))


def wrapping_mul(x: Number, y: Number) -> Number:
    """The product of two int64, wrapping around."""
    return np.int64(np.uint64(np.int64(x)) * np.uint64(np.int64(y)))


def maximum(x: Number, y: Number) -> Number:
    """The greater one, or what is no number."""
    return x if x > y or x != x else y


def minimum(x: Number, y: Number) -> Number:
    """The smaller one, or what is no number."""
    return x if x < y or x != x else y


def greater(x: Number, y: Number) -> Number:
    """Returns the greater number, the second one of equal ones; NaN stays one."""
    return x if x > y or x != x else y


def lesser(x: Number, y: Number) -> Number:
    """Returns the smaller number, the second one of equal ones; NaN stays one."""
    return x if x < y or x != x else y


def sigmoid(x: Number) -> Number:
    """1 / (1 + exp(-x)), never by way of an overflow."""
    e, one = exponential(-abs(x)), type(x)(1)
    return (one if x >= 0 else e) / (one + e)


def brain_value(bits: Number) -> Number:
    """A stored bfloat16 as a float32."""
    return single_of_bits(np.int32(np.uint32(bits) << np.uint32(16)))


def brain_bits(value: Number) -> Number:
    """A float32 rounded to nearest even as a stored bfloat16; NaN stays one."""
    bits = np.int64(bits_of_single(value)) & 0xFFFFFFFF
    rounded = bits + 0x7FFF + ((bits >> 16) & 1)
    return np.uint16((0x7FC0 if value != value else rounded >> 16) & 0xFFFF)


def add_product(total: Number, left: Number, right: Number) -> Number:
    """A sum with the product of two factors more."""
    return type(total)(total + left * right)


def times(number: Number, size: Number) -> Number:
    """How many times a size fits into a number; neither is negative, and a size of none is one."""
    return number // max(size, 1)


def left_over(number: Number, size: Number) -> Number:
    """What of a number is left after that."""
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


DIVISIONS = {"floordiv": floor_divided, "quotient": divided, "mod": floor_remainder}


def inside(index: Number, size: Number, site: Number, report: Any) -> Number:
    """The index, or 0 where it is none of the axis: what it was then stands in the report."""
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
    """Names that every device has. `own` are the single instructions, by their names here."""
    names = {function.__name__: _over(function, own, make) for function in PLAIN}
    for dtype in ("float32", "float64"):
        names[f"sigmoid_{dtype}"] = _over(sigmoid, {"exponential": own[f"exp_{dtype}"]}, make)
    for name, function in _taken_over().items():
        names[name] = _over(function, own, make)
    names |= {dtype: getattr(np, dtype) for dtype in DTYPES}
    return names | {"inf": np.inf, "nan": np.nan, "np": np}


@cache
def _taken_over() -> dict[str, Any]:
    """The functions by which the CPU computes what is the same everywhere."""
    own = {n: f for n, f in helpers().items() if n.rpartition("_float")[0] not in with_double()}
    own |= {f"{name}_float32": own[f"{name}_float64"] for name in ("floor_quotient", "remainder")}
    functions = own | routine_helpers()
    taken = {name: function.py_func for name, function in functions.items()}
    return taken | {f"{name}_{dtype}": DIVISIONS[name] for dtype in INTS for name in DIVISIONS}


def _over(function: Any, own: Mapping[str, Any], make: Make) -> Any:
    """A function with other instructions behind the same names."""
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
    """The functions by which the threads of a block tell each other what they have."""
    made = dict(totals_of_blocks(warps))
    for dtype in DTYPES:
        for way, (instruction, other) in OTHERS.items():
            name = f"shuffle_{way}_{dtype}"
            text = HANDED if warps else HANDED_SHARED
            made[name] = text.format(name=name, held=dtype, instruction=instruction, other=other)
    return made


def totals_of_blocks(warps: bool) -> dict[str, str]:
    """The functions that put together what the threads of a block have found, by their names: by
    way of shared memory, or with `warps` first among the lanes of each."""
    made = {}
    for dtype in (*DTYPES, "bool"):
        truth = dtype == "bool"
        for monoid in PUT_TOGETHER if truth else PUT_TOGETHER[:4]:
            name = f"block_{monoid}_{dtype}"
            made[name] = (WARP if warps else SHARED).format(
                name=name,
                held="uint8" if truth else dtype,
                stored="uint8(value)" if truth else "value",
                read="lanes[k] != 0" if truth else "lanes[k]",
                combined=accumulation_text(monoid, dtype, "a", "b"),
                identity=number_text(MONOIDS[monoid].identity(dtype), dtype),
            )
    return made
