"""Violated conditions on sizes: one text, interpreted and compiled, with the axis of each size."""

import numpy as np
import pytest

import structir
from structir.errors import ShapeMismatchError

PROGRAMS = {
    "R.topk(x, 3)": "expected m >= 3, found m = 2 (axis 1 of x) [E0721]",
    "R.take(x, R.const(4), axis=1)": "expected m >= 5, found m = 2 (axis 1 of x) [E0721]",
    "R.nn.avg_pool1d(R.expand_dims(x, 0), 3)": "found m = 2 (axis 1 of x) [E0721]",
}


@pytest.mark.parametrize("body", PROGRAMS)
def test_conditions_name_the_axis(body):
    module = structir.parse(
        "@R.function\n"
        "def main(x: R.Tensor(('n', 'm'), 'float32'), y: R.Tensor(('k',), 'float32')):\n"
        f"    z = {body}\n    return z\n"
    )
    messages = []
    for run in (
        structir.compile(module)["main"],
        lambda *a: structir.interpret(module, "main", *a),
    ):
        with pytest.raises(ShapeMismatchError) as error:
            run(np.zeros((1, 2), "float32"), np.zeros(2, "float32"))
        messages.append(str(error.value))
    assert messages[0] == messages[1]
    assert PROGRAMS[body] in messages[0]
