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
