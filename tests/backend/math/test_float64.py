"""Every own float64 function against extended precision: error bounds, and the special values."""

import numpy as np
import pytest
from numba import njit

from structir.backend.math import wide

SPECIAL = [np.nan, np.inf, -np.inf, 0.0, -0.0, 5e-324, -5e-324, 1e-310, 1e308, -1e308, 1.0, -1.0]
EDGES = [709.782712893384, 709.7827128933841, -745.1332191019412, -745.1332191019413, -708.5, 19.07]


def sigmoid(x):
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, 1, e) / (1 + e)


# reference, bound in units of the last place
FUNCTIONS = {
    "exp": (np.exp, 1.0),
    "expm1": (np.expm1, 1.8),
    "sigmoid": (sigmoid, 2.5),
    "tanh": (np.tanh, 2.5),
    "log": (np.log, 0.9),
}


@pytest.mark.skipif(np.finfo(np.longdouble).nmant < 63, reason="no extended precision")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_error_bounds(name):
    reference, bound = FUNCTIONS[name]
    function = getattr(wide, name)

    @njit
    def mapped(x):
        out = np.empty_like(x)
        for i in range(x.size):
            out[i] = function(x[i])
        return out

    rng = np.random.default_rng(0)
    parts = [
        rng.standard_normal(20000),
        rng.uniform(-750, 750, 20000),
        rng.uniform(-2, 2, 20000) * 10.0 ** rng.integers(-320, 3, 20000),
        1 + rng.standard_normal(5000) * 10.0 ** rng.integers(-17, -1, 5000),
        SPECIAL,
        EDGES,
    ]
    x = np.concatenate(parts)
    with np.errstate(all="ignore"):
        wanted = reference(x.astype(np.longdouble))
        rounded = wanted.astype(np.float64)
    result = mapped(x)
    finite = np.isfinite(rounded)
    np.testing.assert_array_equal(result[~finite], rounded[~finite])
    known = ~np.isnan(rounded)
    np.testing.assert_array_equal(np.signbit(result[known]), np.signbit(rounded[known]))
    units = np.abs(result[finite] - wanted[finite]) / np.spacing(np.abs(rounded[finite]))
    assert units.max() < bound
