"""Products of rows with one matrix each, where an index may select no matrix."""

from __future__ import annotations

import numpy as np
import pytest

import structir

SOURCE = """
from structir.script import I, R, T


@I.ir_module
class Module:
    @R.function
    def main(
        x: R.Tensor({rows}, "{dtype}"), w: R.Tensor({matrices}, "{dtype}"),
        groups: R.Tensor((4,), "int64")
    ):
        return R.grouped_matmul(x, w, groups)
"""


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
@pytest.mark.parametrize("is_symbolic", [False, True])
@pytest.mark.parametrize(("count", "size"), [(2, 3), (2, 1), (0, 1), (1, 1), (2, 0), (0, 3)])
def test_rows_without_a_matrix_are_zero(
    count: int, size: int, is_symbolic: bool, dtype: str
) -> None:
    rows, matrices = ('(4, "k")', '("g", "k", 5)') if is_symbolic else ((4, size), (count, size, 5))
    module = structir.parse(SOURCE.format(rows=rows, matrices=matrices, dtype=dtype))
    random = np.random.default_rng(count)
    x = random.integers(-4, 5, (4, size)).astype(dtype)
    w = random.integers(-4, 5, (count, size, 5)).astype(dtype)
    groups = np.array([4, 1, -1, 0])
    expected = np.zeros((4, 5), dtype)
    for row, group in enumerate(groups):
        if 0 <= group < count:
            expected[row] = x[row] @ w[group]
    out = np.full((4, 5), 7, dtype)  # what a missing write would leave
    structir.compile(module)(x, w, groups, out=out)
    np.testing.assert_array_equal(out, expected)
