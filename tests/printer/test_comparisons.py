"""`R.prim_value` of a comparison of sizes is a bool: typed, interpreted, compiled and printed."""

import numpy as np
import pytest

import structir
from structir.ir import PrimStructInfo, structural_equal

COMPARISONS = {
    "n % 16 == 0": lambda n: n % 16 == 0,
    "n != 4": lambda n: n != 4,
    "n < 5": lambda n: n < 5,
    "n >= m": lambda n: n >= 4,
    "4 == 4": lambda n: True,
}


@pytest.mark.parametrize("text", COMPARISONS)
def test_comparisons_are_bool(text: str) -> None:
    module = structir.parse(
        "@R.function\ndef main(x: R.Tensor(('n',), 'float32'), y: R.Tensor(('m',), 'float32')):\n"
        "    n = T.int64()\n    m = T.int64()\n"
        f"    p = R.prim_value({text})\n    z = R.full((2,), p)\n    return (p, z)\n"
    )
    scalar = module["main"].ret_struct_info.fields[0]
    assert isinstance(scalar, PrimStructInfo)
    assert scalar.dtype == "bool"
    assert structural_equal(structir.parse(module.script()), module)
    executable = structir.compile(module)
    for n in (4, 16):
        args = np.zeros(n, "float32"), np.zeros(4, "float32")
        for number, filled in (
            structir.interpret(module, "main", *args),
            executable["main"](*args),
        ):
            assert bool(number) == COMPARISONS[text](n)
            assert np.asarray(number).dtype == filled.dtype == bool
            assert filled.tolist() == [bool(number)] * 2
    fixed = structir.passes.BindSymbolicVars(sizes={"n": 16})(module)
    assert fixed["main"].ret_struct_info.fields[0].dtype == "bool"
