"""Kernels as text, and their results by the interpreter with nothing left to chance.

Iterations of vectorized loops and the parts of a kernel run in shuffled order; memory that is not
initialised holds NaN.
"""

import random
from collections.abc import Callable
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import numpy as np

import structir
from structir.interpret import kernels as interpreter
from structir.interpret.scope import Activation
from structir.ir import dims
from structir.ir.kernel import For, Kernel, Part, Scratch

HEAD = "from structir.script import I, R, T\n\n@I.ir_module\nclass Module:\n    @I.kernel\n"
SIZES = (3, 5)
Arrays = list[np.ndarray]


def kernel_of(parameters: str, body: str) -> Kernel:
    """Returns the kernel with these parameters and statements."""
    lines = [f"        {line}\n" for line in body.strip("\n").splitlines()]
    text = f"{HEAD}    def kernel({parameters}):\n{''.join(lines)}"
    return structir.parse(text).functions["kernel"]


def symbols_of(kernel: Kernel) -> list[Any]:
    """Returns the symbolic dims of a kernel, ordered by name."""
    infos: list[Any] = [param.struct_info for param in kernel.params]
    symbols = {s for info in infos for dim in info.dims for s in dims.syms(dim)}
    return sorted(symbols, key=lambda s: s.name)


def arrays_of(kernel: Kernel, sizes: dict[Any, int], seed: int) -> Arrays:
    """Returns values of all parameters: multiples of 1/4, so that sums are exact."""
    rng, arrays = np.random.default_rng(seed), []
    for param in kernel.params:
        info: Any = param.struct_info
        shape = [dims.evaluate(dim, sizes) for dim in info.dims]
        arrays.append(np.asarray(rng.integers(-8, 9, shape) / 4).astype(info.dtype))
    return arrays


@contextmanager
def shuffled(rng: random.Random, bounds: list[int]) -> Any:
    """Has the interpreter shuffle vectorized loops and fill `T.empty` with NaN; `bounds` are those
    of the part to run."""

    def bind_part(kernel: Kernel, part: Part) -> Callable[[Any], None]:
        def bind(frame: Any) -> None:
            frame.values[part.low], frame.values[part.high] = map(np.int64, bounds)

        return bind

    def scratch(kernel: Kernel, scratch: Scratch) -> Callable[[Any], None]:
        info: Any = scratch.array.struct_info
        value = 0 if scratch.zeros or not info.dtype.startswith("float") else np.nan

        def allocate(frame: Any) -> None:
            shape = [frame.scope.size(dim) for dim in info.dims]
            frame.values[scratch.array] = np.full(shape, value, info.dtype)

        return allocate

    def loop(kernel: Kernel, loop: For) -> Any:
        if not loop.kind:
            return saved[For](kernel, loop)
        start, stop = (interpreter.evaluator(kernel, e) for e in (loop.start, loop.stop))
        body = interpreter.block(kernel, loop.body)

        def run(frame: Any) -> None:
            positions = list(range(int(start(frame)), int(stop(frame)), loop.step))
            rng.shuffle(positions)
            for position in positions:
                frame.values[loop.variable] = np.int64(position)
                body(frame)

        return run

    saved = dict(interpreter._STATEMENTS)
    interpreter._STATEMENTS.update({Part: bind_part, Scratch: scratch, For: loop})
    try:
        yield
    finally:
        interpreter._STATEMENTS.update(saved)


def results(kernel: Kernel, arrays: Arrays, sizes: dict[Any, int], seed: int = 0) -> Arrays:
    """Returns the results of a kernel, by the interpreter."""
    rng, values = random.Random(seed), [array.copy() for array in arrays]
    count = len(kernel.operands)
    for array in values[count:]:
        array[...] = 0 if kernel.part is None else np.nan
    bounds, spans = [0, 0], [(0, 0)]
    if kernel.part is not None:
        extent = dims.evaluate(kernel.part.extent, sizes)
        cuts = sorted({0, extent, *[rng.randint(0, extent) for _ in range(2)]})
        spans = list(pairwise(cuts))
        rng.shuffle(spans)
    with shuffled(rng, bounds), np.errstate(all="ignore"):
        step = interpreter.block(kernel, kernel.body)
        for span in spans:
            bounds[:] = span
            scope = Activation({}, dict(sizes))
            step(interpreter.KernelFrame(dict(zip(kernel.params, values, strict=True)), scope))
    return values[count:]


def differs(before: Kernel, after: Kernel, *, exact: bool = True, seeds: int = 3) -> bool:
    """Whether the results of two kernels with the same parameters differ, at several sizes."""
    for seed in range(seeds):
        rng = random.Random(seed)
        sizes = {s: rng.choice((1, 2, 3, 5, 7, 9)) for s in symbols_of(before)}
        arrays = arrays_of(before, sizes, seed)
        pairs = zip(
            results(before, arrays, sizes), results(after, arrays, sizes, seed), strict=True
        )
        for a, b in pairs:
            same = np.array_equal(a, b, equal_nan=True)
            if not (same or (not exact and np.allclose(a, b, 2e-4, 2e-4, equal_nan=True))):
                return True
    return False
