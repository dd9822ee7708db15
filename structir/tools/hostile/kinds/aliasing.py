"""The caller owns results: they share no memory with arguments, constants or one another, and
writing to them changes no later call."""

from __future__ import annotations

import warnings
from functools import partial
from random import Random
from typing import Any

import attrs
import numpy as np

from structir.errors import StructIRError
from structir.ir.module import IRModule
from structir.lazy import lazy_module
from structir.tools.comparison import Disagreement
from structir.tools.generate import random_arguments, random_module

structir = lazy_module("structir")

TEST_SEEDS = 4
CALLS = 3


@attrs.frozen
class AliasingCase:
    """A program and the arguments of its function main."""

    module: IRModule
    arguments: list[Any]

    def __str__(self) -> str:
        return self.module.script()


def sample(random: Random) -> AliasingCase:
    """Generates a random program."""
    seed = random.randrange(1 << 31)
    module = random_module(seed, 4)
    return AliasingCase(module, list(random_arguments(module["main"], seed)))


def check(case: AliasingCase) -> None:
    """Calls the interpreter and the compiled program, and overwrites every result."""
    text = case.module.script()
    interpreted = partial(structir.interpret, case.module, "main")
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for run in (interpreted, structir.compile(case.module)["main"]):
            try:
                expected = [array.copy() for array in arrays_in(run(*case.arguments))]
            except StructIRError:
                continue
            check_calls(run, case.arguments, expected)
    if case.module.script() != text:
        raise Disagreement("calls changed the constants of the program")


def arrays_in(value: Any) -> list[Any]:
    """Returns the arrays in nested tuples and lists."""
    if isinstance(value, tuple | list):
        return [array for item in value for array in arrays_in(item)]
    return [value] if isinstance(value, np.ndarray) else []


def check_calls(run: Any, arguments: list[Any], expected: list[Any], times: int = CALLS) -> None:
    """Calls several times, writes to every result, and compares with the expected arrays."""
    given = [array.copy() for array in arrays_in(arguments)]
    earlier: list[Any] = []
    for _ in range(times):
        results = arrays_in(run(*arguments))
        others = [*results, *arrays_in(arguments), *earlier]
        for k, result in enumerate(results):
            np.testing.assert_array_equal(result, expected[k])
            if not result.flags.writeable:
                raise Disagreement("a result is read-only")
            if any(np.shares_memory(result, other) for other in others[k + 1 :]):
                raise Disagreement("a result shares memory")
        for result in results:
            result[...] = np.zeros((), result.dtype)
        earlier += results
    for array, before in zip(arrays_in(arguments), given, strict=True):
        np.testing.assert_array_equal(array, before)
