"""Library calls on windows, with and without constant sizes, against the interpreter and NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import structir

SIZES = "rows, columns, 9, 11, 1, 2, 11, columns"
WINDOWS = {"constant": "2, 3, 2, 1, 1, 2", "read": "u[0], 3, 2, u[1], 1, 2"}
COMBINE = {"products": np.add, "sums": np.add, "maxima": np.maximum, "minima": np.minimum}


def kernel_text(name: str, dtype: str, window: str) -> str:
    weights = name == "products"
    regions = "out.flat[0], x.flat[0], " + ("w.flat[0], " if weights else "")
    integers = SIZES + (", 3, 1, " if weights else ", ") + window
    return f"""from structir.script import I, R, T
@I.kernel
def reduced(
    x: R.Tensor((9, 11), "{dtype}"),
    w: R.Tensor((2, 3), "{dtype}"),
    u: R.Tensor((2,), "int64"),
    out: R.Tensor(("rows", "columns"), "{dtype}"),
):
    rows = T.int64()
    columns = T.int64()
    T.window_{name}({regions}{integers})
@R.function
def main(
    x: R.Tensor((9, 11), "{dtype}"), w: R.Tensor((2, 3), "{dtype}"), u: R.Tensor((2,), "int64")
):
    return R.call_tir(reduced, (x, w, u), R.Tensor((5, 7), "{dtype}"))
"""


def expected(name: str, x: np.ndarray, w: np.ndarray) -> np.ndarray:
    identity = {"maxima": -np.inf, "minima": np.inf}.get(name, 0.0)
    around = np.full((20, 30), identity, x.dtype)
    around[1:10, 2:13] = x
    total = np.full((5, 7), identity, x.dtype)
    for i in range(2):
        for j in range(3):
            part = around[i : i + 10 : 2, 2 * j : 2 * j + 7]
            part = part * w[i, j] if name == "products" else part
            total = COMBINE[name](total, part)
    return total


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize(
    ("name", "dtype"), [*[(name, "float32") for name in COMBINE], ("products", "float64")]
)
def test_windows_agree_with_numpy(name, dtype, window):
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((9, 11)).astype(dtype), rng.standard_normal((2, 3)).astype(dtype)
    module = structir.parse(kernel_text(name, dtype, WINDOWS[window]))
    arguments = (x, w, np.array([2, 1]))
    results = (
        structir.interpret(module, "main", *arguments),
        structir.compile(module)["main"](*arguments),
    )
    for result in results:
        np.testing.assert_allclose(result, expected(name, x, w), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("seed", range(12))
def test_windows_of_images_of_any_width_agree_with_numpy(seed):
    rng = np.random.default_rng(seed)
    height, width, top, left = rng.integers([1, 1, 0, 0], [4, 4, 3, 3])
    strides, dilations = rng.integers(1, 3, 2), rng.integers(1, 3, 2)
    rows, columns = rng.integers(1, 8), rng.choice([3, 9, 17, 31, 40, 70])
    shape = rows * strides[0] + rng.integers(1, 4), columns * strides[1] + rng.integers(1, 4)
    name = rng.choice(list(COMBINE))
    window = [height, width, *strides, *dilations]
    weighted = name == "products"
    numbers = [rows, columns, *shape, top, left, shape[1], columns, *([width, 1] * weighted)]
    regions = ["out.flat[0]", "x.flat[0]", *(["w.flat[0]"] * weighted)]
    text = f"""from structir.script import I, R, T
@I.kernel
def reduced(
    x: R.Tensor({tuple(map(int, shape))}, "float32"),
    w: R.Tensor(({height}, {width}), "float32"),
    out: R.Tensor(({rows}, {columns}), "float32"),
):
    T.window_{name}({", ".join([*regions, *map(str, numbers + window)])})
"""
    x = rng.standard_normal(shape).astype("float32")
    w = rng.standard_normal((height, width)).astype("float32")
    around = np.full((60, 300), {"maxima": -np.inf, "minima": np.inf}.get(name, 0.0), "float32")
    around[top : top + shape[0], left : left + shape[1]] = x
    result = np.full((rows, columns), around[-1, -1])
    for i, j in np.ndindex(height, width):
        y, z = np.ogrid[: rows * strides[0] : strides[0], : columns * strides[1] : strides[1]]
        part = around[y + i * dilations[0], z + j * dilations[1]]
        result = COMBINE[name](result, part * w[i, j] if weighted else part)
    out = np.zeros_like(result)
    structir.compile(structir.parse(text))["reduced"](x, w, out)
    np.testing.assert_allclose(out, result, rtol=1e-5, atol=1e-6)


def test_small_integers_are_converted_to_floats_in_32_bits():
    terms = ["max(i, 3, 5)", "(7 // 2) * i", "i * j - max(j - 1, 0)", "i * 4611686018427387904"]
    terms += ["min(i * 2147483648, j)", "(i - 5) * 715827883 + j", "i // 3 + n"]
    stores = [f"out[i, j, {k}] = T.float64({term})" for k, term in enumerate(terms)]
    text = f"""from structir.script import I, R, T
@I.kernel
def numbers(x: R.Tensor(("n",), "float32"), out: R.Tensor((9, 9, {len(terms)}), "float64")):
    n = T.int64()
    for i in range(9):
        for j in range(9):
            {
        '''
            '''.join(stores)
    }
@R.function
def main(x: R.Tensor(("n",), "float32")):
    return R.call_tir(numbers, (x,), R.Tensor((9, 9, {len(terms)}), "float64"))
"""
    module, x = structir.parse(text), np.zeros(4, "float32")
    compiled = structir.compile(module)["main"](x)
    np.testing.assert_array_equal(compiled, structir.interpret(module, "main", x))
