"""Edges of ops where compiled code and the reference must say the same."""

import numpy as np
import pytest

import structir
from tests.backend.agreement import assert_agree


def program(body, *arrays, shapes=None):
    """A module whose parameters `a0`, `a1`, ... fit the arrays, or have the stated shapes."""
    stated = shapes or [str(tuple(map(int, a.shape))) for a in arrays]
    pairs = enumerate(zip(arrays, stated, strict=True))
    params = ", ".join(f'a{k}: R.Tensor({shape}, "{a.dtype}")' for k, (a, shape) in pairs)
    return structir.parse(
        f"@R.function\ndef main({params}):\n    found = {body}\n    return found\n"
    )


def both_ways(body, *arrays, shapes=None):
    """The interpreted result, after the compiled one was found equal to it."""
    module = program(body, *arrays, shapes=shapes)
    wanted = structir.interpret(module, "main", *arrays)
    assert_agree(wanted, structir.compile(module)["main"](*arrays))
    return wanted


@pytest.mark.parametrize("own", ["int8", "int16"])
def test_products_are_summed_in_the_stated_wider_dtype(own):
    left, right = np.full((2, 3), 100, own), np.full((3, 2), 111, own)
    found = both_ways('R.matmul(a0, a1, out_dtype="int32")', left, right)
    np.testing.assert_array_equal(found, np.full((2, 2), 33300, "int32"))


@pytest.mark.parametrize("op", ["variance", "std"])
def test_spread_of_integers_is_rounded_once_at_the_end(op):
    x = np.array([[1, 2, 2], [3, 5, 9]], "int32")
    exact = {"variance": np.var, "std": np.std}[op](x, axis=1)
    found = both_ways(f"R.{op}(a0, axis=1)", x)
    np.testing.assert_array_equal(found, exact.astype("int32"))
