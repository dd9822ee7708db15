"""Tests of the dtypes of numbers and sizes beside tensors."""

from typing import Any

import numpy as np
import pytest

import structir
from structir.errors import ShapeMismatchError

TEXT = """
@R.function
def main(x, c, y: R.Tensor(("n", "m"), "float16")):
    n = T.int64()
    m = T.int64()
    a = R.where(x > 1, x * 2 - 1, 0)
    chosen = R.where(c, 1.0, 0.0)
    return a, R.maximum(1, x), chosen, y / n + (n + m), R.take(y, n - 1, axis=0), R.sum(x) * m
"""


def answers(x: Any, c: Any, y: Any) -> tuple[Any, ...]:
    one, n, m = x.dtype.type(1), *map(np.float16, y.shape)
    a = np.where(x > one, x * (one + one) - one, x.dtype.type(0))
    chosen = np.where(c, np.float32(1), np.float32(0))
    return (
        a,
        np.maximum(one, x),
        chosen,
        y / n + (n + m),
        y[-1],
        x.sum(dtype=x.dtype) * x.dtype.type(m),
    )


@pytest.mark.parametrize("dtype", ["int8", "uint16", "float16", "float64"])
def test_a_number_has_the_dtype_of_the_tensors_beside_it(dtype: str) -> None:
    module = structir.parse(TEXT)
    assert structir.structural_equal(structir.parse(module.script()), module)
    arguments = np.arange(4).astype(dtype), np.array([True, False]), np.ones((2, 3), "float16")
    expected = answers(*arguments)
    for result, answer in zip(
        structir.interpret(module, "main", *arguments), expected, strict=True
    ):
        assert result.dtype == answer.dtype
        np.testing.assert_array_equal(result, answer)


def test_an_unknown_dtype_is_inferred_as_a_variable() -> None:
    module = structir.infer(structir.parse("@R.function\ndef main(x):\n    return x * 2 + 1\n"))
    assert str(module["main"].ret_struct_info.dtype_var) == "'T"
    assert structir.compile(module)(np.arange(3, dtype="int8")).tolist() == [1, 3, 5]


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        ("int32", [1.5]),
        ("int32", [1.0]),
        ("int64", 2.5),
        ("int8", [["3"]]),
        ("bool", [2]),
        ("float32", [None]),
        ("float32", ["1"]),
        ("uint8", [300]),
    ],
)
def test_an_argument_of_python_numbers_keeps_its_values(dtype: str, value: Any) -> None:
    text = f"@R.function\ndef main(x: R.Tensor(dtype='{dtype}')):\n    return x\n"
    with pytest.raises(ShapeMismatchError, match=dtype):
        structir.interpret(structir.parse(text), "main", value)


def test_exact_numbers_are_arguments() -> None:
    for dtype, value in (
        ("int32", [True, 2]),
        ("bool", [0, 1]),
        ("float32", [1, 2**70]),
        ("int8", []),
    ):
        text = f"@R.function\ndef main(x: R.Tensor(dtype='{dtype}')):\n    return x\n"
        result = structir.interpret(structir.parse(text), "main", value)
        assert result.dtype == dtype
        np.testing.assert_array_equal(result, np.array(value, dtype))
