"""Maps and rows compiled by recipes: the results of the generators, bit by bit."""

from functools import partial

import numpy as np
import pytest

import structir
from structir.backend.cpu.kernels import kernel_count
from structir.backend.loops import shared_numbers
from structir.backend.loops.by_recipe import recipe_kernel, with_recipes
from structir.backend.outline import outline

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


def compiled(body: str, **options: bool) -> structir.Executable:
    return structir.compile(structir.parse(FUNCTION.format(body)), **options)


def test_without_a_naive_kernel_the_generator_remains() -> None:
    executable = compiled("R.nn.relu(R.exp(R.astype(x, 'float16')))")
    x, b = np.ones((2, 24), "float32"), np.ones(24, "float32")
    assert "round" in executable.source() or "half_bits" in executable.source()
    result = executable["main"](x, b, np.float32(1), np.zeros(1, int))
    np.testing.assert_allclose(result, np.exp(x.astype("float16")), 1e-3)


def test_names_and_sizes_of_a_program_have_no_code_of_their_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("STRUCTIR_CACHE", "off")
    compiled("R.multiply(x, R.exp(x))")
    count = kernel_count()
    text = '@R.function\ndef f(y: R.Tensor(("a", "b", "c"), "float32")):\n    return y * R.exp(y)\n'
    structir.compile(structir.parse(text))
    assert kernel_count() == count


@pytest.mark.parametrize("exact", [False, True])
def test_parts_are_of_all_rows(exact: bool) -> None:
    body = "R.permute_dims(R.reshape(R.divide(x, s), (1, -1, 4, 6)), (0, 2, 1, 3))"
    assert "a part of 0 to 4 * n" in compiled(body, exact_division=exact).source()


def test_loops_without_a_common_operand_stay_apart() -> None:
    params = ", ".join(f'{name}: R.Tensor(("n", 24), "float32")' for name in "xy")
    text = f"@R.function\ndef main({params}):\n    return R.concat((x, y), axis=1)\n"
    (kernel,) = outline(structir.parse(text), "main").kernels
    assert kernel.text.text.count(" in range(24):") == 2


@pytest.mark.parametrize("op", ["floor_divide", "floor_mod"])
def test_quotients_and_remainders_of_floats(op: str) -> None:
    executable = compiled(f"R.{op}(x, b)")
    assert "@I.kernel" in executable.source()
    rng = np.random.default_rng(3)
    x, b = rng.normal(size=(5, 24)).astype("float32"), rng.normal(size=24).astype("float32")
    result = executable["main"](x, b, np.float32(1), np.zeros(1, int))
    function = {"floor_divide": np.floor_divide, "floor_mod": np.mod}[op]
    np.testing.assert_array_equal(result, function(x, b))
