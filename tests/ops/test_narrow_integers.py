"""Integers of 4 bits, interpreted and compiled."""

import numpy as np
import pytest

import structir
from structir.ir.dtype import numpy_dtype


@pytest.mark.parametrize("dtype", ["int4", "uint4", "int8", "int64"])
@pytest.mark.parametrize("op", ["floor_divide", "floor_mod", "mod", "divide"])
def test_large_arrays_of_integers_are_divided_by_zero(op: str, dtype: str) -> None:
    """Large, because NumPy releases the GIL for them, which ml_dtypes does not expect."""
    module = structir.parse(f"""
@R.function
def main(x: R.Tensor(("n",), "{dtype}"), y: R.Tensor(("n",), "{dtype}")):
    return R.{op}(x, y)
""")
    numbers = np.arange(16) if dtype == "uint4" else np.arange(-8, 8)
    grid = np.meshgrid(numbers, numbers)
    x, y = (np.repeat(each, 9).astype(numpy_dtype(dtype)) for each in grid)
    expected = structir.interpret(module, "main", x, y)
    np.testing.assert_array_equal(structir.compile(module)["main"](x, y), expected)
