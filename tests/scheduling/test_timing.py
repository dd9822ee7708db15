"""Times of schedules name the kernels of the scheduled program."""

import numpy as np
import pytest

import structir
from tests.loops.running import parsed

LAYERS = """
from structir.script import I, R, T

@I.ir_module
class Layers:
    @R.function
    def main(x: R.Tensor(("n", 8), "float32")):
        a = R.exp(x)
        b = R.sum(a, axis=[0])
        c = R.permute_dims(R.add(a, b), [1, 0])
        return a, c
"""


@pytest.mark.parametrize("args", [(), (np.ones((2, 8), "f"),)])
def test_each_kernel_is_measured_on_sampled_or_given_arguments(
    args: tuple[np.ndarray, ...],
) -> None:
    s = structir.schedule(structir.parse(LAYERS))
    s.fuse("a", "b", loops=0)
    profile = s.time(*args, sizes={"n": 3}, repeat=1)
    assert [k.origins for k in profile.kernels] == [("exp_sum",), ("permute_dims",)]
    assert "exp_sum" in str(profile) and "<pre>" in profile._repr_html_()


def test_a_kernel_alone_is_measured() -> None:
    source = """
@I.kernel
def scale(x: R.Tensor(("n",), "float32"), out: R.Tensor(("n",), "float32")):
    for i in range(n):
        out[i] = 2.0 * x[i]
"""
    s = structir.schedule(parsed(source))
    s.kernel().vectorise("i")
    assert [k.origins for k in s.time(repeat=1).kernels] == [("scale",)]
