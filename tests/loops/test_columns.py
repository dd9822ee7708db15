"""Kernels of reductions along slow axes, argmax and argmin: the interpreter runs their nodes, after
a round trip through text, with the results of the ops."""

import numpy as np
import pytest

import structir
from tests.runtime.agreement import assert_agree

TEXT = """
@R.function
def main(x: R.Tensor({shape}, "{dtype}")):
    with R.dataflow():
        {body}
        R.output(y)
    return y
"""
DIVIDED = """s = R.sum(R.divide(x, R.full((5, 1), R.const(3.0, "float16"))), axis=0)
        y = R.tanh(s)"""
CASES = {
    "blocks": ('(5, "m")', "float32", "y = R.sum(x, axis=0)", (5, 4100)),
    "rows": ('("n", 9, 20)', "float64", "y = R.max(x, axis=1)", (2, 9, 20)),
    "two axes of terms": ('("n", 3, "k", 20)', "int8", "y = R.sum(x, axis=(0, 2))", (2, 3, 5, 20)),
    "maps": ('(5, "m")', "float16", DIVIDED, (5, 19)),
    "nothing to add": ('("n", "m")', "float32", "y = R.sum(x, axis=0)", (0, 3)),
    "no columns": ("(5, 0)", "float32", "y = R.sum(x, axis=0)", (5, 0)),
    "argmax of columns": ('("n", "m")', "float32", "y = R.argmax(x, axis=0)", (3, 1030)),
    "argmin of rows": ('("n", "m")', "float32", "y = R.argmin(x, axis=1)", (3, 33)),
    "argmax of all": ('("n", "m")', "int32", "y = R.argmax(x, axis=None)", (3, 7)),
}


@pytest.mark.parametrize("name", CASES)
def test_kernels_are_interpreted_and_compiled(name):
    shape, dtype, body, sizes = CASES[name]
    module = structir.parse(TEXT.format(shape=shape, dtype=dtype, body=body))
    scheduled = structir.schedule(module, "main").apply()
    assert "@I.kernel" in scheduled.script()
    x = np.random.default_rng(0).integers(-9, 9, sizes).astype(dtype)
    wanted = structir.interpret(module, "main", x)
    kernels = structir.parse(scheduled.script())
    assert_agree(wanted, structir.interpret(kernels, "main", x))
    assert_agree(wanted, structir.compile(module)["main"](x))
