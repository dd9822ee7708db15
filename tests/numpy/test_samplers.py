"""Samples of structir.random equal those of JAX from the same keys, to rounding."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import structir
import structir.nn
import structir.random
from tests.cases import every_case

jax = pytest.importorskip("jax")

from tests.numpy.derivatives import assert_close, interpreted  # noqa: E402

KEY = np.asarray(jax.random.PRNGKey(11))
RANDOM = np.random.default_rng(0)
A, B = (RANDOM.uniform(low, 8, (10, 4)).astype("float32") for low in (0.05, 0.5))
P = RANDOM.uniform(0.05, 0.95, (10, 4)).astype("float32")
SHARES = np.array([0.2, 0.3, 0.5], "float32")
Sampler = Callable[[Any, Any], Any]
CASES: dict[str, Sampler] = {
    "ball": lambda r, k: r.ball(k, 3, 2, (9,)),
    "beta": lambda r, k: r.beta(k, A, B),
    "binomial": lambda r, k: [r.binomial(k, 20.0, P, (10, 4)), r.binomial(k, A * 30 // 1, P)],
    "cauchy": lambda r, k: r.cauchy(k, (9,)),
    "chisquare": lambda r, k: r.chisquare(k, B),
    "dirichlet": lambda r, k: [r.dirichlet(k, A), r.dirichlet(k, A[0], (5,))],
    "double_sided_maxwell": lambda r, k: r.double_sided_maxwell(k, 0.5, 2.0, (9,)),
    "f": lambda r, k: r.f(k, B, A),
    "gamma": lambda r, k: [r.gamma(k, A), r.gamma(k, 2.5, (7,))],
    "generalized_normal": lambda r, k: r.generalized_normal(k, 1.5, (20,)),
    "geometric": lambda r, k: r.geometric(k, P),
    "loggamma": lambda r, k: r.loggamma(k, A),
    "logistic": lambda r, k: r.logistic(k, (9,)),
    "lognormal": lambda r, k: r.lognormal(k, B),
    "maxwell": lambda r, k: r.maxwell(k, (9,)),
    "multinomial": lambda r, k: r.multinomial(k, 20.0, SHARES),
    "orthogonal": lambda r, k: [r.orthogonal(k, 4), r.orthogonal(k, 3, (2,), m=5)],
    "pareto": lambda r, k: r.pareto(k, B),
    "poisson": lambda r, k: [r.poisson(k, A * 4), r.poisson(k, 3.0, (9,))],
    "rayleigh": lambda r, k: r.rayleigh(k, B),
    "t": lambda r, k: r.t(k, B, (10, 4)),
    "triangular": lambda r, k: r.triangular(k, -1.0, 0.3, 2.0, (9,)),
    "wald": lambda r, k: r.wald(k, B),
    "weibull_min": lambda r, k: r.weibull_min(k, 2.0, 1.5, (9,)),
}


@every_case("name", CASES)
def test_samples_equal_those_of_jax(name: str) -> None:
    wanted = jax.tree.leaves(CASES[name](jax.random, jax.numpy.asarray(KEY)))
    assert_close(interpreted(lambda k: CASES[name](structir.random, k), KEY), wanted, 1e-5)


def test_mapped_and_compiled_samples_equal_those_of_jax() -> None:
    keys = np.asarray(jax.random.split(jax.numpy.asarray(KEY), 3))

    def call(library: Any) -> Callable[..., Any]:
        return lambda key: [library.random.gamma(key, A[0]), library.random.poisson(key, A[0])]

    wanted = jax.tree.leaves(jax.vmap(call(jax))(keys))
    assert_close(jax.tree.leaves(structir.vmap(call(structir))(keys)), wanted, 1e-5)


def test_samples_are_differentiable_by_their_order() -> None:
    for name in ("gamma", "loggamma"):
        wanted = jax.grad(lambda a, n=name: getattr(jax.random, n)(KEY, a).sum())(A)
        own = structir.grad(lambda a, n=name: getattr(structir.random, n)(KEY, a).sum())
        assert_close(interpreted(own, A), [wanted], 1e-5)


@every_case("name", ("orthogonal", "delta_orthogonal", "lecun_uniform", "truncated_normal"))
def test_initializers_equal_those_of_jax(name: str) -> None:
    shape = (2, 2, 3, 4) if name == "delta_orthogonal" else (5, 4)
    own, other = (getattr(s.nn.initializers, name)() for s in (structir, jax))
    assert_close([own(KEY, shape)], [other(jax.numpy.asarray(KEY), shape)], 1e-5)
