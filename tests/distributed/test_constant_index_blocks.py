"""Shards and meshes compute calls with constant indices as the whole function does."""

import itertools

import numpy as np
import pytest

import structir
from structir.distributed import plan, shard
from structir.distributed.random_cuts import random_mesh_program
from structir.ir import IRModule

ROWS = 'R.const([[1.0, 2.0, 3.0, 4.0], [10.0, 20.0, 30.0, 40.0], [7.0, 5.0, 3.0, 1.0]], "float32")'
BODIES = (
    'R.take(x, R.const(2, "int64"), axis=0)',
    'R.take(x, R.const([2, 1, 0], "int32"), axis=0)',
    'R.take(x, R.const([[3, 1], [1, 3]], "int64"), axis=1)',
    'R.take(x, R.const([1, 1], "int64"), axis=1)',
    'R.take(x, R.const([9, 10], "int64"), axis=0, mode="clip")',
    'R.segment_expand(x, R.const([0, 0, 2, 2], "int64"), R.const([0, 2, 2], "int64"), '
    'R.const([2, 2, 4], "int64"))',
    'R.sum(R.take(x, R.const([2, 0], "int64"), axis=0), axis=[0])',
    'R.gather_nd(x, R.const([[0, 2], [2, 1]], "int64"))',
    'R.gather_nd(x, R.const([[1], [2]], "int64"))',
    'R.gather_elements(x, R.const([[0, 0], [2, 2], [1, 1]], "int64"), axis=0)',
    f'R.index_put(x, (R.const([0, 0, 0], "int64"),), {ROWS}, accumulate=True)',
    f'R.index_put(x, (R.const([0, 2, 0], "int64"),), {ROWS}, accumulate=True)',
    f'R.index_put(x, (R.const([2, 1, 0], "int64"),), {ROWS}, accumulate=False)',
    f'R.index_put(x, (R.const([1, 1, 1], "int64"),), {ROWS}, accumulate=False)',
    'R.index_put(x, (R.const([1, 1], "int64"), R.const([3, 3], "int64")), '
    'R.const([1.0, 5.0], "float32"), accumulate=True)',
    'R.scatter_elements(x, R.const([[0, 0], [2, 2], [0, 0]], "int64"), '
    'R.const([[9.0, 0.0], [0.0, 99.0], [99.0, 9.0]], "float32"), axis=0, reduction="max")',
    'R.scatter_elements(x, R.const([[1, 1, 1]], "int64"), '
    'R.const([[9.0, 8.0, 7.0]], "float32"), axis=1, reduction="add")',
    f'R.scatter_nd(x, R.const([[1], [1], [1]], "int64"), {ROWS}, reduction="add")',
    f'R.scatter_nd(x, R.const([[2], [0], [0]], "int64"), {ROWS}, reduction="mul")',
)


def case(body: str) -> tuple[IRModule, np.ndarray, np.ndarray]:
    text = f'@R.function\ndef main(x: R.Tensor((3, 4), "float32")):\n    y = {body}\n    return y\n'
    module = structir.parse(text)
    x = np.arange(12, dtype="float32").reshape(3, 4) + 1
    return module, x, structir.interpret(module, "main", x)


@pytest.mark.parametrize("body", BODIES)
def test_blocks_of_calls_with_constant_indices(body: str) -> None:
    module, x, expected = case(body)
    for grid in itertools.product(*[(1, n) for n in expected.shape]):
        np.testing.assert_array_equal(shard(module, grid=grid)(x), expected, str(grid))
    for seed in range(2):
        program = random_mesh_program(module, "main", [x], seed)
        np.testing.assert_array_equal(program(x), expected, str(program.first_plan.choices))


def test_a_shard_receives_the_elements_at_constant_indices() -> None:
    module, _, _ = case(BODIES[0])
    shards = plan(module, grid=(2,)).shards
    assert [s.block_of("x") for s in shards] == [((2, 0), (3, 2)), ((2, 2), (3, 4))]


def test_operands_whose_sizes_bound_the_indices() -> None:
    text = """
@R.function
def main(x: R.Tensor((3, 4), "float32"), rows: R.Tensor((5,), "int64"),
         starts: R.Tensor((3,), "int64"), limits: R.Tensor((3,), "int64")):
    a = R.segment_expand(x, rows, starts, limits)
    b = R.add(starts, limits)
    pair = (a, b)
    return pair
"""
    module, x = structir.parse(text), np.arange(12, dtype="float32").reshape(3, 4)
    args = [x, *map(np.array, ([0, 0, 2, 2, 2], [0, 2, 2], [2, 2, 5]))]
    expected = structir.interpret(module, "main", *args)
    for seed in range(3):
        for actual, whole in zip(
            random_mesh_program(module, "main", args, seed)(*args), expected, strict=True
        ):
            np.testing.assert_array_equal(actual, whole)
