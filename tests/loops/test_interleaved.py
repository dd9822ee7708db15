"""Products whose results lie between each other are computed with their columns together."""

import numpy as np
import pytest

import structir

CASES = {
    "2 x 2": (
        'x: R.Tensor(("n", 8, "h", 5), "float32"), w: R.Tensor((8, 6, 2, 2), "float32")',
        "R.nn.relu(R.nn.conv2d_transpose(x, w, strides=(2, 2)))",
        [(2, 8, 3, 5), (8, 6, 2, 2)],
    ),
    "3 x 4": (
        'x: R.Tensor((1, 8, 4, "m"), "float64"), w: R.Tensor((8, 3, 3, 4), "float64")',
        "R.nn.conv2d_transpose(x, w, strides=(3, 4))",
        [(1, 8, 4, 7), (8, 3, 3, 4)],
    ),
    "einsum": (
        'x: R.Tensor(("k", "m"), "float32"), w: R.Tensor(("k", 9, 3), "float32")',
        'R.einsum((x, w), "km,kab->amb")',
        [(12, 11), (12, 9, 3)],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_interleaved_products(name):
    params, result, shapes = CASES[name]
    module = structir.parse(f"@R.function\ndef main({params}):\n    return {result}\n")
    exe = structir.compile(module)
    dtype = "float64" if "float64" in params else "float32"
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(shape).astype(dtype) for shape in shapes]
    reference = structir.interpret(module, "main", *arrays)
    np.testing.assert_allclose(exe["main"](*arrays), reference, rtol=1e-4, atol=1e-4)
    assert exe.source().count("# kernel ") >= 2
