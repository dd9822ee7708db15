"""Maps and rows compiled by recipes: the results of the generators, bit by bit."""

from functools import partial

import numpy as np
import pytest

import structir
from structir.backend.loops import shared_numbers
from structir.backend.loops.by_recipe import recipe_kernel, with_recipes

BODIES = {
    "a map in row-major order": "R.nn.gelu(R.multiply(x, x))",
    "a map with a broadcast row": "R.divide(R.exp(x), R.add(b, s))",
    "a division by a column": "R.divide(x, R.sum(x, axis=[1], keepdims=True))",
    "a softmax": "R.nn.softmax(R.add(x, b))",
    "a normalisation": "R.nn.layer_norm(x, b, b, axes=[-1])",
    "a reduction of rows": "R.max(R.abs(x), axis=[1])",
    "a mean of all elements": "R.mean(x)",
    "a scalar": "R.multiply(s, s)",
    "a concatenation": "R.concat((R.sign(x), R.negative(x), x), axis=1)",
    "rows read by indices": "R.take(x, i, axis=0)",
    "integers": "R.floor_divide(R.add(i, i), R.const(3, 'int64'))",
    "booleans": "R.logical_and(R.greater(x, b), R.isfinite(x))",
    "a result over its operand": "R.exp(R.cumsum(x, axis=1))",
}
FUNCTION = """
@R.function
def main(
    x: R.Tensor(("n", 24), "float32"),
    b: R.Tensor((24,), "float32"),
    s: R.Tensor((), "float32"),
    i: R.Tensor(("k",), "int64"),
):
    y = {}
    return y
"""


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES.keys())
def test_recipes_compute_the_bits_of_the_generators(
    body: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, kernels = structir.parse(FUNCTION.format(body)), []

    def counted(*args):
        kernels.append(recipe_kernel(*args))
        return kernels[-1]

    rng = np.random.default_rng(1)
    x, b = rng.normal(size=(5, 24)).astype("float32"), rng.normal(size=24).astype("float32")
    arguments = (x, b, np.float32(1.5), np.array([3, 0, 4, -1]))
    run = partial(structir.interpret, module, "main")
    with with_recipes():
        expected = structir.compile(module)["main"](*arguments)
    np.testing.assert_allclose(expected, run(*arguments), 2e-3, 1e-5)
    monkeypatch.setattr(shared_numbers, "recipe_kernel", counted)
    monkeypatch.setenv("STRUCTIR_CACHE", "off")  # or the plan of an earlier run is loaded
    with with_recipes("maps", "rows"):
        result = structir.compile(module)["main"](*arguments)
    assert kernels and all(kernels), "the groups are compiled by recipes"
    assert result.dtype == expected.dtype and np.array_equal(result, expected)


def test_without_a_naive_kernel_the_generator_remains() -> None:
    module = structir.parse(FUNCTION.format("R.floor_divide(x, b)"))
    x, b = np.ones((2, 24), "float32"), np.full(24, 0.3, "float32")
    with with_recipes("maps"):
        result = structir.compile(module)["main"](x, b, np.float32(1), np.zeros(1, int))
    assert result.tolist() == [[3.0] * 24] * 2
