"""Every op, mapped over a new axis, equals the op applied to each element."""

from collections.abc import Iterator

import numpy as np
import pytest

import structir
from structir.batching.functions import Batching
from structir.errors import DiagnosticError, ShapeMismatchError
from structir.ir import IRModule
from tests.data.example_calls import ExampleCall, example_calls, leaves

EXAMPLES = [example for example in example_calls() if example.values]
BATCH = 3
# Results whose sizes depend on the elements, and shapes: a tensor of equal rows cannot hold them.
SIZES_OF_DATA = {"dynamic_strided_slice", "nonzero", "shape_of", "tensor_to_shape", "unique"}
# These ops have no statement of scalars, no row variable in front, and no decomposition.
LOOPED = {
    *("bucketize", "concat_rows", "dynamic_strided_slice", "grad.avg_pool2d_backward"),
    *("grad.max_pool2d_backward", "image.affine_grid", "image.grid_sample", "image.resize2d"),
    *("image.resize3d", "memory.view", "multinomial_from_uniform", "nn.attention_var_len"),
    *("nn.class_indices", "nonzero", "ragged.contiguous_rows", "size", "unique"),
    *("segment_argmax", "segment_argmin", "segment_ids", "segment_max", "segment_min"),
    *("segment_prod", "segment_sum"),
    *("vision.all_class_non_max_suppression", "vision.get_valid_counts", "vision.roi_align"),
    "vision.roi_pool",
}


def choices(count: int) -> Iterator[tuple[bool, ...]]:
    """All operands mapped, then each alone."""
    yield (True,) * count
    if count > 1:
        for k in range(min(count, 3)):
            yield tuple([k == other for other in range(count)])


def rows_of(value: np.ndarray) -> list[np.ndarray]:
    return [np.roll(value.ravel(), k).reshape(value.shape) for k in range(BATCH)]


@pytest.mark.parametrize("name", sorted({e.name for e in EXAMPLES}))
def test_mapped_calls_equal_calls_of_elements(name: str) -> None:
    for number, example in enumerate([e for e in EXAMPLES if e.name == name]):
        for mapped in choices(len(example.values)):
            check(example, mapped, None if number % 2 else BATCH)


def check(example: ExampleCall, mapped: tuple[bool, ...], size: int | None) -> None:
    rows = [
        rows_of(value) if flag else [value] * BATCH
        for value, flag in zip(example.values, mapped, strict=True)
    ]
    arguments = [np.stack(row) if flag else row[0] for row, flag in zip(rows, mapped, strict=True)]
    try:
        expected = [
            leaves(structir.interpret(example.module, "main", *[row[k] for row in rows]))
            for k in range(BATCH)
        ]
    except ShapeMismatchError:  # such as indices out of range in another order
        return
    batching = Batching(example.module)
    try:
        batching.add("batched", "main", mapped, size)
    except DiagnosticError:
        assert example.name in SIZES_OF_DATA
        return
    assert not batching.looped or example.name in LOOPED
    module = IRModule({**example.module.functions, **batching.generated})
    try:
        results = leaves(structir.interpret(module, "batched", *arguments))
    except ShapeMismatchError:  # results of several sizes
        assert example.name in SIZES_OF_DATA
        return
    for k, result in enumerate(results):
        assert result.shape[0] == BATCH
        for element, parts in zip(result, expected, strict=True):
            assert element.shape == parts[k].shape and element.dtype == parts[k].dtype
            np.testing.assert_allclose(
                element.astype("float64"), parts[k].astype("float64"), rtol=1e-4, atol=1e-5
            )
