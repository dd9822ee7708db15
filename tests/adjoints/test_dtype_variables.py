"""Tests of gradients of functions with dtype variables."""

import numpy as np
import pytest

import structir
from structir import passes

PROGRAM = """
@R.function
def main(
    x: R.Tensor(("n", "k"), "'T"), w: R.Tensor(("k", "k"), "'T"), unused: R.Tensor(("k",), "'T")
):
    y = R.nn.softmax(R.nn.relu(R.matmul(x, w)))
    loss = R.sum(R.multiply(y, y))
    return {result}
"""


@pytest.mark.parametrize(("result", "target"), [("loss", 0), ("(y, loss)", 1)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_gradient_of_a_generic_function_has_the_dtype_of_each_call(
    result: str, target: int, dtype: str
) -> None:
    text = PROGRAM.format(result=result)
    known = text.replace("'T", dtype)
    rng = np.random.default_rng(0)
    arguments = [rng.standard_normal(s).astype(dtype) for s in [(3, 2), (2, 2), (2,)]]
    gradients = []
    for program in (text, known):
        module = passes.Gradient(target=target)(structir.parse(program))
        gradients.append(structir.compile(module)["main_adjoint"](*arguments)[1])
    for actual, expected in zip(*gradients, strict=True):
        assert actual.dtype == dtype
        np.testing.assert_allclose(actual, expected, rtol=1e-6)
