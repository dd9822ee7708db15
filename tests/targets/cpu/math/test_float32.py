"""Every own float32 function against double precision: error bounds, and the special values."""

import numpy as np
import pytest
import scipy.special

from structir.targets.cpu.math import (
    error_function,
    exponential,
    logarithm,
    remainder,
    trigonometric,
)
from tests.runtime.python_functions import mapped

SPECIAL = np.array(
    [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40, -1e-40, 1, -1, 3e38, -3e38, 1.17e-38], np.float32
)


def sigmoid(x):
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, 1, e) / (1 + e)


def exp_nonpositive(x):
    return np.exp(np.minimum(x, 0))


def erfinv(x):
    return np.where(x == 0, x, scipy.special.erfinv(x))  # SciPy loses the sign of zero


# function, reference in double precision, interval of interest, bound in units of the last place
UNARY = {
    "exp": (exponential.exp, np.exp, (-105, 90), 0.9),
    "exp_nonpositive": (exponential.exp_nonpositive, exp_nonpositive, (-105, 0), 0.9),
    "exp2": (exponential.exp2, np.exp2, (-151, 130), 0.9),
    "expm1": (exponential.expm1, np.expm1, (-20, 90), 0.51),
    "sigmoid": (exponential.sigmoid, sigmoid, (-105, 30), 2.5),
    "tanh": (exponential.tanh, np.tanh, (-12, 12), 1.4),
    "sinh": (exponential.sinh, np.sinh, (-91, 91), 0.51),
    "cosh": (exponential.cosh, np.cosh, (-91, 91), 0.51),
    "log": (logarithm.log, np.log, (0, 5), 0.9),
    "log1p": (logarithm.log1p, np.log1p, (-1, 5), 0.95),
    "asinh": (logarithm.asinh, np.arcsinh, (-10, 10), 0.51),
    "acosh": (logarithm.acosh, np.arccosh, (1, 5), 0.51),
    "atanh": (logarithm.atanh, np.arctanh, (-1, 1), 0.51),
    "erf": (error_function.erf, scipy.special.erf, (-6, 6), 1.3),
    "erfc": (error_function.erfc, scipy.special.erfc, (-6, 11), 0.51),
    "erfinv": (error_function.erfinv, erfinv, (-1, 1), 2.8),
    "sin": (trigonometric.sin, np.sin, (-100, 100), 0.51),
    "cos": (trigonometric.cos, np.cos, (-100, 100), 0.51),
    "tan": (trigonometric.tan, np.tan, (-100, 100), 0.51),
    "atan": (trigonometric.atan, np.arctan, (-10, 10), 0.51),
    "asin": (trigonometric.asin, np.arcsin, (-1, 1), 0.51),
    "acos": (trigonometric.acos, np.arccos, (-1, 1), 0.51),
}
BINARY = {
    "pow": (logarithm.pow, np.power, 0.51),
    "atan2": (trigonometric.atan2, np.arctan2, 0.51),
}


def any_floats(count, seed=0):
    """Numbers spread over all bit patterns, NaNs and infinities among them."""
    random = np.random.default_rng(seed)
    return random.integers(0, 2**32, count, dtype=np.uint32).view(np.float32)


def check(got, exact, bound):
    rounded = exact.astype(np.float32)
    spacing = np.spacing(np.abs(rounded)).astype(np.float64)
    finite = np.isfinite(rounded) & np.isfinite(got)
    error = np.abs(got.astype(np.float64) - exact)[finite] / spacing[finite]
    assert error.max() <= bound
    np.testing.assert_array_equal(got[~finite], rounded[~finite])
    zero = (rounded == 0) & (got == 0)
    np.testing.assert_array_equal(np.signbit(got[zero]), np.signbit(rounded[zero]))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", UNARY)
def test_unary_within_its_bound(name):
    function, reference, interval, bound = UNARY[name]
    inner = np.linspace(*interval, 300_001).astype(np.float32)
    x = np.concatenate([SPECIAL, any_floats(300_000), inner])
    check(mapped(function, x), reference(x.astype(np.float64)), bound)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", BINARY)
def test_binary_within_its_bound(name):
    function, reference, bound = BINARY[name]
    corners = np.concatenate([SPECIAL, np.float32([2, 3, -2, -3, 0.5, -0.5, 2.5, 1e30])])
    first, second = (grid.ravel() for grid in np.meshgrid(corners, corners))
    near = np.random.default_rng(1).standard_normal((2, 300_000)).astype(np.float32)
    x = np.concatenate([first, any_floats(300_000, 2), np.abs(near[0]) * 5])
    y = np.concatenate([second, any_floats(300_000, 3), near[1] * 10])
    check(mapped(function, x, y), reference(x.astype(np.float64), y.astype(np.float64)), bound)


def test_both_endings_of_exp_agree():
    mantissa = np.linspace(0.7, 1.42, 1000).astype(np.float32)
    for exponent in (-149, -130, -20, 0, 127):
        exponents = np.full(mantissa.shape, exponent, np.int32)
        got = mapped(exponential.scale_twice, mantissa, exponents)
        np.testing.assert_array_equal(got, np.ldexp(mantissa, exponents))


def test_one_and_the_error_function_together() -> None:
    x = np.concatenate([any_floats(100_000), np.linspace(-6, 6, 1_000_001).astype(np.float32)])
    x = np.concatenate([x, SPECIAL])
    x = x[np.isfinite(x)]
    found, wanted = mapped(error_function.erf_plus_one, x), 1 + scipy.special.erf(np.float64(x))
    assert np.max(np.abs(found - wanted)) < 4.5e-7
    ends = mapped(
        error_function.erf_plus_one, np.array([4, 9, np.inf, -4, -9, -np.inf], np.float32)
    )
    assert ends.tolist() == [2, 2, 2, 0, 0, 0]
    assert np.isnan(mapped(error_function.erf_plus_one, SPECIAL[:1]))[0]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_remainders_and_floor_quotients() -> None:
    first, second = (grid.ravel() for grid in np.meshgrid(SPECIAL, SPECIAL))
    near = np.random.default_rng(4).standard_normal((2, 100_000)).astype(np.float32)
    x = np.concatenate([first, any_floats(100_000, 5), near[0] * 100, np.float32([6, -6, 7])])
    y = np.concatenate([second, any_floats(100_000, 6), near[1], np.float32([3, 3, -7])])
    found, wanted = mapped(remainder.remainder, x, y), np.mod(x, y)
    np.testing.assert_array_equal(found, wanted)
    signed = ~np.isnan(wanted)
    np.testing.assert_array_equal(np.signbit(found[signed]), np.signbit(wanted[signed]))
    found, wanted = mapped(remainder.floor_quotient, x, y), np.floor_divide(x, y)
    small = ~(np.abs(wanted) >= 2**22)  # NumPy rounds before it divides
    np.testing.assert_array_equal(found[small], wanted[small])
    np.testing.assert_allclose(found, wanted, rtol=3e-7)
    np.testing.assert_array_equal(np.signbit(found[signed]), np.signbit(wanted[signed]))
