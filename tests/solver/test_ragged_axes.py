"""Soundness of inference with ragged axes, row variables and dtype variables."""

from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import structir
from structir import RaggedArray
from structir.errors import StructIRError
from structir.interpret.arguments import random_arguments

RAGGED = ("R.exp({r})", "R.add({r}, {r})", "R.multiply({r}, 2)", "R.concat(({r}, {r}), axis=1)")
RAGGED += ("R.nn.softmax({r}, axis=1)", "R.where(R.greater({r}, {r}), {r}, {r})")
RAGGED += ('R.astype({r}, "float32")', "R.matmul({r}, {w})", "R.add({r}, {b})", "R.add({b}, {r})")
RAGGED += ("R.maximum({r}, R.max({r}, axis=1, keepdims=True))", "R.negative({r})")
DENSE = (
    "R.sum({r}, axis=1)",
    "R.sum({r}, axis=-1, keepdims=True)",
    "R.max({r})",
    "R.add({b}, {b})",
)
DENSE += ("R.ragged.row_lengths({r})", "R.ragged.to_padded({r})", "R.mean({r}, axis=1)")
DENSE += ("R.add(R.sum({r}, axis=1), {w})", "R.exp({w})", "R.greater({b}, {b})")
DTYPES = ("None", '"float32"', '"float32"', '"\'T"', '"\'U"')
SIZES = ('"k"', '"k"', '"p"', "3")


def random_program(random: Random) -> str:
    """Returns a program over two ragged tensors, and two dense ones of unknown rank or size."""
    inner = random.choice(("", f", {random.choice(SIZES)}"))
    infos = []
    for _ in "xy":
        label, own = random.choice(("*", "*:a", "*:b")), random.choice((inner, inner, ", 3"))
        first = random.choice(('"n"', '"m"', '"n"'))
        infos.append(f'R.Tensor(({first}, "{label}"{own}), {random.choice(DTYPES)})')
    rows = [f'R.Tensor(("*r", {size}), {random.choice(DTYPES)})' for size in SIZES]
    infos.append(random.choice([*rows, 'R.Tensor(("k", "h"), "\'T")', "R.Tensor"]))
    infos.append(random.choice([*rows, 'R.Tensor(("k",))', 'R.Tensor(("*s", "*r"), "\'T")']))
    names = {"r": ["x", "y"], "w": ["w"], "b": ["b"]}
    lines = []
    for k in range(random.randint(1, 4)):
        is_ragged = random.random() < 0.7
        text = random.choice(RAGGED if is_ragged else DENSE)
        for name in "rwb":
            while f"{{{name}}}" in text:
                text = text.replace(f"{{{name}}}", random.choice(names[name]), 1)
        lines.append(f"    v{k} = {text}")
        if is_ragged:
            names["r"].append(f"v{k}")
    params = ", ".join([f"{n}: {info}" for n, info in zip("xywb", infos, strict=True)])
    results = ", ".join(["x", "y", "w", "b", *[f"v{k}" for k in range(len(lines))]])
    return "\n".join([f"@R.function\ndef main({params}):", *lines, f"    return ({results})\n"])


def random_values(random: Random, program: structir.ir.IRModule) -> list[Any]:
    """Returns arguments: often of the declared StructInfos, otherwise mostly of their ranks."""
    if random.random() < 0.7:
        fitting = random_arguments(program["main"], random.randrange(10**6), among=(1, 2, 3))
        return [_as_dtype(value, random.choice(("", "", "int32"))) for value in fitting]
    size = random.choice((2, 3))
    lengths = [random.choice((0, 1, 2)) for _ in range(3)]
    others = random.choice((lengths, lengths, lengths[::-1], lengths[:2]))
    shared = random.choice(("float32", "int32"))
    values: list[Any] = []
    for position, rows in enumerate((lengths, others)):
        info: Any = program["main"].params[position].struct_info
        dtype = random.choice((shared, shared, "int32"))
        shape = (sum(rows), *[random.choice((size, size, 3))] * (info.ndim - 2))
        flat = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
        values.append(RaggedArray(flat, np.cumsum([0, *rows])))
    for shape in ((size, 2), (size,)):
        lead = random.choice(((), (), (1,), (3,)))
        values.append(np.ones((*lead, *shape), random.choice((shared, shared, "int32"))))
    return values


def _as_dtype(value: Any, dtype: str) -> Any:
    if not dtype:
        return value
    if isinstance(value, RaggedArray):
        return value.with_values(value.values.astype(dtype))
    return value.astype(dtype)


def _lists(value: Any) -> Any:
    return value.to_list() if isinstance(value, RaggedArray) else value.tolist()


def outcome(program: structir.ir.IRModule, arguments: list[Any]) -> Any:
    """Returns the results of a run, or "error"."""
    try:
        results = structir.interpret(program, "main", *arguments)
    except StructIRError:
        return "error"
    return [(value.dtype, str(_lists(value))) for value in results]  # as text: NaN is equal to NaN


def check(random: Random) -> tuple[int, int]:
    """Compares a program and its completed form; returns the number of runs, and of those that
    succeed."""
    text = random_program(random)
    try:
        program = structir.parse(text)
    except StructIRError:
        return 0, 0
    try:
        inferred = structir.infer(program)
    except StructIRError:
        inferred = None  # no run succeeds
    if inferred is not None:
        assert structir.structural_equal(structir.infer(inferred), inferred), text
        assert structir.structural_equal(structir.parse(str(inferred)), inferred), text
    succeeded = 0
    for _ in range(8):
        arguments = random_values(random, program)
        expected = outcome(program, arguments)
        if expected != "error":
            succeeded += 1
            assert inferred is not None, text
            assert outcome(inferred, arguments) == expected, text
    return 8, succeeded


@pytest.mark.filterwarnings("ignore::structir.errors.DiagnosticWarning")
@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10**9))
def test_inferred_axes_reject_only_runs_that_fail(seed: int) -> None:
    check(Random(seed))


def test_concatenated_rows_have_lengths_of_their_own() -> None:
    x = 'x: R.Tensor(("n", "*:a"), "float32"), y: R.Tensor(("m", "*:b"), "float32")'
    text = (
        f"@R.function\ndef main({x}):\n    z = R.sum(y, axis=1)\n    v = R.concat((x, y), axis=1)\n"
    )
    inferred = structir.infer(structir.parse(f"{text}    return (z, v)\n"))
    result = 'R.Tuple(R.Tensor((n,), dtype="float32"), R.Tensor((n, "*"), dtype="float32"))'
    assert str(inferred["main"].ret_struct_info) == result
