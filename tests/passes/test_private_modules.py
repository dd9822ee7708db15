"""Passes keep the functions of a module without a public function."""

import numpy as np
import pytest

import structir
from structir.passes import Pass, all_passes

SOURCE = """
@I.ir_module
class Module:
    @R.function(private=True)
    def main(x: R.Tensor((4, 8), "float32"), a: R.Tensor((8, 4), "float32")):
        with R.dataflow():
            y = R.matmul(x, a)
            z = R.matmul(x, a + a)
            R.output(y, z)
        return y, z
"""


@pytest.mark.parametrize("each", [p for p in all_passes() if p.comparable], ids=lambda p: p.name)
def test_a_private_function_without_callers_remains(each: Pass) -> None:
    module = structir.parse(SOURCE)
    args = [np.ones((4, 8), "float32"), np.ones((8, 4), "float32")]
    results = structir.interpret(each(module), "main", *args)
    for result, wanted in zip(results, structir.interpret(module, "main", *args), strict=True):
        np.testing.assert_allclose(result, wanted)
