"""Recipes on the kernels of random programs, compared with the interpreter at each step: `python -m
tests.loops.recipes COUNT [FIRST]`."""

import sys
from collections import Counter
from random import Random
from typing import Any

import numpy as np

from structir.ir import dims
from structir.ir.kernel import Kernel
from structir.loops.handle import KernelHandle
from structir.loops.primitives import find_primitive
from structir.loops.recipes import find_recipe, recipe_names
from structir.loops.schedule.refusal import ScheduleError
from structir.passes import Lower
from structir.tools.fuzzing import random_program
from tests.loops.running import arguments, have_same_bits, run

SIZE = 6  # ops of a program


def kernels_of(seed: int) -> list[Kernel]:
    """Returns the naive kernels of a random program."""
    lowered = Lower()(random_program(seed, SIZE))
    return [function for function in lowered.functions.values() if isinstance(function, Kernel)]


def check(kernel: Kernel, recipe: str, seed: int) -> int:
    """Compares each intermediate kernel of a recipe with the naive one; returns their number."""
    handle = KernelHandle(kernel)
    naive = handle.node
    try:
        find_recipe(recipe)(handle)
    except ScheduleError as error:
        assert all(d.hint and d.code for d in error.diagnostics), error
        return 0
    infos: list[Any] = [param.struct_info for param in naive.params]
    shapes = [getattr(i, "dims", None) or (getattr(i, "value", None),) for i in infos]
    symbols = {s for shape in shapes for d in shape if d is not None for s in dims.syms(d)}
    rng = Random(seed)
    extents = [d for shape in shapes for d in shape if d is not None]
    for _ in range(20):
        sizes = {s: rng.choice([1, 2, 3, 5]) for s in sorted(symbols, key=str)}
        if all(dims.evaluate(d, sizes) >= 0 for d in extents):
            break
    else:
        return 0
    arrays = arguments(naive, sizes, seed)
    expected, exact = run(naive, arrays, sizes), True
    kernels = [*[step.before for step in handle.steps], handle.node][1:]
    for step, after in zip(handle.steps, kernels, strict=True):
        primitive = find_primitive(step.name)
        rounds = primitive.changes_rounding and not step.options.get(primitive.exact_option)
        exact = exact and (step.name == "parallel" or not rounds)
        for array, other in zip(run(after, arrays, sizes, rng), expected, strict=True):
            same = have_same_bits(array, other)
            close = same or (not exact and np.allclose(array, other, 1e-3, 1e-3, equal_nan=True))
            assert close, f"{handle.steps} at {step}\n{naive}\n{after}\n{array}\n{other}"
    return len(kernels)


def main(count: int, first: int) -> None:
    """Runs programs and prints how many kernels were compared."""
    counts: Counter[str] = Counter()
    for seed in range(first, first + count):
        try:
            kernels = kernels_of(seed)
        except Exception as error:
            counts[f"not lowered: {type(error).__name__}"] += 1
            continue
        for kernel in kernels:
            for recipe in recipe_names():
                try:
                    steps = check(kernel, recipe, seed)
                    counts[f"{recipe} applied" if steps else f"{recipe} refused"] += 1
                    counts["intermediate kernels"] += steps
                except Exception as error:
                    counts["wrong"] += 1
                    print(f"seed {seed}: {type(error).__name__}: {error}", flush=True)
    print(dict(counts))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0)
