"""Tests that kernel calls constrain operands and results in both directions."""

import numpy as np
import pytest

import structir
from structir.analysis import check_well_formed
from structir.errors import StructInfoError, StructIRError
from structir.ir import structural_equal

TEXT = """
@I.ir_module
class Module:
    @I.kernel
    def scale(x: R.Tensor(("n",), "float32"), w: R.Tensor(("n", "m"), "float32"),
              out: R.Tensor(("n", "m"), "float32")):
        for i in range(n):
            for j in range(m):
                out[i, j] = x[i] * w[i, j]

    @R.function
    def main(x: R.Tensor(X, dtype="float32"), w: R.Tensor(("a", "b"), "float32")):
        a, b = T.int64(), T.int64()
        y = R.exp(x)
        return R.call_kernel(scale, (y, w), out_sinfo=R.Tensor((a, 4), "float32"))
"""


def test_operand_shapes_follow_from_other_operands_and_the_result() -> None:
    module = structir.parse(TEXT.replace("X, dtype", "ndim=1, dtype"))
    inferred = structir.infer(module)
    check_well_formed(inferred)
    assert 'x: R.Tensor(("a",), dtype="float32")' in inferred.script()
    assert 'w: R.Tensor(("a", 4), dtype="float32")' in inferred.script()
    assert structural_equal(structir.parse(inferred.script()), inferred)
    x, w = np.ones(3, "float32"), np.ones((3, 4), "float32")
    expected = structir.interpret(module, "main", x, w)
    assert np.array_equal(structir.interpret(inferred, "main", x, w), expected)
    for program in (module, inferred):
        with pytest.raises(StructIRError):
            structir.interpret(program, "main", x, w[:, :3])


def test_unsatisfiable_kernel_call_is_reported() -> None:
    text = TEXT.replace("X, dtype", '("c",), dtype').replace("R.exp(x)", "R.broadcast_to(x, (3,))")
    with pytest.raises(StructInfoError):
        structir.infer(structir.parse(text.replace("(a, 4)", "(5, 4)")))
