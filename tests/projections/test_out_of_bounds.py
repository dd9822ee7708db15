"""Policies for reads out of bounds: regions and values, compared with NumPy's take and pad."""

from random import Random

import numpy as np
import pytest

import structir
from structir import ScalarExpr, op
from structir.errors import DiagnosticError, StructInfoError
from structir.opdef import f32
from structir.projections.boxes import Region, region
from structir.projections.maps import Projection
from structir.projections.out_of_bounds import region_of_block, values_at
from structir.projections.program import program_of

TAKE = {"wrap": "wrap", "clamp": "clip"}


def elements(found: Region, shape: tuple[int, ...]) -> np.ndarray:
    """Returns the mask of the elements of a region."""
    mask = np.zeros(shape, bool)
    for box in found.boxes:
        mask[np.ix_(*[list(axis.elements()) for axis in box.axes])] = True
    return mask


def random_projection(rng: Random, policy: str, rank: int) -> Projection:
    rows = [[0] * rank for _ in range(rank)]
    for k in range(rank):
        rows[k][k] = rng.choice([-2, -1, 1, 1, 2])
    offset = tuple([rng.randrange(-4, 5) for _ in range(rank)])
    shape = tuple([rng.randrange(1, 4) for _ in range(rank)])
    return Projection(tuple(map(tuple, rows)), offset, shape, policy)


@pytest.mark.parametrize("policy", ["wrap", "clamp", "pad"])
@pytest.mark.parametrize("seed", range(12))
def test_regions_are_the_elements_that_take_reads(policy: str, seed: int) -> None:
    rng = Random(seed)
    shape = tuple([rng.randrange(1, 7) for _ in range(rng.choice([1, 2]))])
    projection = random_projection(rng, policy, len(shape))
    numbers = np.arange(np.prod(shape)).reshape(shape)
    start = [rng.randrange(4) for _ in shape]
    stop = [a + rng.randrange(1, 4) for a in start]
    read = np.zeros(shape, bool)
    for position in np.ndindex(*[b - a for a, b in zip(start, stop, strict=True)]):
        at = [a + p for a, p in zip(start, position, strict=True)]
        box = values_at(numbers, projection, at, fill=-1)
        expected = expected_box(numbers, projection, at)
        assert np.array_equal(box, expected)
        read.reshape(-1)[box[box >= 0]] = True
    found = region_of_block(projection, start, stop, shape)
    assert found.exact
    assert np.array_equal(elements(found, shape), read)


def expected_box(numbers: np.ndarray, projection: Projection, at: list[int]) -> np.ndarray:
    """Returns a box by NumPy: `take` along each axis, or a padded array."""
    box = numbers
    margin = 40
    if projection.out_of_bounds == "pad":
        box = np.pad(numbers, margin, constant_values=-1)
    for axis, (row, offset, width) in enumerate(
        zip(projection.matrix, projection.offset, projection.shape, strict=True)
    ):
        first = offset + sum([factor * p for factor, p in zip(row, at, strict=True)])
        indices = np.arange(first, first + width)
        if projection.out_of_bounds == "pad":
            box = np.take(box, indices + margin, axis)
        else:
            box = np.take(box, indices, axis, mode=TAKE[projection.out_of_bounds])
    return box


def test_forbid_names_the_axis_and_the_positions() -> None:
    projection = Projection(((1, 0), (0, 1)), (-1, -1), (3, 3), "forbid")
    inside = region_of_block(projection, (1, 1), (2, 2), (4, 3))
    assert inside.bounds == ((0, 0), (3, 3))
    with pytest.raises(StructInfoError, match="axis 0: reads out of bounds are forbidden"):
        region_of_block(projection, (0, 1), (1, 2), (4, 3))


@op("x[i + k - 1 : i] @ F, w[k] @ F -> y[i] @ F", reduce="sum", out_of_bounds={"x": "wrap"})
def wrapped_window(x: ScalarExpr, w: ScalarExpr) -> ScalarExpr:
    """Correlates a cyclic vector."""
    return x * w


@op("x[i + k - 1 : i] @ F, w[k] @ F -> y[i] @ F", reduce="sum", out_of_bounds={"x": "clamp"})
def clamped_window(x: ScalarExpr, w: ScalarExpr) -> ScalarExpr:
    """Correlates a vector continued by its ends."""
    return x * w


@op("x[i + k - 1 : i] @ F, w[k] @ F -> y[i] @ F", reduce="sum", out_of_bounds={"x": "pad"})
def padded_window(x: ScalarExpr, w: ScalarExpr) -> ScalarExpr:
    """Correlates a vector continued by zeros."""
    return x * w


@op("x[i + k - 1 : i] @ F, w[k] @ F -> y[i] @ F", reduce="sum", out_of_bounds={"x": "forbid"})
def strict_window(x: ScalarExpr, w: ScalarExpr) -> ScalarExpr:
    """Correlates a vector without padding."""
    return x * w


for declared in (wrapped_window, clamped_window, padded_window):
    declared.example(f32[6], f32[3])


def source(name: str, size: object = 6) -> str:
    return f"""
@R.function
def main(x: R.Tensor(({size!r},), "float32"), w: R.Tensor((3,), "float32")):
    y = R.{name}(x, w)
    return y
"""


@pytest.mark.parametrize(
    ("name", "mode"),
    [("wrapped_window", "wrap"), ("clamped_window", "edge"), ("padded_window", "constant")],
)
@pytest.mark.parametrize("size", [1, 2, 6])
def test_values_of_an_op_follow_its_policy(name: str, mode: str, size: int) -> None:
    module = structir.parse(source(name, "n"))
    x = np.arange(1, size + 1, dtype="float32")
    w = np.array([1, 10, 100], "float32")
    expected = np.correlate(np.pad(x, 1, mode=mode), w, "valid")
    assert structir.interpret(module, "main", x, w).tolist() == expected.tolist()
    assert structir.compile(module)["main"](x, w).tolist() == expected.tolist()


@pytest.mark.parametrize(
    ("name", "first", "last"),
    [
        ("wrapped_window", {0, 1, 5}, {4, 5, 0}),
        ("clamped_window", {0, 1}, {4, 5}),
        ("padded_window", {0, 1}, {4, 5}),
    ],
)
def test_regions_of_an_op_follow_its_policy(name: str, first: set[int], last: set[int]) -> None:
    module = structir.parse(source(name))
    program = program_of(module["main"])
    x = program.values[module["main"].params[0]]
    for position, expected in ((0, first), (5, last)):
        regions = program.required_regions({program.result: region((position,), (position + 1,))})
        assert set(np.nonzero(elements(regions[x], (6,)))[0].tolist()) == expected


def test_a_forbidden_read_is_an_error_of_the_call() -> None:
    module = structir.parse(source("strict_window"))
    with pytest.raises(DiagnosticError, match=r"E0662.*reads out of bounds are forbidden"):
        program_of(module["main"])


def test_an_unknown_policy_is_rejected() -> None:
    with pytest.raises(DiagnosticError, match="expected one of forbid, wrap, clamp, pad"):

        @op("x[i] -> y[i]", out_of_bounds={"x": "mirror"})
        def mirrored(x: ScalarExpr) -> ScalarExpr:
            return x

    with pytest.raises(DiagnosticError, match="expected an operand"):

        @op("x[i] -> y[i]", out_of_bounds={"z": "wrap"})
        def misnamed(x: ScalarExpr) -> ScalarExpr:
            return x
