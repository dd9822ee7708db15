"""Functions of structir.nn and structir.scipy equal those of JAX, evaluated at once and traced."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import structir.nn
import structir.numpy
import structir.scipy
from structir.errors import DiagnosticError
from tests.cases import every_case
from tests.numpy.against_jax import assert_equals_jax, assert_gradient_equals_jax

jax = pytest.importorskip("jax")
RANDOM = np.random.default_rng(9)
A, B = RANDOM.normal(size=(3, 4)), RANDOM.normal(size=(3, 4))
X, P = RANDOM.normal(size=(2, 3, 4)), RANDOM.uniform(0.1, 0.9, size=(3, 4))
N, M = np.arange(-5, 6, dtype="int32"), X > 0.3
BYTES, F = np.array([0, 1, 200], "uint8"), A.astype("float32")
ROWS = [[np.inf, 1, 2], [-np.inf, 1, 2], [-np.inf, -np.inf, -np.inf], [1e38, 1e38, 1e38]]
ENDS = np.array([*ROWS, [1000, 1000, -1000], [np.nan, 1, 2]])
ZEROS = np.array([0.0, 1.0, -1.0, 6.0, 2.0, -3.0])
S, VECTOR = RANDOM.normal(size=(4, 4)), RANDOM.normal(size=4)
POSITIVE = S @ S.T + np.eye(4)
BATCH = np.stack([POSITIVE, POSITIVE * 2])
POINTS, PAIR = RANDOM.normal(size=(3, 4)), RANDOM.normal(size=(2, 4))
Q, K, U = (RANDOM.normal(size=(2, 5, 4, 8)).astype("float32") for _ in range(3))
LENGTHS = np.array([3, 5], "int32")


def masked(s: Any, x: Any, mask: Any) -> list[Any]:
    functions = (s.nn.softmax, s.nn.log_softmax)
    return [f(x, axis=axis, where=mask) for f in functions for axis in (-1, 0, (0, 2))]


def sums(s: Any, x: Any) -> list[Any]:
    f, minus, none = s.scipy.special.logsumexp, np.full(x.shape, -2.0, "f"), np.zeros(x.shape, "f")
    signed = [f(x, 1, None, keepdims, return_sign=True) for keepdims in (False, True)]
    weighted = [f(x, 1, b, return_sign=True) for b in (minus, none)]
    return [f(x, axis=1), f(x, axis=1, b=none), *signed, *weighted]


def normal(s: Any, *args: Any) -> list[Any]:
    norm = s.scipy.stats.norm
    return [f(*args) for f in (norm.logpdf, norm.pdf, norm.cdf)]


CASES: dict[str, tuple[Any, ...]] = {
    "softmax of masks": (masked, X, M),
    "softmax of one mask": (lambda s, x, m: masked(s, x, m[0]), X, M),
    "softmax of none": (lambda s, x: masked(s, x, np.zeros((2, 3, 4), bool)), X),
    "softmax over all": (
        lambda s, x: [f(x) for f in (s.scipy.special.softmax, s.scipy.special.log_softmax)],
        ENDS[4],
    ),
    "log_softmax of large": (lambda s, x: s.nn.log_softmax(x, axis=(0, 1)), ENDS[3:5]),
    "logsumexp": (sums, ENDS),
    "logsumexp of numbers": (sums, A),
    "logsumexp of float32": (sums, F),
    "standardize": (lambda s, x: s.nn.standardize(x, -1, 0.5, 2.0), X),
    "relu": (lambda s, m: s.nn.relu(m), M),
    "relu6": (lambda s, n, b: (s.nn.relu6(n), s.nn.relu6(b)), N, BYTES),
    "hard_tanh": (lambda s, n, m: (s.nn.hard_tanh(n), s.nn.hard_tanh(m)), N, M),
    "leaky_relu": (lambda s, n: (s.nn.leaky_relu(n, 2), s.nn.leaky_relu(n, 0.5)), N),
    "norm": (lambda s, x, y, z: normal(s, x, y, z), A, B, P),
    "norm of numbers": (lambda s, x: normal(s, x, 1.0, 2.0), A),
    "norm of mixed": (lambda s, x, y, z: normal(s, x, y, z), A, F, P.astype("float32")),
    "norm of float16": (lambda s, x: s.scipy.stats.norm.logpdf(x), A.astype("float16")),
    "xlogy": (
        lambda s, x, p, f: (s.scipy.special.xlogy(x, 2.5), s.scipy.special.xlogy(f, p)),
        *(A, P, F),
    ),
    "attention windows": (
        lambda s, q, k, v: [
            s.nn.dot_product_attention(q, k, v, local_window_size=n) for n in (2, (1, 0))
        ],
        *(Q, K, U),
    ),
    "attention lengths": (
        lambda s, q, k, v, n: s.nn.dot_product_attention(
            q, k, v, query_seq_lengths=n, key_value_seq_lengths=n - 1, is_causal=True
        ),
        *(Q, K, U, LENGTHS),
    ),
    "attention residual": (
        lambda s, q, k, v: s.nn.dot_product_attention(
            q, k, v, return_residual=True, implementation="xla"
        ),
        *(Q, K, U),
    ),
    "attention without keys": (
        lambda s, q, k, v: s.nn.dot_product_attention(q, k, v, mask=np.zeros((1, 1, 5, 5), bool)),
        *(Q, K, U),
    ),
    "cho_solve": (
        lambda s, a, b: [
            s.scipy.linalg.cho_solve(s.scipy.linalg.cho_factor(a, lower=lower), b)
            for lower in (False, True)
        ],
        *(POSITIVE, VECTOR),
    ),
    "lu_solve of a batch": (
        lambda s, a, b: [
            s.scipy.linalg.lu_solve(s.scipy.linalg.lu_factor(a), x, trans)
            for x in (b[0], b[..., None] * b[:, None, :])
            for trans in (0, 1)
        ],
        *(BATCH, PAIR),
    ),
    "solve a batch": (lambda s, a, b: s.scipy.linalg.solve(a, b), BATCH, VECTOR),
    "solve mixed": (lambda s, a, b: s.scipy.linalg.solve(a, b.astype("float32")), S, VECTOR),
    "solve_triangular of a batch": (
        lambda s, a, b: s.scipy.linalg.solve_triangular(a, b[..., None], lower=True),
        *(BATCH, PAIR),
    ),
    "hints": (
        lambda s, a: (
            s.scipy.linalg.det(a, check_finite=False),
            s.scipy.linalg.inv(a, overwrite_a=True),
            s.scipy.linalg.cholesky(a, check_finite=False),
        ),
        POSITIVE,
    ),
    "expm": (lambda s, a: s.scipy.linalg.expm(a * 30, max_squarings=2), POSITIVE),
    "toeplitz of a batch": (lambda s, a, b: s.scipy.linalg.toeplitz(a, b[:, :2]), A, B),
    "multivariate_normal": (
        lambda s, x, m, c: [
            s.scipy.stats.multivariate_normal.logpdf(x, mean, cov)
            for mean, cov in ((m, c), (m, 2.0), (m.astype("float32"), c))
        ],
        *(POINTS, VECTOR, POSITIVE),
    ),
    "multivariate_normal of numbers": (
        lambda s, x: s.scipy.stats.multivariate_normal.pdf(x, 0.5, 2.0),
        VECTOR,
    ),
    "multivariate_normal of batches": (
        lambda s, x, m, c: s.scipy.stats.multivariate_normal.logpdf(x, m, c),
        *(PAIR, PAIR[::-1].copy(), BATCH),
    ),
    "cg of a preconditioner": (
        lambda s, a, b: s.scipy.sparse.linalg.cg(a, b, tol=1e-13, M=np.diag(1 / np.diag(POSITIVE)))[
            0
        ],
        *(POSITIVE, VECTOR),
    ),
    "cg of trees": (
        lambda s, a, b: s.scipy.sparse.linalg.cg(
            lambda v: {"a": v["a"] * 2, "b": v["b"] * 3}, {"a": b, "b": a}, tol=1e-13
        )[0],
        *(POSITIVE, VECTOR),
    ),
}


@every_case("name", CASES)
def test_functions_equal_those_of_jax(name: str) -> None:
    assert_equals_jax(*CASES[name])


FAR = np.linspace(-19, 12, 32)
OF_ONE: dict[str, tuple[Any, ...]] = {
    "special": (
        lambda s, x: [
            getattr(s.scipy.special, name)(x)
            for name in ("gamma", "gammasgn", "factorial", "log_ndtr")
        ],
        np.array([0.5, 1.0, 2.0, 3.5, 10.0, -0.5, -1.5, -2.5, 30.0]),
    ),
    "polygamma": (lambda s, x: [s.scipy.special.polygamma(k, x) for k in (0, 1, 2)], P),
    "multigammaln": (lambda s, x: s.scipy.special.multigammaln(x + 3, 2), P),
    "nn": (
        lambda s, x: [
            f(x) for f in (s.nn.identity, s.nn.sparse_plus, s.nn.sparse_sigmoid, s.nn.logmeanexp)
        ],
        A * 2,
    ),
    "log1mexp": (lambda s, x: s.nn.log1mexp(x), P * 3),
    "logmeanexp": (lambda s, x: s.nn.logmeanexp(x, axis=1, where=A > -1, keepdims=True), A),
    "norm": (
        lambda s, x: [
            getattr(s.scipy.stats.norm, name)(x, 0.5, 2.0) for name in ("logcdf", "sf", "logsf")
        ],
        FAR,
    ),
    "inverse norm": (
        lambda s, x: (s.scipy.stats.norm.ppf(x, 0.5, 2.0), s.scipy.stats.norm.isf(x)),
        P,
    ),
}
OF_TWO = ("betaln", "beta", "xlog1py", "rel_entr", "kl_div", "zeta")


@every_case("name", OF_ONE)
def test_special_functions_equal_those_of_jax(name: str) -> None:
    assert_equals_jax(*OF_ONE[name])


@every_case("name", OF_TWO)
def test_special_functions_of_two_arguments_equal_those_of_jax(name: str) -> None:
    assert_equals_jax(lambda s, x, y: getattr(s.scipy.special, name)(x + 1, y), P, P[::-1] * 3)


GRADIENTS: dict[str, tuple[Any, ...]] = {
    "gamma": (lambda s, x: s.scipy.special.gamma(x), P),
    "log_ndtr": (lambda s, x: s.scipy.special.log_ndtr(x), A * 4),
    "xlog1py": (lambda s, x, y: s.scipy.special.xlog1py(x, y), ZEROS, np.abs(ZEROS)),
    "rel_entr": (lambda s, x, y: s.scipy.special.rel_entr(x, y), P, P[::-1].copy()),
    "softmax": (lambda s, x: s.nn.softmax(x, axis=(0, 2)), X),
    "masked softmax": (lambda s, x: s.nn.softmax(x, axis=1, where=np.abs(X) < 2), X),
    "log_softmax": (lambda s, x: s.nn.log_softmax(x, axis=(1, 2)), X),
    "logsumexp": (lambda s, x, b: s.scipy.special.logsumexp(x, 1, b), X, X**2),
    "signed logsumexp": (
        lambda s, x, b: s.scipy.special.logsumexp(x, 1, b, return_sign=True)[0],
        *(X, X[::-1].copy()),
    ),
    "masked logsumexp": (lambda s, x: s.nn.logsumexp(x, axis=0, where=X > 0), X),
    "xlogy": (lambda s, x, y: s.scipy.special.xlogy(x, y), ZEROS, np.abs(ZEROS) + 1),
    **{
        f"{name} at 0 and ends": (lambda s, x, f=name: getattr(s.nn, f)(x), ZEROS)
        for name in ("relu", "relu6", "elu", "celu", "hard_tanh", "selu")
    },
    "standardize": (lambda s, x: s.nn.standardize(x, (0, 1)), X),
    "norm": (lambda s, x, y, z: s.scipy.stats.norm.logpdf(x, y, z), A, B, P),
    "lu_solve": (
        lambda s, a, b: s.scipy.linalg.lu_solve(s.scipy.linalg.lu_factor(a), b[..., None]),
        *(BATCH, PAIR),
    ),
    "multivariate_normal": (
        lambda s, x, m, c: s.scipy.stats.multivariate_normal.logpdf(x, m, c),
        *(POINTS, VECTOR, POSITIVE),
    ),
}


@every_case("name", GRADIENTS)
def test_gradients_equal_those_of_jax(name: str) -> None:
    assert_gradient_equals_jax(*GRADIENTS[name])


def test_gradient_of_softmax_of_none_is_zero() -> None:
    mask = np.zeros((3, 4), bool)
    slope = structir.grad(lambda x: structir.nn.softmax(x, where=mask).sum())(A)
    np.testing.assert_array_equal(slope, np.zeros_like(A))


LINALG = structir.scipy.linalg
INVALID: dict[str, Callable[[], Any]] = {
    "one_hot: num_classes": lambda: structir.nn.one_hot(np.arange(3), 2.5),
    "one_hot: num_classes: expected a size, found -1": lambda: structir.nn.one_hot(N, -1),
    "implementation: expected": lambda: structir.nn.dot_product_attention(
        Q, K, U, implementation="fast"
    ),
    "inv: a: expected an array of rank 2": lambda: LINALG.inv(2.0),
    "solve: assume_a: expected gen": lambda: LINALG.solve(S, VECTOR, assume_a="any"),
    "solve_triangular: trans": lambda: LINALG.solve_triangular(S, VECTOR, trans=3),
    "lu_solve: trans": lambda: LINALG.lu_solve((S, np.arange(4)), VECTOR, trans=3),
    "lu_solve: b: expected 4 rows": lambda: LINALG.lu_solve((S, np.arange(4)), VECTOR[:3]),
    "polar: side": lambda: LINALG.polar(S, side="up"),
    "multivariate_normal: cov": lambda: structir.scipy.stats.multivariate_normal.pdf(
        POINTS, VECTOR, VECTOR
    ),
    "unravel_index: indices: expected integers": lambda: structir.numpy.unravel_index(
        np.array([1.5]), (2, 3)
    ),
}


@every_case("message", INVALID)
def test_invalid_arguments_are_one_error(message: str) -> None:
    with pytest.raises(DiagnosticError, match=message):
        INVALID[message]()


ARRAYS: dict[str, tuple[Any, ...]] = {
    "cumsum": (lambda s, b, m: (s.numpy.cumsum(b), s.numpy.cumsum(m)), BYTES, M),
    "cumulative_sum": (lambda s, b: s.numpy.cumulative_sum(b, axis=0), BYTES),
    "cumprod": (lambda s, b: s.numpy.cumprod(b), BYTES),
    "quantile": (lambda s, a: s.numpy.quantile(a, np.array([-0.5, 0.25, 2.0])), A),
    "roll": (
        lambda s, a, n: [
            s.numpy.roll(a, n, (0, 1)),
            s.numpy.roll(a, n, 0),
            s.numpy.roll(a, n),
            s.numpy.roll(a, 2, (0, 1)),
        ],
        *(A, np.array([1, 2])),
    ),
}


@every_case("name", ARRAYS)
def test_functions_of_arrays_equal_those_of_jax(name: str) -> None:
    assert_equals_jax(*ARRAYS[name])


MAPPED: dict[str, tuple[Any, ...]] = {
    "round": (lambda s: s.lax.round, A * 3),
    "cbrt": (lambda s: s.lax.cbrt, A),
    "pad": (lambda s: lambda x: s.lax.pad(x, np.float64(7), ((1, -1, 2),)), A),
    "masked softmax": (lambda s: lambda x, m: s.nn.softmax(x, where=m), X, M),
    "solve": (lambda s: s.scipy.linalg.solve, BATCH, PAIR),
    "lu_solve": (
        lambda s: lambda a, b: s.scipy.linalg.lu_solve(s.scipy.linalg.lu_factor(a), b),
        *(BATCH, PAIR),
    ),
    "polygamma": (lambda s: lambda x: s.scipy.special.polygamma(1, x), P),
}


@every_case("name", MAPPED)
def test_mapped_functions_equal_those_of_jax(name: str) -> None:
    function, *arguments = MAPPED[name]
    assert_equals_jax(lambda s, *args: s.vmap(function(s))(*args), *arguments)
