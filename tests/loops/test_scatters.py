"""Transposed convolutions as products with scattered sums, correct at every edge."""

from typing import Any

import numpy as np
import pytest

import structir

Array = np.ndarray[Any, np.dtype[Any]]
# input, weights, parameters; several to one kernel each
CASES = [
    ((2, 3, 5, 6), (3, 4, 3, 3), "strides=2, padding=1, output_padding=1"),
    ((1, 16, 7, 9), (16, 16, 4, 4), "strides=2, padding=1"),
    ((1, 8, 6, 6), (8, 8, 2, 2), "strides=2"),
    ((2, 4, 5, 5), (4, 6, 3, 3), "padding=1"),
    ((1, 4, 5, 5), (4, 6, 3, 3), "dilation=2"),
    ((1, 4, 5, 5), (4, 2, 3, 3), "strides=2, padding=1, groups=2"),
    ((1, 6, 5, 7), (6, 6, 5, 5), "strides=3, padding=2, output_padding=1"),
    ((1, 16, 9, 9), (16, 1, 4, 4), "strides=2, padding=1"),
    ((1, 4, 5, 5), (4, 4, 1, 1), "strides=2"),
    ((1, 4, 5, 5), (4, 4, 3, 3), "strides=2, dilation=2"),
]


def numbers(shape: tuple[int, ...], seed: int) -> Array:
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


def program(x: str, weights: str, parameters: str, constants: dict[str, Array]) -> Any:
    given = "" if constants else f', w: R.Tensor({weights}, "float32")'
    read = '        w = metadata["w"]\n' if constants else ""
    text = f"""
@R.function
def main(x: R.Tensor({x}, "float32"){given}):
    with R.dataflow():
{read}        y = R.nn.conv2d_transpose(x, w, {parameters})
        z = R.nn.relu(y)
        R.output(z)
    return z
"""
    return structir.parse(text, constants=constants)


@pytest.mark.sampled(8)
@pytest.mark.parametrize(("x", "weights", "parameters"), CASES)
@pytest.mark.parametrize("constant", [True, False])
def test_as_the_interpreter_has_it(
    x: tuple[int, ...], weights: tuple[int, ...], parameters: str, constant: bool
) -> None:
    image, held = numbers(x, 0), numbers(weights, 1)
    module = program(str(x), str(weights), parameters, {"w": held} if constant else {})
    args = (image,) if constant else (image, held)
    wanted = structir.interpret(module, "main", *args)
    found = structir.compile(module)["main"](*args)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


def test_one_compilation_for_all_sizes_without_a_loop_that_adds_to_the_result() -> None:
    held = numbers((16, 16, 4, 4), 1)
    module = program('("n", 16, "high", "wide")', "", "strides=2, padding=1", {"w": held})
    compiled = structir.compile(module)
    for shape in ((1, 16, 4, 4), (3, 16, 7, 2), (1, 16, 20, 31), (0, 16, 4, 4)):
        image = numbers(shape, 2)
        wanted = structir.interpret(module, "main", image)
        np.testing.assert_allclose(compiled["main"](image), wanted, rtol=1e-4, atol=1e-5)
    assert "_product(" in compiled.source("main")
    assert "add_to" not in compiled.source("main")
