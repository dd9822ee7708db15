"""Runs kernels by the interpreter in the least favourable way: statements of the parts in turns,
lanes of vectors in random order, and NaN in memory that is not initialised."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from random import Random
from typing import Any

import numpy as np

import structir
from structir.interpret import kernels as interpreter
from structir.interpret.scope import Activation
from structir.interpret.threads import run_blocks
from structir.ir import dims
from structir.ir.dtype import numpy_dtype
from structir.ir.kernel import (
    SYNCHRONIZED,
    VECTOR,
    Assign,
    For,
    Kernel,
    KernelStatement,
    Local,
    Part,
    Scratch,
)
from structir.ir.node import replace
from structir.loops.schedule.accesses import accumulation
from structir.loops.schedule.loop_tree import LoopTree, NodeFacts
from tests.loops.interleaving import Interleaving

LANES = 3
Arrays = list[np.ndarray]


def parsed(source: str) -> Kernel:
    """Returns the kernel of this source; sizes need no declaration."""
    (kernel,) = parsed_all(source)
    return kernel


def parsed_all(source: str) -> list[Kernel]:
    """Returns the kernels of this source."""
    lines = "\n".join(f"    {line}" for line in source.strip().splitlines())
    head = "from structir.script import I, R, T\n\n@I.ir_module\nclass M:\n"
    functions = structir.parse(head + lines).functions.values()
    return [function for function in functions if isinstance(function, Kernel)]


def arguments(kernel: Kernel, sizes: dict[Any, int], seed: int) -> Arrays:
    """Returns random operands, and results full of ones."""
    rng, arrays = np.random.default_rng(seed), []
    for param in kernel.params:
        info: Any = param.struct_info
        shape = [dims.evaluate(dim, sizes) for dim in getattr(info, "dims", ())]
        values = np.array(rng.integers(-8, 9, shape) / 4)
        arrays.append(values.astype(numpy_dtype(info.dtype)))
    return arrays


def run(kernel: Kernel, arrays: Arrays, sizes: dict[Any, int], rng: Random | None = None) -> Arrays:
    """Returns the results of a kernel by the interpreter; with `rng`, in random order."""
    values = [array.copy() for array in arrays]
    results = values[len(kernel.operands) :]
    for result in results:
        result[...] = _garbage(result.dtype) if kernel.part is not None else 0
    bindings: dict[Any, Any] = dict(zip(kernel.params, values, strict=True))
    interleaving = Interleaving(rng or Random(0))
    with _patched(rng or Random(0), rng is not None, interleaving), np.errstate(all="ignore"):
        step = interpreter.block(kernel, kernel.body)
        scope = Activation({}, dict(sizes))

        def run_part(part: tuple[int, int]) -> None:
            with np.errstate(all="ignore"):  # threads do not inherit it
                step(interpreter.KernelFrame({**bindings, "part": part}, scope))

        if kernel.blocks is not None:
            run_blocks(
                kernel,
                scope.size(kernel.blocks.dim),
                lambda thread: step(interpreter.KernelFrame(dict(bindings), scope, thread)),
            )
        elif kernel.part is None:
            run_part((0, 0))
        else:
            interleaving.run([partial(run_part, part) for part in _parts(kernel, sizes, rng)])
    return results


def have_same_bits(array: np.ndarray, other: np.ndarray) -> bool:
    """Whether two results are equal bit for bit; any NaN equals any other."""
    bits = [np.frombuffer(a.tobytes(), f"V{a.itemsize}") for a in (array, other)]
    both_nan = (array != array) & (other != other)
    return array.shape == other.shape and bool(np.all((bits[0] == bits[1]) | both_nan.ravel()))


def _garbage(dtype: Any) -> Any:
    return np.nan if np.issubdtype(dtype, np.floating) else np.ones((), dtype) * 77


def _parts(kernel: Kernel, sizes: dict[Any, int], rng: Random | None) -> list[tuple[int, int]]:
    assert kernel.part is not None
    extent = dims.evaluate(kernel.part.extent, sizes)
    cuts = sorted({0, extent, *[rng.randint(0, extent) for _ in range(2)]} if rng else {0, extent})
    parts = list(pairwise(cuts))
    if rng:
        rng.shuffle(parts)
    return parts


@contextmanager
def _patched(rng: Random, shuffles: bool, interleaving: Interleaving) -> Iterator[None]:
    table = dict(interpreter._STATEMENTS)

    def bind(kernel: Kernel, part: Part) -> Any:
        def step(frame: Any) -> None:
            frame.values[part.low], frame.values[part.high] = map(np.int64, frame.values["part"])

        return step

    def assign(kernel: Kernel, node: Assign) -> Any:
        usual = table[Assign](kernel, node)

        def step(frame: Any) -> None:
            interleaving.switch()
            usual(frame)

        return usual if kernel.part is None else step

    def allocate(kernel: Kernel, scratch: Scratch) -> Any:
        info: Any = scratch.array.struct_info
        dtype = numpy_dtype(info.dtype)

        def step(frame: Any) -> None:
            shape = [frame.scope.size(dim) for dim in info.dims]
            value = 0 if scratch.zeros else _garbage(dtype)
            frame.values[scratch.array] = np.full(shape, value, dtype)

        return step

    def loop(kernel: Kernel, node: For) -> Any:
        if node.kind == SYNCHRONIZED and kernel.part is not None:
            node = replace(node, kind="", body=(_Meeting(), *node.body))
        usual = table[For](kernel, node)
        return _lanes(kernel, node, rng) if node.kind == VECTOR and shuffles else usual

    def meet(kernel: Kernel, node: _Meeting) -> Any:
        return lambda frame: interleaving.meet()

    steps = {Part: bind, Scratch: allocate, For: loop, Assign: assign, _Meeting: meet}
    interpreter._STATEMENTS.update(steps)
    try:
        yield
    finally:
        interpreter._STATEMENTS.clear()
        interpreter._STATEMENTS.update(table)


class _Meeting(KernelStatement):
    """The beginning of an iteration of a synchronized loop, where all parts meet."""


def _lanes(kernel: Kernel, loop: For, rng: Random) -> Any:
    """A loop in vectors of lanes in random order: each statement runs for all lanes before the next
    one, and each lane has scalars of its own, but for sums."""
    start, stop = (interpreter.evaluator(kernel, end) for end in (loop.start, loop.stop))
    steps = [interpreter.block(kernel, (statement,)) for statement in loop.body]
    inside = list(LoopTree(kernel, NodeFacts()).within(loop.body))
    assigns = [s for s in inside if isinstance(s, Assign) and isinstance(s.target, Local)]
    scalars = {s.target for s in assigns if not accumulation(s)}

    def step(frame: Any) -> None:
        iterations = list(range(int(start(frame)), int(stop(frame)), loop.step))
        rng.shuffle(iterations)
        for first in range(0, len(iterations), LANES):
            lanes: list[dict[Any, Any]] = [
                {loop.variable: np.int64(i)} for i in iterations[first : first + LANES]
            ]
            for each in steps:
                for lane in lanes:
                    frame.values.update(lane)
                    each(frame)
                    lane |= {s: frame.values[s] for s in scalars if s in frame.values}

    return step
