"""Compiled argmax and argmin equal the interpreter: ties, NaN, infinities, each order of axes."""

import ml_dtypes  # noqa: F401 - NumPy learns "bfloat16"
import numpy as np
import pytest

import structir

TEXT = """
@R.function
def main(x: R.Tensor(({shape}), "{dtype}")):
    y = R.permute_dims(x, axes={order})
    return (R.argmax(y, axis={axis}), R.argmin(y, axis={axis}))
"""
DTYPES = ["float32", "float64", "float16", "bfloat16", "int8", "int64", "uint16", "bool"]
FORMS = [
    ('"n", "m"', [0, 1], 1),
    ('"n", "m"', [0, 1], 0),
    ('"n", "m"', [1, 0], 1),
    ('"n", "m"', [0, 1], None),
    ('"n", "m", 3', [0, 1, 2], 1),
    ('"n", 5, "m"', [2, 0, 1], 1),
    ('"n", 5, "m"', [0, 1, 2], None),
]


CASES = [
    (*FORMS[(k + apart) % len(FORMS)], dtype) for k, dtype in enumerate(DTYPES) for apart in (0, 3)
]


@pytest.mark.parametrize("shape, order, axis, dtype", CASES)
def test_picks(shape, order, axis, dtype):
    text = TEXT.format(shape=shape, order=order, axis=axis, dtype=dtype)
    module = structir.parse(text)
    exe = structir.compile(module)
    rng = np.random.default_rng(1)
    for n, m in ((1, 1), (7, 1030), (33, 19), (2, 17)):
        sizes = [{"n": n, "m": m}.get(s.strip('" ')) or int(s) for s in shape.split(",")]
        x = rng.integers(-3, 4, sizes).astype("float64")
        if dtype.startswith(("float", "bfloat")):
            x[rng.random(sizes) < 0.01] = np.nan
            x[rng.random(sizes) < 0.2] = -np.inf
            x[:1] = -np.inf
        elif dtype.startswith("u"):
            x = np.abs(x)
        x = x.astype(dtype)
        for ours, reference in zip(
            exe["main"](x), structir.interpret(module, "main", x), strict=True
        ):
            np.testing.assert_array_equal(ours, reference)
