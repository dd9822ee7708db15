"""Random programs: well formed, the same after text, compiled as interpreted.

Others: `structir fuzz --check text --check cpu --seed 1000 --programs 500`.
"""

from collections.abc import Iterator
from functools import cache
from random import Random
from typing import Any

import numpy as np
import pytest

import structir
from structir.analysis import check_well_formed
from structir.errors import DiagnosticWarning, StructIRError
from structir.ir import IRModule, structural_equal, structural_hash
from structir.passes import DeadCodeElimination
from structir.tools.calls import CallGenerator
from structir.tools.comparison import require_agreement, result
from structir.tools.generate import random_arguments, random_module

CHUNKS, SEEDS = 25, 10  # a chunk is one test, so that workers share the work
SIZE = 3  # bindings of a function, more or less: a kernel takes a tenth of a second to compile
RUNS = 2  # sets of arguments for each program

chunks = pytest.mark.parametrize("chunk", range(CHUNKS))


@cache
def program(seed: int) -> IRModule:
    return random_module(seed, SIZE)


def programs(chunk: int) -> Iterator[tuple[int, IRModule]]:
    for seed in range(chunk * SEEDS, (chunk + 1) * SEEDS):
        yield seed, program(seed)


@pytest.mark.sampled(2)
@chunks
@pytest.mark.filterwarnings(f"error::{DiagnosticWarning.__module__}.DiagnosticWarning")
def test_text_reads_back(chunk: int) -> None:
    for seed, module in programs(chunk):
        try:
            check_well_formed(module)
            text = module.script()
            read = structir.parse(text)
            assert structural_equal(read, module)
            assert structural_hash(read) == structural_hash(module)
        except Exception as error:
            error.add_note(f"seed {seed}")
            raise


@pytest.mark.sampled(2)
@chunks
def test_compiled_it_gives_what_the_interpreter_gives(chunk: int) -> None:
    for seed, module in programs(chunk):
        try:
            check_agreement(module, seed)
        except Exception as error:
            error.add_note(f"seed {seed}")
            raise


def check_agreement(module: IRModule, seed: int) -> None:
    compiled = structir.compile(module)["main"]

    def interpreted(*arguments: Any) -> Any:
        return structir.interpret(module, "main", *arguments)

    for run in range(RUNS):
        arguments = random_arguments(module["main"], seed * RUNS + run)
        expected, found = result(interpreted, arguments), result(compiled, arguments)
        if isinstance(expected, StructIRError) and not isinstance(found, StructIRError):
            # what nothing reads is not computed, and cannot go wrong
            module = DeadCodeElimination()(module)
            expected = result(interpreted, arguments)
        assert isinstance(expected, StructIRError) == isinstance(found, StructIRError), (
            f"interpreted: {expected!r}\ncompiled: {found!r}"
        )
        if not isinstance(expected, StructIRError):
            require_agreement(module, "main", arguments, expected, found)


# ---- the generator itself


def test_the_same_seed_gives_the_same_program() -> None:
    assert random_module(7).script() == random_module(7).script()
    assert not structural_equal(random_module(7), random_module(8))


def test_programs_are_as_large_as_asked() -> None:
    def bindings(size: int) -> int:
        return sum(len(random_module(seed, size)["main"].bindings()) for seed in range(10))

    assert bindings(2) < bindings(20) / 4


@pytest.mark.exhaustive
def test_programs_hold_every_construct_and_most_ops() -> None:
    text = "".join(program(seed).script() for seed in range(CHUNKS * SEEDS))
    for construct in (
        "with R.dataflow()",
        "R.match_cast",
        "if ",
        "cls.helper_0(",
        "def closure",
        "R.const",
        "R.shape(",
        "R.prim_value",
        "[0]",
        "R.Tuple(",
        "cast",
    ):
        assert construct in text, construct
    ops = [op for op in CallGenerator(Random(0)).ops if f"R.{op.name}(" in text]
    assert len(ops) > 0.7 * len(CallGenerator(Random(0)).ops)


def test_arguments_fit_the_function_and_include_empty_ones() -> None:
    text = """
@R.function
def main(
    x: R.Tensor(("n", "m"), "float32"),
    y: R.Tensor(("n * m + 1",), "int64"),
    s: R.Shape(["n", 3]),
    t: R.Tuple(R.Tensor(("m",), "bool"), R.Prim("float32")),
    u: R.Tensor(ndim=2),
):
    return (x, y, s, t, u)
"""
    module = structir.parse(text)
    seen = set()
    for seed in range(60):
        arguments = random_arguments(module["main"], seed)
        structir.interpret(module, "main", *arguments)
        x, y, s, t, _u = arguments
        assert y.shape == (x.shape[0] * x.shape[1] + 1,)
        assert s == (x.shape[0], 3)
        assert t[0].shape == x.shape[1:]
        seen |= set(x.shape)
    assert {0, 1, 2, 3} <= seen


def test_sizes_and_values_may_be_given() -> None:
    text = """
@R.function
def main(x: R.Tensor(("n", "m"), "float32"), y: R.Tensor(("m",), "float32")):
    return (x, y)
"""
    main = structir.parse(text)["main"]
    x, y = random_arguments(main, 0, {"n": 9}, values={"y": np.zeros(5, np.float32)})
    assert x.shape == (9, 5)
    assert y.sum() == 0
    with pytest.raises(StructIRError, match="symbolic dim k"):
        random_arguments(main, 0, {"k": 9})
