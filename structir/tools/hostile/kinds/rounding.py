"""Fused chains of ops of narrow floats return what the interpreter returns: each result is rounded
to its dtype."""

from __future__ import annotations

from random import Random
from typing import Any

import attrs
import numpy as np

from structir.ir.dtype import numpy_dtype
from structir.lazy import lazy_module

structir = lazy_module("structir")

DTYPES = (
    "float16",
    "bfloat16",
    "float8_e4m3fn",
    "float8_e5m2",
    "float8_e4m3fnuz",
    "float8_e5m2fnuz",
)
BINARY = ("add", "subtract", "multiply", "divide", "maximum", "minimum")  # one rounding each
UNARY = ("floor", "ceil", "abs", "negative", "nn.relu", "sign", "square")
TEST_SEEDS = 3
SHAPE = (5, 9)


@attrs.frozen
class RoundedChain:
    """A function and its arguments."""

    text: str
    arguments: tuple[Any, ...]

    def __str__(self) -> str:
        return self.text


def sample(random: Random) -> RoundedChain:
    """Generates a chain of ops with exactly defined results."""
    dtype, values, lines = random.choice(DTYPES), ["x", "y"], []
    for k in range(random.randint(3, 7)):
        lines.append(f"v{k} = {_call(random, dtype, values)}")
        values.append(f"v{k}")
    results = list(dict.fromkeys([random.choice(values[2:]), values[-1]]))
    scale = random.choice([2.0, 2.0, 1e-3, 1e3])
    numbers = np.random.default_rng(random.randrange(1 << 31))
    arguments = [numbers.normal(size=SHAPE) * scale for _ in range(2)]
    with np.errstate(all="ignore"):
        typed = [a.astype(numpy_dtype(dtype)) for a in arguments]
    return RoundedChain(function(dtype, lines, results), tuple(typed))


def _call(random: Random, dtype: str, values: list[str]) -> str:
    op = random.choice([*BINARY, *UNARY, "astype", "max"])
    x, y = random.choice(values), random.choice(values)
    if op in BINARY:
        return f"R.{op}({x}, {y})"
    if op == "astype":
        return f"R.astype(R.astype({x}, '{random.choice([*DTYPES, 'float32'])}'), '{dtype}')"
    return f"R.max({x}, axis=1, keepdims=True)" if op == "max" else f"R.{op}({x})"


def function(dtype: str, lines: list[str], results: list[str]) -> str:
    """Returns the text of a function of two matrices."""
    body = "".join([f"        {line}\n" for line in lines])
    names = ", ".join(results)
    params = f"x: R.Tensor(('n', 'm'), '{dtype}'), y: R.Tensor(('n', 'm'), '{dtype}')"
    return (
        f"@R.function\ndef main({params}):\n    with R.dataflow():\n{body}"
        f"        R.output({names})\n    return ({names},)\n"
    )


def check(case: RoundedChain) -> None:
    """Compares all elements exactly."""
    module = structir.parse(case.text)
    with np.errstate(all="ignore"):
        expected = structir.interpret(module, "main", *case.arguments)
        for a, b in zip(structir.compile(module)["main"](*case.arguments), expected, strict=True):
            assert a.dtype == b.dtype
            np.testing.assert_array_equal(a.astype("float64"), b.astype("float64"))
