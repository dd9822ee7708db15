"""Losses reject target classes out of range, interpreted and compiled; `ignore_index` stays."""

import numpy as np
import pytest

import structir
from structir.errors import ShapeMismatchError

SCORES = np.log(np.random.default_rng(0).dirichlet(np.ones(5), 4)).astype("float32")


def runners(call: str, dtype: str) -> list:
    module = structir.parse(
        "@R.function\ndef main(x: R.Tensor(('n', 5), 'float32'), "
        f"t: R.Tensor(('n',), '{dtype}')):\n"
        f"    with R.dataflow():\n        z = {call}\n        R.output(z)\n    return z\n"
    )
    executable = structir.compile(module)
    return [lambda *args: structir.interpret(module, "main", *args), executable["main"]]


CALLS = [
    *[
        f"R.nn.nll_loss(x, t, reduction='{how}', ignore_index=-2)"
        for how in ("none", "mean", "sum")
    ],
    "R.grad.nll_loss_backward(R.const(1.0), x, t, ignore_index=-2)",
]


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("dtype", ["int64", "int8"])
@pytest.mark.parametrize("wrong", [-1, 5, 100, -100])
def test_targets_out_of_range_are_rejected(call: str, dtype: str, wrong: int) -> None:
    for run in runners(call, dtype):
        with pytest.raises(ShapeMismatchError, match="targets: expected indices of the classes"):
            run(SCORES, np.array([0, -2, wrong, 1], dtype))


def test_ignored_targets_count_for_nothing() -> None:
    targets = np.array([0, -2, 4, 1], "int8")
    wanted = -np.mean([SCORES[0, 0], SCORES[2, 4], SCORES[3, 1]])
    for run in runners(CALLS[1], "int8"):
        np.testing.assert_allclose(run(SCORES, targets), wanted, rtol=1e-6)
