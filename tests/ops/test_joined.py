"""Tensors joined: how many, and what many of them cost."""

import numpy as np
import pytest

import structir
from structir.errors import DiagnosticError

MANY = """
@R.function
def main(x: R.Tensor((1,), "float32")):
    return R.concat(({}))
"""


def test_too_many_tensors_to_be_joined_are_refused_in_words() -> None:
    text = MANY.format("x, " * 9000)
    for name in ("concat", "stack"):
        with pytest.raises(DiagnosticError, match="expected at most 4096 tensors, found 9000"):
            structir.parse(text.replace("concat", name))


def test_a_thousand_tensors_are_one() -> None:
    module = structir.parse(MANY.format("x, " * 600))
    made = structir.interpret(module, "main", np.ones(1, "float32"))
    assert made.tolist() == [1.0] * 600
