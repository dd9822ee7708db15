"""Concatenation of many tensors: the limit, and the cost."""

import numpy as np
import pytest

import structir
from structir.errors import DiagnosticError

MANY = """
@R.function
def main(x: R.Tensor((1,), "float32")):
    return R.concat(({}))
"""


def test_more_tensors_than_the_limit_are_a_diagnostic() -> None:
    text = MANY.format("x, " * 9000)
    for name in ("concat", "stack"):
        with pytest.raises(DiagnosticError, match="expected at most 4096 tensors, found 9000"):
            structir.parse(text.replace("concat", name))


def test_a_thousand_tensors_are_concatenated() -> None:
    module = structir.parse(MANY.format("x, " * 600))
    result = structir.interpret(module, "main", np.ones(1, "float32"))
    assert result.tolist() == [1.0] * 600


@pytest.mark.parametrize("mode, least", [("reflect", 4), ("edge", 1), ("circular", 1)])
def test_borders_come_from_elements(mode, least):
    """A border reads elements of the axis: one that has too few of them is an error."""
    padded = f'R.nn.pad(x, pad_width=(0, 0, 3, 2), pad_mode="{mode}")'
    text = f'@R.function\ndef main(x: R.Tensor(("b", "n"), "float32")):\n    return {padded}\n'
    module = structir.parse(text)
    exe = structir.compile(module)
    for n in range(least + 2):
        x = np.arange(2 * n, dtype="float32").reshape(2, n)
        for run in (exe["main"], lambda x: structir.interpret(module, "main", x)):
            if n < least:
                with pytest.raises(structir.errors.ShapeMismatchError):
                    run(x)
            else:
                name = "wrap" if mode == "circular" else mode
                np.testing.assert_array_equal(run(x), np.pad(x, ((0, 0), (3, 2)), mode=name))
