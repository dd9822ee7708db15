"""Distributions of structir.scipy.stats equal those of JAX: values, gradients, mapped functions."""

from typing import Any

import numpy as np
import pytest

import structir
import structir.scipy
from structir.errors import DiagnosticError
from tests.cases import every_case
from tests.numpy.against_jax import assert_equals_jax

jax = pytest.importorskip("jax")

from tests.numpy.derivatives import (  # noqa: E402
    assert_close,
    assert_gradients_equal,
    assert_mapped_equal,
    interpreted,
)

RANDOM = np.random.default_rng(4)


def reals(low: float, high: float) -> np.ndarray:
    return RANDOM.uniform(low, high, (4, 6)).astype("float32")


def counts(limit: int) -> np.ndarray:
    return RANDOM.integers(-1, limit, (4, 6)).astype("float32")


LOC, SCALE, FIVE = reals(-0.5, 0.5), reals(0.5, 2), np.full((4, 6), 5, "float32")
CONTINUOUS: dict[str, tuple[np.ndarray, ...]] = {
    "beta": (reals(-0.5, 2), reals(0.5, 4), reals(0.5, 4), LOC, SCALE),
    "cauchy": (reals(-4, 4), LOC, SCALE),
    "chi2": (reals(-1, 9), reals(1, 9), LOC, SCALE),
    "expon": (reals(-1, 4), LOC, SCALE),
    "gamma": (reals(-1, 8), reals(0.5, 4), LOC, SCALE),
    "gennorm": (reals(-3, 3), reals(0.5, 3)),
    "gumbel_l": (reals(-3, 3), LOC, SCALE),
    "gumbel_r": (reals(-3, 3), LOC, SCALE),
    "laplace": (reals(-4, 4), LOC, SCALE),
    "logistic": (reals(-4, 4), LOC, SCALE),
    "pareto": (reals(0, 6), reals(0.5, 3), LOC, SCALE),
    "t": (reals(-4, 4), reals(1, 9), LOC, SCALE),
    "truncnorm": (reals(-3, 3), reals(-2, -0.5), reals(0.5, 2), LOC, SCALE),
    "uniform": (reals(-1, 2), LOC, SCALE),
    "vonmises": (reals(-4, 4), reals(0.1, 5)),
    "wrapcauchy": (reals(-1, 7), reals(0.1, 0.9)),
}
DISCRETE: dict[str, tuple[np.ndarray, ...]] = {
    "bernoulli": (counts(3), reals(0.1, 0.9)),
    "betabinom": (counts(7), FIVE, reals(0.5, 4), reals(0.5, 4)),
    "binom": (counts(7), FIVE, reals(0.1, 0.9)),
    "geom": (counts(6), reals(0.1, 0.9)),
    "nbinom": (counts(7), FIVE, reals(0.1, 0.9)),
    "poisson": (counts(9), reals(0.5, 4)),
}
SHARES = reals(0.05, 0.95)
BY_SHARE = ("ppf", "isf")


def functions(library: Any, name: str, arguments: Any) -> list[Any]:
    """Returns the results of all functions that JAX has, except for those of no argument."""
    names = [n for n in dir(getattr(jax.scipy.stats, name)) if not n.startswith("_")]
    distribution = getattr(library.scipy.stats, name)
    results = []
    for function in names:
        if function == "entropy":
            results.append(distribution.entropy(30 * arguments[1]))
        else:
            first = SHARES if function in BY_SHARE else arguments[0]
            results.append(getattr(distribution, function)(first, *arguments[1:]))
    return results


@every_case("name", {**CONTINUOUS, **DISCRETE})
def test_values(name: str) -> None:
    arguments = {**CONTINUOUS, **DISCRETE}[name]
    wanted = functions(jax, name, arguments)
    assert_close(functions(structir, name, arguments), wanted, 3e-5)


@every_case("name", CONTINUOUS)
def test_gradients_and_mapped_functions(name: str) -> None:
    """Also where the density is 0: the gradients of logarithms are masked there."""
    arguments = CONTINUOUS[name]
    positions = [0, len(arguments) - 1] if name in ("beta", "t") else range(len(arguments))

    names = [f for f in ("logpdf", "cdf", "logcdf") if hasattr(getattr(jax.scipy.stats, name), f)]

    def call(library: Any, *x: Any) -> Any:
        return [getattr(getattr(library.scipy.stats, name), f)(*x) for f in names]

    if not name.startswith("gumbel"):  # JAX has no gradient of these
        assert_gradients_equal(call, arguments, tuple(positions), 2e-3)
    assert_mapped_equal(call, arguments, 3e-5)


def test_the_distribution_function_of_t_is_that_of_scipy() -> None:
    t = pytest.importorskip("scipy.stats").t
    arguments = [x.astype("float64") for x in CONTINUOUS["t"]]
    own = structir.scipy.stats.t
    for name in ("cdf", "sf"):
        result = getattr(own, name)(*arguments)
        np.testing.assert_allclose(result, getattr(t, name)(*arguments), rtol=1e-10)


X = RANDOM.integers(0, 4, (6, 5)).astype("int32")
F = np.where(X == 3, np.nan, X).astype("float32")
METHODS = ("average", "min", "max", "dense", "ordinal")


@pytest.mark.parametrize("array", [X, F], ids=["integers", "with NaN"])
def test_samples(array: np.ndarray) -> None:
    def call(s: Any, x: Any) -> Any:
        stats = s.scipy.stats
        options = ({}, {"axis": 1, "keepdims": True}, {"axis": None})
        modes = [stats.mode(x[:, :4], **o) for o in options] if x.dtype == "int32" else []
        ranks = [stats.rankdata(x, method, axis=axis) for method in METHODS for axis in (None, 0)]
        errors = [stats.sem(x), stats.sem(x, None, 0), stats.sem(x, 1, nan_policy="omit")]
        return [*modes, *ranks, *errors]

    assert_equals_jax(call, array)


def test_multinomial_and_dirichlet() -> None:
    shares = np.array([0.2, 0.3, 0.5], "float32")
    points = RANDOM.dirichlet([1, 2, 3], 4).T.astype("float32")

    def call(s: Any, points: Any, shares: Any) -> Any:
        stats, k, alpha = s.scipy.stats, np.array([1, 2, 0], "int32"), 4 * shares
        return [
            stats.multinomial.logpmf(k, np.int32(3), shares),
            stats.multinomial.pmf(k, np.int32(4), shares),
            *[f(points, alpha) for f in (stats.dirichlet.logpdf, stats.dirichlet.pdf)],
            stats.dirichlet.logpdf(points[:2], alpha),
        ]

    wanted = jax.tree.leaves(call(jax, jax.numpy.asarray(points), jax.numpy.asarray(shares)))
    assert_close(interpreted(lambda *x: call(structir, *x), points, shares), wanted, 1e-5)
    with pytest.raises(DiagnosticError, match="as many coordinates as elements of alpha"):
        structir.scipy.stats.dirichlet.logpdf(points, shares[:1])


@pytest.mark.parametrize("width", [None, "silverman", 0.5])
def test_density_estimation(width: Any) -> None:
    key = np.asarray(jax.random.PRNGKey(3))
    weights = np.arange(1, 21).astype("float32")
    for shape in ((20,), (2, 20)):
        data = RANDOM.normal(size=shape).astype("float32")
        points = RANDOM.normal(size=(2, 5)).astype("float32")[: data.ndim]
        own, other = (s.scipy.stats.gaussian_kde(data, width, weights) for s in (structir, jax))
        results = [own(points), own.logpdf(points), own.resample(key, (4,))]
        wanted = [other(points), other.logpdf(points), other.resample(key, (4,))]
        if data.ndim == 1:
            results.append(own.integrate_box_1d(-0.5, 1.0))
            wanted.append(other.integrate_box_1d(-0.5, 1.0))
        assert_close(results, wanted, 3e-4)
    with pytest.raises(DiagnosticError, match="bw_method: expected one of scott"):
        structir.scipy.stats.gaussian_kde(weights, "wide")
