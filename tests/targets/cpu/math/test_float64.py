"""Every own float64 function against extended precision: error bounds, and the special values."""

import mpmath
import numpy as np
import pytest

import structir
from structir.targets.cpu.scalars import helpers
from tests.runtime import python_functions

SPECIAL = [np.nan, np.inf, -np.inf, 0.0, -0.0, 5e-324, -5e-324, 1e-310, 1e308, -1e308, 1.0, -1.0]
SPECIAL += [0.5, -0.5, 2.0, -2.0, 1e9, 1.1e9, 1e22, np.nextafter(1, 0), np.nextafter(1, 2)]
EDGES = [709.782712893384, 709.7827128933841, -745.1332191019412, -745.1332191019413, -708.5, 19.07]
EDGES += [710.475860073944, 710.4758600739440, 1023.9999999999999, 1024.0, -1074.0, -1075.0, 6.0]
EXTENDED = np.finfo(np.longdouble).nmant >= 63
extended = pytest.mark.skipif(not EXTENDED, reason="no extended precision")


def sigmoid(x):
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, 1, e) / (1 + e)


# reference, bound in units of the last place
FUNCTIONS = {
    "exp": (np.exp, 1.0),
    "exp_nonpositive": (lambda x: np.exp(np.minimum(x, 0)), 1.0),
    "exp2": (np.exp2, 1.1),
    "expm1": (np.expm1, 1.8),
    "sigmoid": (sigmoid, 2.5),
    "tanh": (np.tanh, 2.5),
    "sinh": (np.sinh, 2.0),
    "cosh": (np.cosh, 1.5),
    "log": (np.log, 0.9),
    "log1p": (np.log1p, 0.9),
    "asinh": (np.arcsinh, 1.6),
    "acosh": (np.arccosh, 2.0),
    "atanh": (np.arctanh, 1.6),
    "sin": (np.sin, 0.9),
    "cos": (np.cos, 0.9),
    "tan": (np.tan, 2.0),
    "asin": (np.arcsin, 0.8),
    "acos": (np.arccos, 0.8),
    "atan": (np.arctan, 0.9),
}
BINARY = {"pow": (np.power, 1.1), "atan2": (np.arctan2, 1.1)}
# of mpmath: reference, interval of interest, bound; that of lgamma also in units of 1
SLOW = {
    "erf": (mpmath.erf, (-7, 7), 1.2),
    "erfc": (mpmath.erfc, (-7, 27), 3.0),
    "erfinv": (mpmath.erfinv, (-1, 1), 2.5),
    "lgamma": (lambda x: mpmath.log(abs(mpmath.gamma(x))), (-7.5, 12), 4.0),
}


def mapped(name, *columns):
    """The function over arrays, in one vectorized loop."""
    arrays = [np.asarray(column, np.float64) for column in columns]
    return python_functions.mapped(helpers()[f"{name}_float64"], *arrays)


def check(result, exact, bound, least=0.0):
    """Compares results with exact ones: their errors, signs, infinities and NaN."""
    rounded = exact.astype(np.float64)
    finite = np.isfinite(rounded)
    np.testing.assert_array_equal(result[~finite], rounded[~finite])
    known = ~np.isnan(rounded)
    np.testing.assert_array_equal(np.signbit(result[known]), np.signbit(rounded[known]))
    spacing = np.spacing(np.maximum(np.abs(rounded[finite]), least))
    assert (np.abs(result[finite] - exact[finite]) / spacing).max() < bound


def samples(count):
    rng = np.random.default_rng(0)
    parts = [
        rng.integers(0, 2**64, count, dtype=np.uint64).view(np.float64),
        rng.standard_normal(count),
        rng.uniform(-750, 750, count),
        rng.uniform(-2, 2, count) * 10.0 ** rng.integers(-320, 3, count),
        1 + rng.standard_normal(count) * 10.0 ** rng.integers(-17, -1, count),
        rng.integers(-(10**8), 10**8, count) * (np.pi / 2),
        SPECIAL,
        EDGES,
    ]
    return np.concatenate(parts)


@extended
@pytest.mark.parametrize("name", FUNCTIONS)
def test_error_bounds(name):
    reference, bound = FUNCTIONS[name]
    x = samples(5000)
    with np.errstate(all="ignore"):
        check(mapped(name, x), reference(x.astype(np.longdouble)), bound)


@extended
@pytest.mark.parametrize("name", BINARY)
def test_error_bounds_of_two_operands(name):
    reference, bound = BINARY[name]
    corners = [*SPECIAL, 3.0, -3.0, 4.0, 2.5, -2.5, 2.0**53 + 1]
    first, second = (grid.ravel() for grid in np.meshgrid(corners, corners))
    x, rng = samples(5000), np.random.default_rng(1)
    with np.errstate(all="ignore"):
        powers = rng.uniform(-1080, 1080, x.size) / np.log2(np.abs(x))
        y = np.where(rng.random(x.size) < 0.5, powers, rng.permutation(x))
        x, y = np.concatenate([first, np.abs(x), x]), np.concatenate([second, y, np.round(y)])
        check(mapped(name, x, y), reference(*np.longdouble([x, y])), bound)


@extended
@pytest.mark.parametrize("name", SLOW)
def test_error_bounds_by_many_digits(name):
    reference, (low, high), bound = SLOW[name]
    rng = np.random.default_rng(2)
    halves = np.arange(np.floor(low), high) + 0.5
    x = np.concatenate([rng.uniform(low, high, 150), 10.0 ** rng.uniform(-300, 0, 30), halves])
    x = x[(x > low) & (x < high)]
    x = x[np.abs(x - np.round(x)) > 1e-9]
    with mpmath.workdps(40):
        exact = [reference(mpmath.mpf(v)) for v in x.tolist()]
        pairs = [(float(v), float(v - mpmath.mpf(float(v)))) for v in exact]
    wanted = np.longdouble([a for a, _ in pairs]) + np.longdouble([b for _, b in pairs])
    check(mapped(name, x), wanted, bound, 1.0 if name == "lgamma" else 0.0)


def test_special_values_of_error_functions_and_lgamma():
    infinity, nan = np.inf, np.nan
    x = np.array([nan, infinity, -infinity, 0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 40.0, 5e-324])
    expected = {
        "erf": [nan, 1, -1, 0.0, -0.0, None, None, None, None, 1, 5e-324],
        "erfc": [nan, 0, 2, 1, 1, None, None, None, None, 0, 1],
        "erfinv": [nan, nan, nan, 0.0, -0.0, infinity, -infinity, nan, nan, nan, 5e-324],
        "lgamma": [nan, infinity, infinity, infinity, infinity, 0, infinity, 0, infinity],
    }
    for name, values in expected.items():
        for value, result in zip(values, mapped(name, x)[: len(values)], strict=True):
            if value is not None:
                np.testing.assert_array_equal(result, value)
                assert np.isnan(value) or np.signbit(result) == np.signbit(value)


LARGE = {"exp": 709.9, "exp2": 1024.5, "expm1": 709.9, "sinh": 710.6, "cosh": 710.6}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "term", ["{} + y", "{} - y", "y - {}", "-{} - y", "{} + y + y", "y * y + {}"]
)
@pytest.mark.parametrize("name", LARGE)
def test_an_overflow_is_infinite_in_sums(name, term, dtype):
    line = term.format(f"R.{name}(x)")
    row = f'R.Tensor(("n",), "{dtype}")'
    module = structir.parse(f"@R.function\ndef main(x: {row}, y: {row}):\n    return {line}\n")
    large = LARGE[name] / (8 if dtype == "float32" else 1)
    values = np.array(
        [large + 1, -large - 1, large, 1e30, -1e30, np.inf, -np.inf, np.nan, 1], dtype
    )
    infinities = np.array([np.inf, -np.inf, np.nan], dtype)
    x, y = (grid.ravel() for grid in np.meshgrid(values, infinities))
    expected = structir.interpret(module, "main", x, y)
    np.testing.assert_array_equal(structir.compile(module)["main"](x, y), expected)
