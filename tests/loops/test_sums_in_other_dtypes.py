"""Sums and products with a dtype of their own convert the elements before they combine them."""

import numpy as np
import pytest

import structir

SOURCES = ["bool", "int8", "uint8", "int32", "float16", "float32"]
TOTALS = ["int32", "int64", "float32", "float64"]
TOLERANCE = {"float32": 1e-5, "float64": 1e-12}


def values(dtype: str, *shape: int, scale: float = 60.0) -> np.ndarray:
    random = np.random.default_rng(1)
    return (
        random.integers(0, 2, shape).astype(bool)
        if dtype == "bool"
        else (random.uniform(0.0 if dtype == "uint8" else -scale, scale, shape).astype(dtype))
    )


def agree(module: structir.ir.IRModule, wanted: np.ndarray, *args: np.ndarray) -> None:
    for result in (
        structir.interpret(module, "main", *args),
        structir.compile(module)["main"](*args),
    ):
        assert result.dtype == wanted.dtype
        np.testing.assert_allclose(result, wanted, TOLERANCE.get(wanted.dtype.name, 0), 1e-3)


@pytest.mark.parametrize("total", TOTALS)
@pytest.mark.parametrize("source", SOURCES)
def test_scans(source: str, total: str) -> None:
    x = values(source, 3, 200)
    ones = np.where(np.arange(200) < 5, x, np.ones((), source)).astype(source)
    for op, operand in (("cumsum", x), ("cumprod", ones)):
        module = structir.parse(
            f"@R.function\ndef main(x: R.Tensor((3, 200), '{source}')):\n"
            f"    return R.{op}(x, axis=1, dtype='{total}')\n"
        )
        agree(module, getattr(np, op)(operand, axis=1, dtype=total), operand)


@pytest.mark.parametrize("total", ["float32", "float64"])
@pytest.mark.parametrize("source", SOURCES)
def test_products(source: str, total: str) -> None:
    x, y = values(source, 3, 50), values(source, 50, 4)
    module = structir.parse(
        f"@R.function\ndef main(x: R.Tensor((3, 50), '{source}'), y: R.Tensor((50, 4), '{source}'))"
        f":\n    return R.matmul(x, y, out_dtype='{total}')\n"
    )
    agree(module, (x.astype("float64") @ y.astype("float64")).astype(total), x, y)
