"""Kernels and ops over extreme integers return the results of the interpreter, and touch no page
beside their arrays."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

import attrs
import numpy as np

from structir.errors import StructIRError
from structir.interpret.kernels import KernelValue, run_kernel
from structir.lazy import lazy_module
from structir.runtime.kernel_calls import KernelRunner
from structir.runtime.plans import plan
from structir.tools.comparison import Disagreement
from structir.tools.hostile.guarded_memory import guarded

structir = lazy_module("structir")

GREATEST = 2**63 - 1
EXTREME = (0, 1, 2, 5, -1, 2**61, 2**62, 2**62 + 2**60, GREATEST, -GREATEST, -GREATEST - 1)
ENDS = (*EXTREME, 7, GREATEST - 1, GREATEST - 4, 3 - GREATEST)
STEPS = (1, 2, 3, -1, -2, -3, 2**62, -(2**62), GREATEST, -GREATEST)
INTS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
X = np.arange(10, 18)
THREADS = 2
TEST_SEEDS = 12

Runs = list[tuple[Any, ...]]


@attrs.frozen
class GuardedProgram:
    """A program, its arguments, and whether errors have the same message compiled."""

    text: str
    runs: Runs
    dtype: str = "int64"
    messages: bool = True

    def __str__(self) -> str:
        return self.text


# Expressions of integers, some of which equal one of their operands unless they wrap.
FORMS: tuple[str, ...] = (
    "{} + {}",
    "{} - {}",
    "{} * {}",
    "{} // {}",
    "{} % {}",
    "{0} * 4 // 4 + {1}",
)
FORMS += ("({0} + {1}) - {1}", "({0} * 4 + {1} * 4) // 4 - {1}", "min({}, {})", "max({}, {})")
LEAVES = ("i", "i", "k", "u[i]", "n", "m", "2", str(2**62), str(GREATEST))


def integer(random: Random, leaves: tuple[str, ...] = LEAVES, depth: int = 2) -> str:
    """Returns the text of an integer expression."""
    if depth == 0 or random.random() < 0.25:
        return random.choice(leaves)
    operands = [integer(random, leaves, depth - 1) for _ in range(2)]
    return f"({random.choice(FORMS).format(*operands)})"


def runs_of(dtype: str) -> Runs:
    """Returns arguments with the greatest and least integers of a dtype, and some between."""
    info = np.iinfo(dtype)
    half = info.max // 2 + 1
    values = np.array([0, 1, 2, 3, info.max, info.min, half, half + half // 4], dtype)
    numbers = [0, 1, 3, 2**61, 2**62, GREATEST]
    return [(X, np.roll(values, shift)[:4].copy(), k) for shift, k in enumerate(numbers)]


def kernel(
    body: str, runs: Runs, u: str = "int64", dtype: str = "int64", messages: bool = True
) -> GuardedProgram:
    """Returns a kernel that fills `out` from `x`, an array `u` of a dtype, and a number `k`."""
    text = f"""
@I.kernel
def f(x: R.Tensor(("n",), "{dtype}"), u: R.Tensor(("m",), "{u}"),
      k_: R.Prim("int64", value="k"), out: R.Tensor((4,), "{dtype}")):
    {body}
"""
    return GuardedProgram(text, runs, dtype, messages)


def reads(random: Random) -> GuardedProgram:
    """Elements at computed indices."""
    index = random.choice(["{}", "({}) % n", "abs({}) % 3"]).format(integer(random))
    return kernel(f"for i in range(m):\n        out[i] = x[{index}]", runs_of("int64"))


def writes(random: Random) -> GuardedProgram:
    """Elements written at computed indices, which are assigned to a name."""
    index = random.choice(["{}", "({}) % m"]).format(integer(random))
    lines = f"at = {index}\n        out[at] = {integer(random)}"
    return kernel(f"for i in range(m):\n        {lines}", runs_of("int64"))


def narrow_dtypes(random: Random) -> GuardedProgram:
    """Indices that wrap in their own dtype."""
    dtype = random.choice(INTS)
    index = integer(random, ("u[i]", "u[i]", "u[0]", "1", "2", "100"))
    lines = f"at = u[i] + {index}\n        out[i] = x[at] + T.int64(at)"
    return kernel(f"for i in range(m):\n        {lines}", runs_of(dtype), dtype)


def counted_loops(random: Random) -> GuardedProgram:
    """Loops between computed numbers, which are left after some iterations."""
    start, stop = integer(random), integer(random)
    step = random.choice([1, 2, -1, -2, 2**62, -(2**62), GREATEST])
    body = f"""for i in range(m):
        rounds = 0
        for j in range({start}, {stop}, {step}):
            if rounds == 3:
                break
            rounds += 1
            out[i] = x[rounds] + j"""
    return kernel(body, runs_of("int64"))


def whole_loops(random: Random) -> GuardedProgram:
    """Loops up to the last numbers."""
    start, stop, step = random.choice(ENDS), random.choice(ENDS), random.choice(STEPS)
    if (stop - start) // step > 100:
        start = stop - 5 * step if abs(stop - 5 * step) < GREATEST else stop
    body = f"""c = 0
    for j in range(u[0], u[1], {step}):
        c += 1
        out[0] = out[0] * 3 + (j ^ c)"""
    return kernel(body, [(X, np.array([start, stop]), 1)])


USES: tuple[str, ...] = (
    "{0} > {1}",
    "R.take(w, {0})",
    "R.take(w, {0}, mode='clip')",
    "R.take(w, {0}, mode='wrap')",
)
USES += ("R.sum({0} * {1})", "R.cumsum({0})", "R.prod({0})", "R.max({0} - {1})")
USES += ("R.where({0} < {1}, x, y)", "R.astype({0}, 'int8')", "-{0} // {1}", "{0} + {1} > {0}")
USES += ("R.scatter_elements(w, x + {0}, x, axis=0)",)


def fused_ops(random: Random) -> GuardedProgram:
    """Ops of integers, fused with those that use their results."""
    operands = [integer(random, ("x", "y", "z")) for _ in range(2)]
    operands = [t.replace("min(", "R.minimum(").replace("max(", "R.maximum(") for t in operands]
    sized = 'R.Tensor(("n",), "int64")'
    result = random.choice(USES).format(*operands).replace(" 4", " R.const(4, 'int64')")
    text = f"""
@R.function
def main(x: {sized}, y: {sized}, w: R.Tensor(("m",), "int64")):
    z = R.const({2**62}, "int64")
    return {result}
"""
    values = np.array([*EXTREME, 3])
    return GuardedProgram(
        text, [(values, np.roll(values, shift), np.arange(20, 25)) for shift in (0, 1, 3)]
    )


FILLED = "lo, hi = T.part(4)\n    for i in range(4):\n        out.flat[i] = x.flat[0]\n    "


def parts(random: Random) -> GuardedProgram:
    """Loops of kernels in parts, whose indices are checked before them."""
    numbers = np.array(random.choices(EXTREME, k=4))
    loop = f"for i in range({random.choice(['lo, hi', 'u[2], u[3]'])}):"
    body = f"{FILLED}s = u[0]\n    t = u[1]\n    {loop}\n        out.flat[i] = x.flat[i * s + t]"
    return kernel(body, [(X, numbers, 1)], messages=False)


CALLS = ["T.transpose(out.flat[0], x.flat[k], u[0], u[1], u[2], u[3])"]
CALLS += [
    f"T.tiled_product(x.flat[k], x.flat[1], out.flat[0], {integers})"
    for integers in (
        "u[0], 2, 2, 2, 1, u[1], 1, u[2]",
        "2, 2, u[0], u[1], 1, u[2], 1, 2",
        "2, u[0], 2, u[1], 1, u[2], u[3], 2",
    )
]
CALLS += [
    f"T.window_maxima(out.flat[0], x.flat[k], {integers})"
    for integers in (
        "u[0], 2, u[1], 2, u[2], 0, 2, 2, 2, 2, 1, 1, 1, 1",
        "2, 2, 2, 2, u[0], u[1], 2, 2, 2, 2, 1, 1, 1, 1",
        "2, 2, 2, u[0], 0, 1, u[1], 2, 3, 1, 2, 2, 1, 1",
        "2, 2, 2, 2, u[0], u[1], 2, 2, 2, 2, u[2], u[3], 1, 1",
    )
]
CALLS += [
    f"T.gathered_product({places}, out.flat[0], {integers})"
    for places, integers in (
        ("x.flat[k], x.flat[1], u.flat[0]", "1, 2, 2, 2, u[2], 4"),
        ("x.flat[0], x.flat[k], u.flat[1]", "1, u[3], u[0], 2, 3, 4"),
    )
]
CALLS += [
    f"T.pixel_product(x.flat[0], x.flat[k], {places}, out.flat[0], {integers})"
    for places, integers in (
        ("u.flat[0], u.flat[2]", "1, 2, 2, 2, 2, 0, 4, 2"),
        ("u.flat[1], u.flat[2]", "u[0], 2, 2, u[1], u[2], u[3], 4, 2"),
    )
]
PANELS = "panels = T.zeros((64,), 'float32')\n    "
CALLS += [
    "T.pack_panels(panels.flat[0], x.flat[k], u[0], u[1], u[2], u[3], 1)\n    "
    "T.packed_product(x.flat[0], panels.flat[0], out.flat[0], 1, u[1], u[0], u[2], 1, 1, 4)"
]


def library_calls(random: Random) -> GuardedProgram:
    """Functions of the library on memory in steps."""
    numbers = np.array(random.choices([*EXTREME, 1, 1, 2, 2, 3], k=4))
    numbers[2] = numbers[2] or 1  # many iterations without progress take too long
    runs = [(X.astype("float32"), numbers, k) for k in (0, 1, GREATEST)]
    return kernel(f"{PANELS}{FILLED}{random.choice(CALLS)}", runs, dtype="float32", messages=False)


GENERATORS: tuple[Callable[[Random], GuardedProgram], ...] = (
    *(reads, writes, narrow_dtypes, counted_loops),
    *(whole_loops, fused_ops, parts, library_calls),
)


def sample(random: Random) -> GuardedProgram:
    """Generates a kernel or a function of ops."""
    return random.choice(GENERATORS)(random)


def check(case: GuardedProgram) -> None:
    """Compares each run, with arrays at both ends of their pages and the result in `out`."""
    interpreted, compiled = _kernel_runs(case) if "@I.kernel" in case.text else _op_runs(case)
    for arguments in case.runs:
        expected = _outcome(partial(interpreted, arguments, None))
        failed = isinstance(expected, str)
        for at_end in (False, True):
            inside = [guarded(a, at_end) if isinstance(a, np.ndarray) else a for a in arguments]
            out = guarded(np.zeros(4, case.dtype) if failed else expected, at_end)
            _require_same(case, arguments, expected, _outcome(partial(compiled, inside, out)))


def _kernel_runs(case: GuardedProgram) -> Any:
    definition: Any = structir.parse(case.text)["f"]

    def filled(run: Any) -> Callable[..., Any]:
        value = KernelValue(definition, run)

        def call(arguments: Any, out: Any) -> Any:
            out = np.zeros(4, case.dtype) if out is None else out
            value(*arguments, out)
            return out

        return call

    return filled(run_kernel), filled(KernelRunner())


def _op_runs(case: GuardedProgram) -> Any:
    plan.MIN_SHARED_NANOSECONDS, plan.CHUNK_MULTIPLE = 0, 1  # threads share short loops, too
    module = structir.parse(case.text)
    compiled = structir.compile(module, num_threads=THREADS)["main"]
    interpreted = partial(structir.interpret, module, "main")
    return lambda a, _: interpreted(*a), lambda a, out: compiled(*a, out=out)


def _outcome(run: Callable[[], Any]) -> Any:
    """Returns the result, or the message of the error."""
    try:
        return np.array(run())
    except StructIRError as error:
        return str(error)


def _require_same(case: GuardedProgram, arguments: Any, expected: Any, actual: Any) -> None:
    if isinstance(expected, str):
        same = isinstance(actual, str) and (not case.messages or actual == expected)
    else:
        same = not isinstance(actual, str) and np.array_equal(actual, expected)
    if not same:
        raise Disagreement(f"{arguments}: expected {expected}, found {actual}")
