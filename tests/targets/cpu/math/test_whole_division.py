"""Divisions of integers against Python's exact ones, at the ends of dtypes and of float64."""

import numpy as np
import pytest

import structir

PROGRAM = """
@R.function
def main(x: R.Tensor(("n",), "{dtype}"), y: R.Tensor(("n",), "{dtype}")):
    return (R.floor_divide(x, y), R.floor_mod(x, y), R.divide(x, y))
"""


def operands(dtype: str) -> tuple[np.ndarray, np.ndarray]:
    ends, rng = np.iinfo(dtype), np.random.default_rng(0)
    corners = [ends.min, ends.min + 1, ends.max - 1, ends.max, 0, 1, 2, 3, -1, -2, -3]
    corners += [s * 2**k + d for s in (1, -1) for k in (51, 52, 53) for d in (-1, 0, 1)]
    corners = np.array([c for c in corners if ends.min <= c <= ends.max], dtype)
    first, second = (grid.ravel() for grid in np.meshgrid(corners, corners))
    x, y = rng.integers(ends.min, ends.max, (2, 2000), dtype, endpoint=True)
    shorter = y >> rng.integers(0, ends.bits, y.size).astype(dtype)
    return np.concatenate([first, x, x, shorter]), np.concatenate([second, y, shorter, x])


def exact(x: int, y: int) -> tuple[int, int, int]:
    if y == 0:
        return 0, 0, 0
    sign = 1 if (x < 0) == (y < 0) else -1
    return x // y, x % y, sign * (abs(x) // abs(y))


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int32", "uint32", "int64", "uint64"])
def test_divisions_are_exact(dtype: str) -> None:
    x, y = operands(dtype)
    compiled = structir.compile(structir.parse(PROGRAM.format(dtype=dtype)))["main"]
    wanted = [exact(*pair) for pair in zip(x.tolist(), y.tolist(), strict=True)]
    for result, values in zip(compiled(x, y), zip(*wanted, strict=True), strict=True):
        wrapped = np.array([v & (2 ** np.iinfo(dtype).bits - 1) for v in values], np.uint64)
        np.testing.assert_array_equal(result, wrapped.astype(dtype))
