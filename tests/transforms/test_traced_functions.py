"""Functions of users of JAX: compiled results equal those of JAX, which are stored."""

from pathlib import Path

import numpy as np
import pytest

import structir
from tests.data.traced_functions import CASES

EXPECTED = np.load(Path(__file__).parents[1] / "data" / "traced_functions.npz")


@pytest.mark.parametrize("name", CASES)
def test_results_equal_those_of_jax(name: str) -> None:
    function, arguments = CASES[name]
    leaves = structir.tree.leaves(structir.jit(function)(*arguments))
    expected = [EXPECTED[key] for key in EXPECTED.files if key.rpartition("/")[0] == name]
    assert len(leaves) == len(expected) > 0
    for leaf, value in zip(leaves, expected, strict=True):
        assert (leaf.shape, leaf.dtype) == (value.shape, value.dtype)
        np.testing.assert_allclose(leaf, value, rtol=2e-4, atol=2e-4)
