"""Arguments of functions of `structir.numpy` beyond the operands, compared with NumPy."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import structir.numpy as snp
from structir.errors import DiagnosticError
from tests.cases import every_case

RANDOM = np.random.default_rng(5)
A, B = RANDOM.normal(size=(3, 4)), RANDOM.normal(size=(3, 4))
C, V, W = RANDOM.normal(size=(2, 3, 4)), RANDOM.normal(size=6), RANDOM.normal(size=3)
S = A @ A.T + np.eye(3)
M = A > 0.2
N = np.where(A > 1, np.nan, A)
Z = np.where(M, np.nan, A)
Z[1] = np.nan
CASES: dict[str, Callable[[Any], Any]] = {
    "all where": lambda xp: xp.all(A > -1, axis=1, where=M),
    "any where": lambda xp: xp.any(A > 0.5, where=~M),
    "var where": lambda xp: xp.var(A, axis=1, where=A > -1, ddof=1),
    "std where": lambda xp: xp.std(A, where=M),
    "var ddof": lambda xp: xp.var(A, axis=0, ddof=1, keepdims=True),
    "nansum dtype": lambda xp: xp.nansum(N, 1, np.float64),
    "nansum where": lambda xp: xp.nansum(N, axis=0, where=M, initial=2.0),
    "nanmean where": lambda xp: xp.nanmean(N, axis=1, keepdims=True, where=A > -2),
    "nanmax all nan": lambda xp: xp.nanmax(Z, axis=1),
    "nanmin all nan": lambda xp: xp.nanmin(Z, axis=1, keepdims=True),
    "nanmax": lambda xp: xp.nanmax(N, axis=0),
    "nanprod": lambda xp: xp.nanprod(N, axis=0, keepdims=True),
    "nanvar": lambda xp: xp.nanvar(N, axis=1, ddof=1, where=A > -2),
    "cumsum0": lambda xp: xp.cumulative_sum(A, axis=1, include_initial=True),
    "diff pre": lambda xp: xp.diff(A, axis=1, prepend=0.0, append=9.0),
    "diff pre2": lambda xp: xp.diff(A, n=2, axis=0, append=B[:1]),
    "trap x0": lambda xp: xp.trapezoid(A, x=W, axis=0),
    "trap x2": lambda xp: xp.trapezoid(A, x=B, axis=0),
    "trap x1": lambda xp: xp.trapezoid(A, x=V[:4]),
    "avg": lambda xp: xp.average(A, axis=1, weights=V[:4] ** 2, returned=True),
    "avg2": lambda xp: xp.average(A, axis=0, weights=B**2, keepdims=True),
    "avg3": lambda xp: xp.average(A, returned=True)[0],
    "trace dtype": lambda xp: xp.trace(C, 0, 1, 2, np.float64),
    "lin trace": lambda xp: xp.linalg.trace(C),
    "lin trace2": lambda xp: xp.linalg.trace(C, offset=1),
    "lin diag": lambda xp: xp.linalg.diagonal(C),
    "cov": lambda xp: xp.cov(A),
    "cov1": lambda xp: xp.cov(V),
    "cov y": lambda xp: xp.cov(A, B, rowvar=False),
    "cov b": lambda xp: xp.cov(A, bias=True),
    "cov ddof": lambda xp: xp.cov(A, ddof=2),
    "cov fw": lambda xp: xp.cov(A, fweights=np.array([1, 2, 1, 3])),
    "cov aw": lambda xp: xp.cov(A, aweights=V[:4] ** 2, fweights=np.array([1, 2, 1, 3])),
    "cov y1": lambda xp: xp.cov(V, V**2),
    "corr": lambda xp: xp.corrcoef(A, B),
    "corr rv": lambda xp: xp.corrcoef(A, rowvar=False),
    **{
        f"conv {m} {i}": (
            lambda xp, m=m, i=i: xp.convolve(*[(V, W), (W, V), (V[:2], V), (V, V[:2])][i], mode=m)
        )
        for m in ("full", "same", "valid")
        for i in range(4)
    },
    **{
        f"corr {m} {i}": (
            lambda xp, m=m, i=i: xp.correlate(*[(V, W), (W, V), (V[:2], V), (V, V[:2])][i], mode=m)
        )
        for m in ("full", "same", "valid")
        for i in range(4)
    },
    "hist": lambda xp: xp.histogram(V, 4)[1],
    "hist c": lambda xp: np.asarray(xp.histogram(V, 4)[0]).astype(float),
    "hist edges": lambda xp: np.asarray(xp.histogram(V, np.array([-1.0, 0.0, 0.5, 2.0]))[0]).astype(
        float
    ),
    "hist w": lambda xp: xp.histogram(V, 5, weights=V**2, range=(-2.0, 2.0))[0],
    "hist d": lambda xp: xp.histogram(V, 5, density=True)[0],
    "hist const": lambda xp: xp.histogram(np.ones(4), 3)[1],
    **{
        f"quant {m}": (
            lambda xp, m=m: xp.quantile(
                A, np.array([0.1, 0.52, 0.77]), axis=1, method=m, keepdims=True
            )
        )
        for m in ("linear", "lower", "higher", "midpoint", "nearest")
    },
    "quant0": lambda xp: xp.quantile(A, 0.3, keepdims=True),
    "quant1": lambda xp: xp.quantile(A, 0.3, axis=1, keepdims=True),
    "quant nan": lambda xp: xp.quantile(N, 0.3, axis=1),
    "quantile of a matrix of q": lambda xp: xp.quantile(V, np.array([[0.1, 0.2], [0.3, 1.0]])),
    "perc": lambda xp: xp.percentile(A, [0, 30, 100], axis=0),
    "median k": lambda xp: xp.median(A, keepdims=True),
    "median k1": lambda xp: xp.median(A, axis=1, keepdims=True),
    "median k-1": lambda xp: xp.median(C, axis=-1),
    "median nan": lambda xp: xp.median(N, axis=1),
    "median nan0": lambda xp: xp.median(N),
    "isin": lambda xp: xp.isin(np.array([1, 2, 3]), np.array([2, 5]), invert=True),
    "aeq": lambda xp: (
        xp.array_equal(A, A[:1]),
        xp.array_equal(A, A),
        xp.array_equal(N, N),
        xp.array_equal(N, N, equal_nan=True),
        xp.array_equal(W, A),
    ),
    "isclose": lambda xp: xp.isclose(
        np.array([np.inf, np.inf, 1.0, np.nan, -np.inf, 1.0]),
        np.array([np.inf, 1.0, np.inf, np.nan, np.inf, 1 + 1e-9]),
    ),
    "isclose n": lambda xp: xp.isclose(
        np.array([np.inf, np.nan]), np.array([np.inf, np.nan]), equal_nan=True
    ),
    "allclose": lambda xp: (
        xp.allclose(np.array([np.inf]), np.array([np.inf])),
        xp.allclose(N, N),
        xp.allclose(N, N, equal_nan=True),
    ),
    **{
        f"vn {o} {a}": (lambda xp, o=o, a=a: xp.linalg.vector_norm(C, ord=o, axis=a, keepdims=True))
        for o in (1, 2, 3, np.inf, -np.inf, 0)
        for a in (None, 1, (0, 2))
    },
    **{
        f"mn {o}": (lambda xp, o=o: xp.linalg.matrix_norm(C, ord=o))
        for o in ("fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf)
    },
    "mnk": lambda xp: xp.linalg.matrix_norm(C, ord=1, keepdims=True),
    **{
        f"norm {o}": (lambda xp, o=o: xp.linalg.norm(C, o, axis=(0, 2), keepdims=True))
        for o in ("fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf, None)
    },
    "norm3": lambda xp: xp.linalg.norm(C),
    "norm -1": lambda xp: xp.linalg.norm(V, -1),
    "norm v": lambda xp: xp.linalg.norm(A, 3, axis=0),
    "pinv": lambda xp: xp.linalg.pinv(C, rcond=1e-3),
    "rank": lambda xp: xp.linalg.matrix_rank(np.stack([S, np.outer(W, W)])),
    "lins": lambda xp: xp.linspace(0.0, 1.0, 5, retstep=True)[1],
    "lins2": lambda xp: xp.linspace(A, B, 5, axis=-1),
    "lins3": lambda xp: xp.linspace(A, B, 5, axis=1, retstep=True)[0],
    "logs": lambda xp: xp.logspace(W, 2.0, 4, axis=1),
    "geos": lambda xp: xp.geomspace(abs(W), 2.0, 4, axis=-1),
    "geos of negative": lambda xp: xp.geomspace(-abs(W), -2.0, 4),
    "var of a number": lambda xp: (xp.var(3.0), xp.std(3), xp.var(A, axis=())),
    "hist max": lambda xp: xp.histogram(A.astype("float32"), 7)[0].astype(float),
    "gradient of coordinates": lambda xp: xp.gradient(A, np.sort(W), np.array([0, 1, 3, 7.0])),
    "gradient of integers": lambda xp: xp.gradient(np.array([9, 3, 5, 1], "uint8")),
    "trapezoid of integers": lambda xp: xp.trapezoid(np.array([200, 100, 5])),
    "floor of integers": lambda xp: [f(np.arange(3)) for f in (xp.floor, xp.ceil, xp.trunc)],
    "float_power": lambda xp: xp.float_power(np.array([2, 3]), np.array([-1, 2])),
    "round to tens": lambda xp: xp.round(np.array([15, 25, -15, -5, 5, 14, 16, 149]), -1),
    "nan_to_num": lambda xp: xp.nan_to_num(N, False, 7.0),
    "nan_to_num of integers": lambda xp: xp.nan_to_num(np.arange(3)),
    "products of bools": lambda xp: [
        f(M, M[:, 1])
        for f in (lambda x, y: xp.matmul(x.T, y), lambda x, y: xp.einsum("ij,i->j", x, y))
    ],
    "inner of bools": lambda xp: (xp.inner(M, M), xp.vdot(M, M), xp.tensordot(M, M)),
    "mask of ix_": lambda xp: A[xp.ix_(np.array([0, 2]), M[0])],
    "kron of ranks": lambda xp: (xp.kron(V, W), xp.kron(A, W), xp.kron(C, A)),
    "roll by arrays": lambda xp: (
        xp.roll(A, np.array([1, 2]), (0, 1)),
        xp.roll(V, np.arange(6)),
        xp.roll(A, np.array([1, 2]), 0),
        xp.roll(A, 2, (0, 1)),
    ),
    "array nd": lambda xp: xp.array(W, ndmin=3),
    "array nd2": lambda xp: xp.array(W, dtype=float, ndmin=1),
}


@pytest.mark.filterwarnings("ignore")
@every_case("name", CASES)
def test_arguments_have_the_meaning_of_numpy(name: str) -> None:
    wanted, results = CASES[name](np), CASES[name](snp)
    pairs = zip(results, wanted, strict=True) if isinstance(wanted, tuple) else [(results, wanted)]
    for result, value in pairs:
        assert np.shape(result) == np.shape(value)
        np.testing.assert_allclose(result, value, rtol=1e-5, atol=1e-6)


INVALID: dict[str, Callable[[], Any]] = {
    "convolve: a: expected an array of rank 1, found rank 2": lambda: snp.convolve(A, V),
    "correlate: v: expected an array of rank 1, found rank 0": lambda: snp.correlate(V, 2.0),
    "vander: x: expected an array of rank 1, found rank 0": lambda: snp.vander(3.0),
    "diag: v: expected an array of rank 1 to 2, found rank 3": lambda: snp.diag(C),
    "trace|diagonal: a: .*, found rank 1": lambda: snp.trace(V),
    "interp: xp: expected an array of rank 1, found rank 2": lambda: snp.interp(V, A, A),
    "lexsort: expected a key, found none": lambda: snp.lexsort([]),
    "polyder: p: expected an array of rank 1, found rank 2": lambda: snp.polyder(A),
    "ravel_multi_index: .*, found 3 and 2": lambda: snp.ravel_multi_index((0, 1, 2), (3, 4)),
    "select: .*, found 1 and 2": lambda: snp.select([M], [A, A]),
    "take_along_axis: indices: .*, found rank 1": lambda: snp.take_along_axis(A, np.arange(3), 0),
    "tensordot: axes: expected a number or a pair": lambda: snp.tensordot(A, A, (0, 1, 2)),
    "einsum: expected subscripts and operands": lambda: snp.einsum(A, A),
    "einsum: axes: .*, found TracedArray": lambda: snp.einsum(A, [0, 1], A),
    "einsum: axes: .*, found 5": lambda: snp.einsum(A, [0, 1], 5),
    r"einsum: axes: .*, found \['a', 0\]": lambda: snp.einsum(A, ["a", 0]),
    r"einsum: axes: .*, found \[0.5, 1\]": lambda: snp.einsum(A, [0.5, 1]),
    "einsum: axes: .*, found 'ij'": lambda: snp.einsum(A, [0, 1], A, [0, 1], "ij"),
    "einsum: expected at most 52 labels, found 60": lambda: snp.einsum(A, [*range(60)]),
    "split: expected a multiple of 0": lambda: snp.split(V, 0),
    "histogram: bins: expected a positive int": lambda: snp.histogram(V, 0),
    "gradient: expected at least 2 elements": lambda: snp.gradient(V[:1]),
    "delete: obj: expected positions below 6": lambda: snp.delete(V, 9),
    "axis: expected an axis of an array of rank 2": lambda: snp.size(A, 5),
    "unstack|axis: expected an axis": lambda: snp.unstack(A, None),
    "roll: shift: expected an array of rank 0 to 1, found rank 2": lambda: snp.roll(V, A),
    "roll: shift and axis: expected .* found 3 and 2": lambda: snp.roll(A, (1, 2, 3), (0, 1)),
    "quantile: method": lambda: snp.quantile(V, 0.5, method="any"),
    "broadcast_shapes: expected tuples of sizes": lambda: snp.broadcast_shapes(A, (3,)),
    "expected at least one array": lambda: snp.hstack([]),
    "tril_indices_from: arr: .*, found rank 1": lambda: snp.tril_indices_from(V),
}


@every_case("message", INVALID)
def test_invalid_arguments_are_one_error(message: str) -> None:
    with pytest.raises(DiagnosticError, match=message):
        INVALID[message]()


def test_sizes_of_numbers_and_lists() -> None:
    assert (snp.ndim(3), snp.shape([[1, 2]]), snp.size(2.5)) == (0, (1, 2), 1)
    assert snp.result_type([1, 2], np.float32(1)) == np.float32
