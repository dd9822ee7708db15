"""Steps of slices that are run-time numbers."""

from functools import partial

import numpy as np
import pytest

import structir
from structir.errors import StructIRError


def test_a_step_of_zero_is_rejected_on_an_empty_axis() -> None:
    module = structir.parse(
        """
@R.function
def main(x: R.Tensor((0, 2), "float32"), step: R.Prim("int64", value="k")):
    return R.slice_scatter(x, x, 0, 4, step, axis=0)
"""
    )
    x = np.zeros((0, 2), "float32")
    for run in (structir.compile(module)["main"], partial(structir.interpret, module, "main")):
        assert np.shape(run(x, 2)) == (0, 2)
        with pytest.raises(StructIRError):
            run(x, 0)
