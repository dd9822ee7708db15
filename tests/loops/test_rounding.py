"""Fused kernels round the result of each op to its dtype, as the interpreter does."""

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import structir
from structir.tools.hostile.kinds.rounding import function

pytestmark = pytest.mark.sampled(2)

DTYPES = ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"]


def agree(source: str, *args: np.ndarray) -> None:
    module = structir.parse(source)
    with np.errstate(all="ignore"):
        interpreted = structir.interpret(module, "main", *args)
    for wanted, result in zip(interpreted, structir.compile(module)["main"](*args), strict=True):
        assert wanted.dtype == result.dtype
        np.testing.assert_array_equal(result.astype("float64"), wanted.astype("float64"))


def operands(dtype: str, shape: tuple[int, ...], scale: float = 2.0) -> list[np.ndarray]:
    random = np.random.default_rng(3)
    kind = getattr(ml_dtypes, dtype, dtype)
    return [(random.normal(size=shape) * scale).astype(kind) for _ in range(2)]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "lines",
    [
        ["a = R.add(x, y)", "z = R.divide(a, R.multiply(x, y))", "f = R.floor(z)"],
        [
            "z = R.subtract(R.matmul(x, R.permute_dims(y)), R.max(x, axis=1, keepdims=True))",
            "f = R.floor(z)",
        ],
        [
            "z = R.nn.layer_norm(x + y, R.max(x, axis=0), R.min(y, axis=0), axes=[-1])",
            "f = R.floor(R.nn.softmax(z) * z)",
        ],
        ["z = R.subtract(R.sum(x * y, axis=0), R.max(x, axis=0))", "f = R.floor(z)"],
        ["z = R.subtract(R.sum(x * y, axis=1), R.max(y, axis=1))", "f = R.floor(z)"],
        ["z = R.nn.max_pool2d(R.reshape(x * y, (1, 1, 8, 8)), 3, padding=1)", "f = R.floor(z + z)"],
    ],
    ids=["maps", "product", "row", "columns", "short rows", "windows"],
)
def test_what_two_ops_read_is_one_value(dtype: str, lines: list[str]) -> None:
    agree(function(dtype, lines, ["z", "f"]), *operands(dtype, (8, 8)))


@pytest.mark.parametrize("dtype", DTYPES)
def test_conversions_round_between_ops(dtype: str) -> None:
    lines = [f"a = R.astype(x, '{dtype}')", "b = R.add(a, R.astype(y, DT))", "z = R.subtract(b, a)"]
    source = function("float32", [*lines, "f = R.floor(z)"], ["z", "f"]).replace("DT", repr(dtype))
    agree(source, *operands("float32", (40, 50), 10.0))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_blocks_of_rows_between_products_hold_rounded_values(dtype: str) -> None:
    lines = [
        "p = R.matmul(x, R.permute_dims(y))",
        f"h = R.nn.relu(R.astype(p, '{dtype}'))",
        "z = R.matmul(R.astype(h, 'float32'), y)",
        f"f = R.subtract(R.astype(z, '{dtype}'), R.astype(x, '{dtype}'))",
    ]
    agree(function("float32", lines, ["f"]), *[np.rint(v) for v in operands("float32", (64, 32))])


LINES = ["z = R.subtract(R.add(x, y), x)", "f = R.floor(z)"]
X, Y = np.full((5, 9), 2048, "float16"), np.full((5, 9), 1.5, "float16")  # x + y has no room for y


def test_fast_math_skips_the_roundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STRUCTIR_CACHE", str(tmp_path / "cache"))
    module = structir.parse(function("float16", LINES, ["z", "f"]))
    assert [v[0, 0] for v in structir.interpret(module, "main", X, Y)] == [2, 2]
    for fast in (True, False, True):  # the second and the third find the plans of the other
        executable = structir.compile(module, fast_math=fast)
        executable.save(tmp_path / "floored.sir")
        for each in (executable, structir.load(tmp_path / "floored.sir")):
            z, f = each["main"](X, Y)
            assert (z == (1.5 if fast else 2)).all() and (f == (1 if fast else 2)).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("axis", [0, 1])
def test_fast_math_stays_within_the_roundings(dtype: str, axis: int) -> None:
    lines = [
        "a = R.add(x, y)",
        f"s = R.max(R.multiply(a, a), axis={axis}, keepdims=True)",
        "z = R.divide(a, R.add(s, a))",
    ]
    source, args = function(dtype, lines, ["z"]), [np.abs(v) for v in operands(dtype, (8, 8))]
    (wanted,) = structir.interpret(structir.parse(source), "main", *args)
    (result,) = structir.compile(structir.parse(source), fast_math=True)["main"](*args)
    assert result.dtype == wanted.dtype
    unit = float(ml_dtypes.finfo(wanted.dtype).eps)
    pair = [v.astype("float64") for v in (result, wanted)]
    np.testing.assert_allclose(*pair, rtol=8 * unit, atol=unit / 8)
