"""Options of plans that are no sizes, counts or grids are errors with an edit."""

import numpy as np
import pytest

import structir
from structir.distributed import plan, search
from structir.errors import DiagnosticError

MODULE = structir.parse("""
@R.function
def main(x: R.Tensor(("n", 4), "float32")):
    return R.nn.softmax(x)
""")


@pytest.mark.parametrize("size", [-1, "8", 8.0, True, None])
def test_sizes_are_integers_of_at_least_0(size):
    for make in (plan, search):
        with pytest.raises(DiagnosticError, match="sizes: n: expected an integer of at least 0"):
            make(MODULE, workers=2, sizes={"n": size})


def test_sizes_are_a_dict():
    for make in (plan, search):
        with pytest.raises(DiagnosticError, match="sizes: expected a dict, found 'n=8'"):
            make(MODULE, workers=2, sizes="n=8")


def test_sizes_may_be_integers_of_numpy():
    assert str(plan(MODULE, workers=2, sizes={"n": np.int64(8)})) == str(
        plan(MODULE, workers=2, sizes={"n": 8})
    )


@pytest.mark.parametrize("count", ["2", 0, -1, 2.5, True])
def test_counts_are_positive_integers(count):
    for option in ("workers", "reduce"):
        with pytest.raises(DiagnosticError, match=f"{option} must be a positive integer") as caught:
            plan(MODULE, **{option: count}, sizes={"n": 8})
        assert caught.value.diagnostics[0].hint == f"`{option}=1`"


@pytest.mark.parametrize("grid", ["2", 3, (2.5, 1), ("2", "1")])
def test_grids_are_integers(grid):
    with pytest.raises(DiagnosticError, match="grid: expected one integer for each axis, found"):
        plan(MODULE, grid=grid, sizes={"n": 8})
