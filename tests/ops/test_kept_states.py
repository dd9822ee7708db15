"""States of loops keep their shapes; where only a rank is declared, a run checks this."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import structir
from structir.errors import ShapeMismatchError

PROGRAMS = {
    "reduce": """
@R.function
def main(start: R.Tensor(dtype="float32", ndim=1), x: R.Tensor(dtype="float32", ndim=2)):
    @R.function
    def cell(state: R.Tensor(dtype="float32", ndim=1), step: R.Tensor(dtype="float32", ndim=1)):
        return R.add(step, step)
    return R.reduce(cell, start, x)
""",
    "reduce of a tuple": """
@R.function
def main(start: R.Tensor(dtype="float32", ndim=1), x: R.Tensor(dtype="float32", ndim=2)):
    @R.function
    def cell(
        state: R.Tuple(R.Tensor(dtype="float32", ndim=1), R.Tensor(dtype="float32", ndim=1)),
        step: R.Tensor(dtype="float32", ndim=1),
    ):
        return (state[0], R.add(step, step))
    return R.reduce(cell, (start, start), x)
""",
    "scan": """
@R.function
def main(start: R.Tensor(dtype="float32", ndim=1), x: R.Tensor(dtype="float32", ndim=2)):
    @R.function
    def cell(state: R.Tensor(dtype="float32", ndim=1), step: R.Tensor(dtype="float32", ndim=1)):
        return (R.add(step, step), R.exp(step))
    return R.scan(cell, (start,), x)
""",
}


@pytest.mark.parametrize("steps", [1, 2, 40])
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_state_of_another_shape_is_an_error(name: str, steps: int) -> None:
    module = structir.parse(PROGRAMS[name])
    x = np.arange(steps * 3, dtype="float32").reshape(steps, 3)
    run = structir.compile(module)["main"]

    def interpreted(*arrays: Any) -> Any:
        return structir.interpret(module, "main", *arrays)

    for call in (interpreted, run, run):  # the second call may have a plan
        with pytest.raises(ShapeMismatchError, match=r"expected a state of shape \(5,\)"):
            call(np.zeros(5, "float32"), x)
        result = call(np.zeros(3, "float32"), x)
        while isinstance(result, tuple):
            result = result[-1] if name == "reduce of a tuple" else result[0]
        np.testing.assert_array_equal(result, 2 * x[-1])
