"""Conversions of floats to integers are defined for NaN, infinities and values out of range."""

import math

import numpy as np
import pytest

import structir
from structir.ir.dtype import numpy_dtype
from structir.projections.conversion import limits

TARGETS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
SMALL = ["int2", "uint2", "int4", "uint4"]
ENDS = sorted(
    {float(end + step) for t in TARGETS + SMALL for end in limits(t) for step in (-1, 0, 1)}
)
NEAR = [
    near for end in ENDS for near in (np.nextafter(end, -math.inf), end, np.nextafter(end, 1e30))
]
VALUES = [math.nan, math.inf, -math.inf, -0.0, 0.9, -0.9, 2.5, -2.5, 126.99, 1e30, -1e30, *NEAR]


def truncated(value: float, dtype: str) -> int:
    low, end = limits(dtype)
    if math.isnan(value):
        return 0
    return low if value <= low else (end - 1 if value >= end else int(value))


def program(source: str, targets: list[str], value: str, given: str) -> str:
    body = "".join(f"        y{k} = R.astype({value}, '{t}')\n" for k, t in enumerate(targets))
    names = ", ".join(f"y{k}" for k in range(len(targets)))
    return (
        f"@R.function\ndef main({given}):\n    with R.dataflow():\n{body}"
        f"        z = ({names})\n        R.output(z)\n    return z\n"
    )


def expected(x: np.ndarray, targets: list[str]) -> list[list[int]]:
    return [[truncated(float(v), t) for v in x] for t in targets]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("source", ["float64", "float32", "float16", "bfloat16"])
def test_floats_as_integers(source: str) -> None:
    x = np.array(VALUES).astype(numpy_dtype(source))
    given = f"x: R.Tensor(({len(x)},), '{source}')"
    module = structir.parse(program(source, TARGETS, "x", given))
    wanted = expected(x, TARGETS)
    for found in (structir.compile(module)["main"](x), structir.interpret(module, "main", x)):
        assert [f.tolist() for f in found] == wanted
        assert [f.dtype.name for f in found] == TARGETS
    constant = structir.parse(program(source, TARGETS, "metadata['x']", ""), constants={"x": x})
    assert [f.tolist() for f in structir.compile(constant)["main"]()] == wanted


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_floats_as_small_integers() -> None:
    x = np.array(VALUES, np.float32)
    module = structir.parse(program("float32", SMALL, "x", f"x: R.Tensor(({len(x)},), 'float32')"))
    found = structir.interpret(module, "main", x)
    assert [f.astype(int).tolist() for f in found] == expected(x, SMALL)


def test_integers_keep_their_low_bits() -> None:
    x = np.array([-129, 128, 255, 256, 300, -1, 2**31, -(2**31) - 1])
    module = structir.parse(program("int64", TARGETS, "x", "x: R.Tensor((8,), 'int64')"))
    wanted = [x.astype(t).tolist() for t in TARGETS]
    for found in (structir.compile(module)["main"](x), structir.interpret(module, "main", x)):
        assert [f.tolist() for f in found] == wanted
