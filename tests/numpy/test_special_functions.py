"""Special functions equal those of SciPy in float64 and of JAX in float32: values, dtypes,
gradients, mapped and compiled functions."""

from typing import Any

import numpy as np
import pytest

import structir
import structir.scipy.special
from structir.errors import DiagnosticError
from tests.cases import every_case

jax = pytest.importorskip("jax")

from tests.numpy.derivatives import (  # noqa: E402
    assert_close,
    assert_gradients_equal,
    assert_mapped_equal,
    interpreted,
)

RANDOM = np.random.default_rng(6)
POWERS = np.tile(np.array([0, 1.0, 0.5, -1, 0, 2], "float32"), (3, 1))


def reals(low: float, high: float) -> np.ndarray:
    return RANDOM.uniform(low, high, (3, 6)).astype("float32")


CASES: dict[str, tuple[np.ndarray, ...]] = {
    "betainc": (reals(0.1, 10), reals(0.1, 10), reals(0, 1)),
    "boxcox": (reals(0.1, 5), POWERS),
    "boxcox1p": (reals(-0.5, 5), POWERS),
    "comb": (reals(0, 20).round(), reals(0, 20).round()),
    "dawsn": (np.concatenate([reals(-15, 15), reals(-0.4, 0.4)]),),
    "erfcx": (reals(-4, 30),),
    "exp1": (reals(0.001, 40),),
    "expi": (reals(-30, 60),),
    "gammainc": (reals(0.05, 20), reals(0, 30)),
    "gammaincc": (reals(0.05, 20), reals(0, 30)),
    "i0": (reals(-20, 20),),
    "i0e": (reals(-20, 20),),
    "i1": (reals(-20, 20),),
    "i1e": (reals(-20, 20),),
    "loggamma": (reals(-2, 30),),
    "poch": (reals(0.1, 5), reals(0, 5)),
    "spence": (reals(0, 5),),
}
# Without gradients by all arguments in JAX, with inexact ones, or with NaN.
LAST_ONLY, LOOSE, UNDEFINED = ("betainc",), ("boxcox", "erfcx", "dawsn"), ("spence",)


@every_case("name", CASES)
def test_functions_equal_those_of_scipy_and_jax(name: str) -> None:
    special, own = pytest.importorskip("scipy.special"), getattr(structir.scipy.special, name)
    arguments = CASES[name]
    wide = [x.astype("float64") for x in arguments]
    expected = getattr(special, name)(*wide)
    assert_close([own(*wide)], [np.where(np.isnan(expected), np.inf, expected)], 1e-12)
    wanted = np.asarray(getattr(jax.scipy.special, name)(*arguments))
    assert_close([own(*arguments)], [wanted], 1e-5)


@every_case("name", CASES)
def test_gradients_and_mapped_functions(name: str) -> None:
    def call(library: Any, *x: Any) -> Any:
        return getattr(library.scipy.special, name)(*x)

    arguments = CASES[name]
    count = len(arguments)
    positions = [count - 1] if name in LAST_ONLY else range(count)
    if name not in UNDEFINED:
        tolerance = 1e-3 if name in LOOSE else 1e-4
        assert_gradients_equal(call, arguments, tuple(positions), tolerance)
    assert_mapped_equal(call, arguments, 2e-5)


def test_compiled_mapped_loops() -> None:
    """The operands of the ops behind a loop have sizes that the results of the loop lack."""
    a, x = (v.astype("float64") for v in CASES["gammainc"])
    gammainc = structir.scipy.special.gammainc
    np.testing.assert_allclose(structir.vmap(gammainc)(a, x), gammainc(a, x), rtol=1e-12)
    mapped = structir.vmap(structir.grad(gammainc, 1))(a[0], x[0])
    density = structir.scipy.stats.gamma.pdf(x[0], a[0])
    np.testing.assert_allclose(mapped, density, rtol=1e-12)


def test_the_gradient_by_the_order_of_beta_is_that_of_differences() -> None:
    betainc = structir.scipy.special.betainc
    a, b, x = (v.astype("float64")[0] for v in CASES["betainc"])
    for k in range(2):
        step = np.eye(2)[k] * 1e-5
        upper, lower = betainc(a + step[0], b + step[1], x), betainc(a - step[0], b - step[1], x)
        (result,) = interpreted(structir.grad(lambda *v: betainc(*v).sum(), k), a, b, x)
        np.testing.assert_allclose(result, (upper - lower) / 2e-5, rtol=1e-6, atol=1e-9)


def test_limits_and_integer_orders() -> None:
    special = structir.scipy.special
    x, orders = reals(0.01, 3).ravel()[:8], np.array([0, 1, 2, 3, 1, 2, 5, 9])
    wanted = jax.scipy.special.expn(orders.astype("float32"), x)
    assert_close([special.expn(orders, x)], [wanted], 1e-6)
    assert_close([special.bernoulli(8)], [jax.scipy.special.bernoulli(8)], 1e-6)
    ends = np.array([0.0, np.inf, -1.0], "float32")
    np.testing.assert_array_equal(special.exp1(ends), np.array([np.inf, 0, np.nan], "f"))
    np.testing.assert_array_equal(special.expi(ends[:2]), np.array([-np.inf, np.inf], "f"))
    np.testing.assert_array_equal(
        special.dawsn(np.array([0.0, 1e-20], "f")), [0, np.float32(1e-20)]
    )
    with pytest.raises(DiagnosticError, match="bernoulli: n: expected an int of at least 0"):
        special.bernoulli(-1)
