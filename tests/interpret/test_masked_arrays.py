"""A NumPy array with a mask is rejected as an argument: the mask would be lost."""

import numpy as np
import pytest

import structir
from structir.errors import DiagnosticError, ShapeMismatchError
from structir.ir import Constant
from structir.passes import bind_params
from structir.script import R


@pytest.mark.parametrize("nested", [False, True])
def test_masked_arguments_are_rejected(nested: bool) -> None:
    info = "R.Tensor((3,), 'float32')"
    param, value = (f"R.Tuple({info})", "x[0]") if nested else (info, "x")
    module = structir.parse(f"@R.function\ndef main(x: {param}):\n    return R.sum({value})\n")
    masked = np.ma.array([1, 2, 3], mask=[0, 1, 0], dtype="float32")
    plain, argument = [(x,) if nested else x for x in (np.asarray(masked), masked)]
    executable = structir.compile(module)
    for run in (lambda *args: structir.interpret(module, "main", *args), executable["main"]):
        assert run(plain) == 6.0
        with pytest.raises(ShapeMismatchError, match="without a mask"):
            run(argument)


@pytest.mark.parametrize(
    "use",
    [
        R.const,
        Constant,
        lambda x: R.exp(x),
        lambda x: bind_params(values={"x": x})(structir.parse(MAIN)),
    ],
)
def test_masked_constants_are_rejected(use) -> None:  # type: ignore[no-untyped-def]
    masked = np.ma.array([1, 2, 3], mask=[0, 1, 0], dtype="float32")
    with pytest.raises(DiagnosticError, match="without a mask"):
        use(masked)


MAIN = "@R.function\ndef main(x: R.Tensor((3,), 'float32')):\n    return x\n"
