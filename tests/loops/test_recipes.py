"""Recipes: each of their steps keeps the results; numbers and names are checked."""

import numpy as np
import pytest

import structir
from structir.errors import DiagnosticError
from structir.loops.handle import TargetInfo
from structir.loops.recipes import RECIPES, recipe_names
from structir.script import I, R
from tests.loops.recipes import check, kernels_of


@pytest.mark.parametrize("seed", [1, 3, 5, 8, 14])
def test_each_step_of_each_recipe_keeps_the_results(seed: int) -> None:
    for kernel in kernels_of(seed):
        for name in recipe_names():
            check(kernel, name, seed)


@I.ir_module
class Model:
    @R.function
    def main(x: R.Tensor(("n", "m", 4, 6), "float32"), b: R.Tensor((6,), "float32")):
        y = R.nn.gelu(R.multiply(x, x))
        z = R.nn.softmax(R.add(x, b))
        return y, z


def test_recipes_schedule_maps_and_rows() -> None:
    s = structir.schedule(Model)
    y, z = s.kernel("y").recipe("maps"), s.kernel("z").recipe("rows", recompute_below=2)
    assert "T.part(24 * n * m)" in str(y), "elements in one loop"
    assert str(z).count("for j") == 2 and "T.add_to" in str(z) and "reciprocal" in str(z)
    assert "T.part(4 * n * m)" in str(z), "rows in one loop"
    x, b = np.random.default_rng(1).normal(size=(2, 3, 4, 6)), np.linspace(0, 1, 6)
    arrays = [x.astype("float32"), b.astype("float32")]
    results = structir.compile(s.apply())["main"](*arrays)
    for result, expected in zip(results, structir.interpret(Model, "main", *arrays), strict=True):
        np.testing.assert_allclose(result, expected, 1e-5)


def test_a_recipe_of_a_user_is_declared_by_a_decorator() -> None:
    @structir.recipe
    def blocked(kernel, target, size=8):
        """Splits the outermost loop."""
        kernel.split(kernel.loops()[0], size * target.lanes)

    try:
        y = structir.schedule(Model).kernel("y")
        assert "32" in str(y.recipe("blocked", TargetInfo(lanes=16), size=2))
        assert blocked.config() == {"size": 8} and str(y.steps) == '[split("i1", 32)]'
        before = str(y)
        with pytest.raises(DiagnosticError, match="positive integer"):
            y.recipe(blocked, size=-1)
        assert str(y) == before
    finally:
        del RECIPES.added["blocked"]


@pytest.mark.parametrize(
    ("name", "numbers", "hint"),
    [("row", {}, "did you mean `rows`"), ("rows", {"recompute_belo": 1}, "`recompute_below`")],
)
def test_unknown_recipes_and_numbers_are_reported(name: str, numbers: dict, hint: str) -> None:
    with pytest.raises(DiagnosticError) as caught:
        structir.schedule(Model).kernel("z").recipe(name, **numbers)
    assert hint in str(caught.value.diagnostics[0].hint)
