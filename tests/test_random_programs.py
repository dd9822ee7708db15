"""A thousand random programs: well formed, the same after text, compiled as interpreted."""

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import numpy as np
import pytest

import structir
from structir.analysis import check_well_formed
from structir.errors import DiagnosticWarning, StructIRError
from structir.ir import IRModule, structural_equal, structural_hash
from structir.passes import DeadCodeElimination
from structir.tools.calls import CallDrawer
from structir.tools.generate import random_arguments, random_module

CHUNKS, SEEDS = 25, 40  # a chunk is one test, so that workers share the work
SIZE = 3  # bindings of a function, more or less: a kernel takes a tenth of a second to compile
RUNS = 2  # sets of arguments for each program

chunks = pytest.mark.parametrize("chunk", range(CHUNKS))


def programs(chunk: int) -> Iterator[tuple[int, IRModule]]:
    for seed in range(chunk * SEEDS, (chunk + 1) * SEEDS):
        yield seed, random_module(seed, SIZE)


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
        if not isinstance(expected, StructIRError) and not close(found, expected):
            assert_close_as_far_as_rounding_tells(interpreted, arguments, expected, found)


def result(function: Callable[..., Any], arguments: list[Any]) -> Any:
    """What a function gives; an error of StructIR's is a result, any other one is not."""
    try:
        with np.errstate(all="ignore"):
            return function(*arguments)
    except StructIRError as error:
        return error


# ---- closeness


def leaves(value: Any) -> list[Any]:
    """The arrays and numbers of a result, each tuple's length among them."""
    if isinstance(value, tuple):
        return [len(value), *(leaf for item in value for leaf in leaves(item))]
    return [value]


def close(found: Any, expected: Any) -> bool:
    pairs = list(zip(leaves(found), leaves(expected), strict=False))
    same_count = len(leaves(found)) == len(leaves(expected))
    return same_count and all(same_kind(a, b) and np.all(near(a, b, 0)) for a, b in pairs)


def same_kind(a: Any, b: Any) -> bool:
    return np.shape(a) == np.shape(b) and np.asarray(a).dtype == np.asarray(b).dtype


def near(a: Any, b: Any, slack: Any) -> Any:
    """Element by element: equal as far as float32 and the slack tell; NaN equals itself."""
    x, y = np.asarray(a, np.float64), np.asarray(b, np.float64)
    with np.errstate(all="ignore"):
        close_by = np.abs(x - y) <= 1e-4 + 1e-3 * np.abs(y) + 20 * slack
    return close_by | (x == y) | (np.isnan(x) & np.isnan(y)) | np.isnan(np.asarray(slack))


def assert_close_as_far_as_rounding_tells(
    interpreted: Callable[..., Any], arguments: list[Any], expected: Any, found: Any
) -> None:
    """A program may amplify rounding, or jump: what a nudge of the inputs moves may differ."""
    slack = [np.zeros(np.shape(leaf)) for leaf in leaves(expected)]
    for draw in range(8):
        moved = result(interpreted, nudged(arguments, draw))
        if isinstance(moved, StructIRError):
            return
        pairs = zip(leaves(moved), leaves(expected), strict=True)
        with np.errstate(all="ignore"):
            steps = [
                np.abs(np.asarray(a, np.float64) - np.asarray(b, np.float64)) for a, b in pairs
            ]
        slack = [np.maximum(s, t) for s, t in zip(slack, steps, strict=True)]
    for a, b, allowed in zip(leaves(found), leaves(expected), slack, strict=True):
        assert same_kind(a, b), f"compiled: {found!r}\ninterpreted: {expected!r}"
        assert np.all(near(a, b, allowed)), f"compiled: {a!r}\ninterpreted: {b!r}"


def nudged(value: Any, draw: int) -> Any:
    """The arguments, each float moved by a millionth of itself or less."""
    if isinstance(value, list | tuple):
        return type(value)([nudged(item, draw + i) for i, item in enumerate(value)])
    if isinstance(value, np.ndarray) and value.dtype.kind == "f":
        noise = np.random.default_rng(draw).uniform(-1e-6, 1e-6, value.shape)
        return (value * (1 + noise) + noise * 1e-3).astype(value.dtype)
    return value


# ---- the generator itself


def test_the_same_seed_gives_the_same_program() -> None:
    assert random_module(7).script() == random_module(7).script()
    assert not structural_equal(random_module(7), random_module(8))


def test_programs_are_as_large_as_asked() -> None:
    def bindings(size: int) -> int:
        return sum(len(random_module(seed, size)["main"].bindings()) for seed in range(10))

    assert bindings(2) < bindings(20) / 4


def test_programs_hold_every_construct_and_most_ops() -> None:
    text = "".join(random_module(seed, 12).script() for seed in range(150))
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
        "found",
    ):
        assert construct in text, construct
    ops = [op for op in CallDrawer(Random(0)).ops if f"R.{op.name}(" in text]
    assert len(ops) > 0.7 * len(CallDrawer(Random(0)).ops)


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
    x, y = random_arguments(main, 0, {"n": 9}, given={"y": np.zeros(5, np.float32)})
    assert x.shape == (9, 5)
    assert y.sum() == 0
    with pytest.raises(StructIRError, match="symbolic dim k"):
        random_arguments(main, 0, {"k": 9})
