"""An axis that is indexed by a sum of loop indices has the greatest index plus one as its size."""

from functools import partial

import numpy as np
import pytest

import structir
from structir import ScalarExpr, op
from structir.passes import Gradient


@op("x[*s, i + k] @ F, w[k] @ F -> out[*s, i] @ F", reduce="sum")
def correlated_in_test(x: ScalarExpr, w: ScalarExpr) -> ScalarExpr:
    """Correlates rows with a filter."""
    return x * w


@op("x[i] @ F, w[k] @ F -> out[i + k] @ F", reduce="sum")
def convolved_in_test(x: ScalarExpr, w: ScalarExpr) -> ScalarExpr:
    """Convolves a vector with a filter."""
    return x * w


@op("x[s*i + d*k, 2*j + l + 1] @ F, w[k, l] @ F -> out[i, j] @ F", reduce="sum")
def windowed_in_test(x: ScalarExpr, w: ScalarExpr, *, s: int = 1, d: int = 1) -> ScalarExpr:
    """Correlates windows with strides and dilation."""
    return x * w


MODULE = structir.parse("""
@R.function
def correlate(x: R.Tensor(("n", "m"), "float32"), w: R.Tensor((3,), "float32")):
    return R.correlated_in_test(x, w)

@R.function
def convolve(x: R.Tensor(("m",), "float32"), w: R.Tensor(("k",), "float32")):
    return R.convolved_in_test(x, w)

@R.function
def windows(x: R.Tensor((7, 8), "float32"), w: R.Tensor((2, 3), "float32")):
    return R.windowed_in_test(x, w, s=2, d=2)

@R.function
def total(x: R.Tensor((2, 8), "float32"), w: R.Tensor((3,), "float32")):
    return R.sum(R.correlated_in_test(x, w))
""")
exe = structir.compile(MODULE)
RNG = np.random.default_rng(0)
runs = pytest.mark.parametrize(
    "run", [lambda name, *args: exe[name](*args), partial(structir.interpret, MODULE)]
)


def sample(*shape):
    return RNG.standard_normal(shape).astype("float32")


def test_the_sizes_of_results():
    sizes = {name: str(MODULE[name].ret_struct_info) for name in ("correlate", "convolve")}
    assert sizes["correlate"] == 'R.Tensor((n, m - 2), dtype="float32")'
    assert sizes["convolve"] == 'R.Tensor((m + k - 1,), dtype="float32")'


@runs
def test_the_values_are_those_of_numpy(run):
    for m in (3, 8, 17):
        x, w = sample(2, m), sample(3)
        expected = [np.correlate(row, w) for row in x]
        np.testing.assert_allclose(run("correlate", x, w), expected, rtol=1e-5, atol=1e-5)
        expected = np.convolve(x[0], w)
        np.testing.assert_allclose(run("convolve", x[0], w), expected, rtol=1e-5, atol=1e-5)


@runs
def test_strides_dilation_and_offsets(run):
    x, w = sample(7, 8), sample(2, 3)
    expected = [
        [sum(x[2 * i + 2 * k, 2 * j + r + 1] * w[k, r] for k in (0, 1) for r in (0, 1, 2))
         for j in range(3)]
        for i in range(3)
    ]  # fmt: skip
    np.testing.assert_allclose(run("windows", x, w), expected, rtol=1e-5, atol=1e-5)


def test_every_element_has_a_gradient():
    x, w = sample(2, 8), sample(3)
    gradient = structir.compile(Gradient(function="total", parameters="x")(MODULE))
    (result,) = gradient["total_adjoint"](x, w)[1]
    expected = np.convolve(np.ones(6, "float32"), w)
    np.testing.assert_allclose(result, np.stack([expected] * 2), rtol=1e-5, atol=1e-5)
