"""A product whose left operand is permuted multiplies all of its rows at once."""

import numpy as np
import pytest

import structir

TEXT = """
@R.function
def main(x: R.Tensor(({shape}), "float32"), w: R.Tensor((64, {columns}), "float32")):
    return R.matmul(R.permute_dims(x, axes=[1, 0, 2]), w)
"""


def _calls_in_a_loop(shape: str, columns: int) -> bool:
    """Whether the product of a permuted operand is computed by one call for each group of rows."""
    exe = structir.compile(structir.parse(TEXT.format(shape=shape, columns=columns)))
    rng = np.random.default_rng(0)
    w = rng.standard_normal((64, columns)).astype("float32")
    for batch in (1, 2, 5):
        x = rng.standard_normal((batch, 32, 64)).astype("float32")
        np.testing.assert_allclose(exe["main"](x, w), x.swapaxes(0, 1) @ w, rtol=1e-4, atol=1e-4)
    return "R.permute_dims" not in exe.source()


@pytest.mark.parametrize("shape", ['"s", 32, 64', '"s", "t", 64'])
def test_rows_in_small_groups_are_copied(shape):
    assert not _calls_in_a_loop(shape, 256)


def test_few_columns_are_not_worth_a_copy():
    assert _calls_in_a_loop('"s", 32, 64', 32)
