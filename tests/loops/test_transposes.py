"""Transposes in registers, for all sizes and all partitions of the range."""

import numpy as np
import pytest

import structir

SIZES = [(3, 5), (16, 16), (17, 33), (1, 40), (40, 1), (0, 4), (4, 0), (70, 300)]


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
@pytest.mark.parametrize("threads", [1, 2])
def test_a_transposed_matrix(dtype: str, threads: int) -> None:
    text = f"""
@R.function
def main(x: R.Tensor(("n", "m"), "{dtype}")):
    return R.permute_dims(x)
"""
    compiled = structir.compile(structir.parse(text), num_threads=threads)
    assert ("T.transpose(" in compiled.source("main")) == (dtype != "int32")
    for shape in [*SIZES, (500, 333)]:
        x = np.random.default_rng(0).integers(-99, 99, shape).astype(dtype)
        np.testing.assert_array_equal(compiled["main"](x), x.T)


@pytest.mark.parametrize("axes", [(0, 2, 1, 3), (3, 1, 0, 2), (0, 2, 3, 1), (1, 0, 3, 2)])
@pytest.mark.parametrize("shape", [(2, 3, 17, 18), (1, 64, 5, 33), (2, 0, 3, 4), (16, 1, 1, 16)])
def test_more_axes_in_another_order(axes: tuple[int, ...], shape: tuple[int, ...]) -> None:
    text = f"""
@R.function
def main(x: R.Tensor(("a", "b", "c", "d"), "float32")):
    return R.permute_dims(x, axes={list(axes)})
"""
    compiled = structir.compile(structir.parse(text))["main"]
    x = np.random.default_rng(0).standard_normal(shape, np.float32)
    np.testing.assert_array_equal(compiled(x), x.transpose(axes))


def test_a_transposed_part() -> None:
    text = """
@R.function
def main(x: R.Tensor(("n", 40), "float32")):
    with R.dataflow():
        y = R.permute_dims(R.strided_slice(x, axes=[1], begin=[3], end=[36]))
        R.output(y)
    return y
"""
    compiled = structir.compile(structir.parse(text))
    x = np.random.default_rng(0).standard_normal((50, 40), np.float32)
    np.testing.assert_array_equal(compiled["main"](x), x[:, 3:36].T)


@pytest.mark.parametrize("reduction", ["sum", "max"])
def test_a_transposed_operand_of_reduced_columns(reduction: str) -> None:
    """The transposition stays: otherwise the inner loop reads with steps, once for each row."""
    text = f"""
@R.function
def main(x: R.Tensor(("n", 5), "float32"), y: R.Tensor(("m", 5), "float32")):
    columns = R.permute_dims(y)
    difference = R.subtract(R.expand_dims(x, [2]), columns)
    return R.{reduction}(R.multiply(difference, difference), axis=[1])
"""
    compiled = structir.compile(structir.parse(text))
    assert "T.transpose(" in compiled.source("main")
    rng = np.random.default_rng(0)
    for rows, columns in ((7, 33), (1, 1), (0, 3), (40, 16)):
        x, y = (rng.standard_normal((count, 5), np.float32) for count in (rows, columns))
        expected = getattr(((x[:, None] - y) ** 2), reduction)(-1)
        np.testing.assert_allclose(compiled["main"](x, y), expected, rtol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("axes", [(0, 3, 1, 2), (3, 0, 1, 2), (0, 1, 3, 2)])
def test_a_map_of_a_transposed_operand(dtype: str, threads: int, axes: tuple[int, ...]) -> None:
    """Blocks are transposed; operands in the order of the result, and vectors, are read in
    place."""
    names = ["a", "b", "c", "d"]
    order = ", ".join(f'"{names[axis]}"' for axis in axes)
    text = f"""
@R.function
def main(
    x: R.Tensor(("a", "b", "c", "d"), "{dtype}"),
    y: R.Tensor(({order}), "{dtype}"),
    z: R.Tensor(("{names[axes[1]]}", 1, 1), "{dtype}"),
):
    return R.maximum((R.permute_dims(x, axes={list(axes)}) + z) * y, z)
"""
    compiled = structir.compile(structir.parse(text), num_threads=threads)
    numbers = np.random.default_rng(0)
    for shape in [(2, 5, 7, 19), (1, 40, 9, 16), (3, 1, 200, 8), (2, 0, 3, 9), (9, 3, 3, 1)]:
        x = numbers.integers(-99, 99, shape).astype(dtype)
        moved = x.transpose(axes)
        y = numbers.integers(-99, 99, moved.shape).astype(dtype)
        z = numbers.integers(-99, 99, (moved.shape[1], 1, 1)).astype(dtype)
        np.testing.assert_array_equal(compiled["main"](x, y, z), np.maximum((moved + z) * y, z))
    assert ("T.transpose(" in compiled.source("main")) == (dtype != "int32")
