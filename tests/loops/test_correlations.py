"""Gradients of convolutions are matrix products, equal to the interpreter."""

import numpy as np
import pytest

import structir

TEXT = """
@R.function
def main(x: R.Tensor(("n", {channels}), "float64"), w: R.Tensor(({weights}), "float64")):
    y = R.nn.{op}(x, w, {options})
    return R.sum(R.multiply(y, R.sin(y)))
"""
CASES = {
    "padded": ("conv2d", '6, "h", 9', "5, 6, 3, 2", "padding=(1, 1, 1, 1)", (6, 7, 9)),
    "strides": ("conv2d", '4, "h", "l"', "3, 4, 3, 3", "strides=(2, 3)", (4, 8, 11)),
    "dilated": ("conv2d", "4, 9, 9", "3, 4, 2, 3", "dilation=(2, 2)", (4, 9, 9)),
    "few pixels": (
        "conv2d",
        "4, 3, 3",
        "3, 4, 3, 3",
        "dilation=(2, 2), padding=(2, 2, 2, 2)",
        (4, 3, 3),
    ),
    "groups": ("conv2d", "6, 8, 8", "4, 3, 3, 3", "groups=2, padding=(1, 1, 1, 1)", (6, 8, 8)),
    "transposed": ("conv2d_transpose", "4, 5, 6", "4, 3, 2, 2", "strides=(2, 2)", (4, 5, 6)),
}


@pytest.mark.parametrize("name", CASES)
def test_gradients_by_weights(name):
    op, channels, weights, options, sizes = CASES[name]
    text = TEXT.format(op=op, channels=channels, weights=weights, options=options)
    module = structir.passes.Gradient()(structir.parse(text))
    exe = structir.compile(module)
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, *sizes))
    w = rng.standard_normal([int(n) for n in weights.split(",")])
    runs = structir.interpret(module, "main_adjoint", x, w), exe["main_adjoint"](x, w)
    for reference, compiled in zip(*(run[1] for run in runs), strict=True):
        np.testing.assert_allclose(compiled, reference, rtol=1e-9, atol=1e-9)
    kernels = exe.source("main_adjoint").split("# kernel ")
    is_scattered = any("T.add_to(out0[" in kernel for kernel in kernels)
    assert is_scattered == (name == "few pixels")
    source = kernels[-1]
    assert "tiled_product" in source or "packed_product" in source
