"""Results in the memory of operands: one pointer for both, so that LLVM vectorizes their loops."""

import numpy as np
import pytest

import structir
from structir.loops.emit.code import code_of
from structir.runtime.profile import profile_calls
from tests.runtime.agreement import assert_agree

TEXT = """
@R.function
def main(x: R.Tensor(("n", {width}), "float32"), w: R.Tensor(({width}, {width}), "float32")):
    y = R.matmul(R.matmul(x, w), w)
    s = R.sum(y, axis=0, keepdims=True)
    a = R.nn.relu(R.add(y, s))
    b = R.matmul(a, w)
    return b
"""


def operands(rows, width):
    random = np.random.default_rng(0)
    x = random.standard_normal((rows, width), np.float32)
    return x, random.standard_normal((width, width), np.float32) / width**0.5


@pytest.mark.parametrize("width", [7, 33, 64])
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_a_map_over_a_product_that_is_not_read_later(width, threads):
    module = structir.parse(TEXT.format(width=width))
    main = structir.compile(module, num_threads=threads)["main"]
    one = structir.compile(module, num_threads=1)["main"]
    for rows in (1, 17, 700, 0):
        arguments = operands(rows, width)
        result = main(*arguments)
        assert_agree(structir.interpret(module, "main", *arguments), result, str(rows))
        assert (result == one(*arguments)).all()


def test_the_map_is_in_place():
    executable = structir.compile(structir.parse(TEXT.format(width=512)), num_threads=1)
    arguments = operands(200, 512)
    kernels = profile_calls(lambda: executable["main"](*arguments), 1).kernels
    pointers = [kernel.text.pointers for kernel in kernels]
    assert sum(len({*each}) < len(each) for each in pointers) == 1


def test_arrays_in_the_same_memory_have_one_pointer():
    """With two pointers, LLVM checks at run time whether they are apart, and runs a scalar loop."""
    kernel = structir.parse("""
@I.kernel
def f(x: R.Tensor(("n",), "float32"), out: R.Tensor(("n",), "float32")):
    for i in range(n):
        out[i] = x[i] * 2.0
""")["f"]
    together = ((kernel.operands[0], kernel.results[0]),)
    text = code_of(kernel, is_generated=True, together=together).assembled.text
    (body,) = [line for line in text.splitlines() if line.startswith("define internal")]
    assert body.count("ptr noalias") == body.count("ptr ")
    unused = body.count("ptr noalias %unused")
    same = [line for line in text.splitlines() if " = getelementptr i8, ptr %p" in line]
    assert unused == len(same) == 1
