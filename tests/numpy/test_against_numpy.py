"""The functions of structir.numpy equal those of NumPy, evaluated at once and traced."""

from typing import Any

import numpy as np
import pytest

import structir
import structir.numpy as snp
from structir.script import R
from tests.cases import every_case

RNG = np.random.default_rng(0)
A, B = RNG.normal(size=(3, 4)), RNG.normal(size=(3, 4))
V, W = RNG.normal(size=6), RNG.normal(size=4)
P = np.abs(A) + 0.1
C = RNG.normal(size=(2, 3, 4))
I, J = np.array([[3, 1, 2, 0]] * 3), np.array([2, 0, 2])
M = A > 0
S = P @ P.T + np.eye(3)
E = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -2.5])

MANY_LABELS = [v for k in range(1, 26, 2) for v in (np.full((1, 1), 2.0), [k, k + 1]) * 2]
CASES = [
    *[
        lambda xp, f=f: getattr(xp, f)(A)
        for f in ["exp", "sin", "cos", "tanh", "arctan", "sinh", "cosh", "floor"]
    ],
    *[lambda xp, f=f: getattr(xp, f)(P) for f in ["log", "sqrt", "log2", "log10", "log1p", "cbrt"]],
    *[
        lambda xp, f=f: getattr(xp, f)(A)
        for f in ["expm1", "exp2", "abs", "sign", "square", "negative"]
    ],
    *[
        lambda xp, f=f: getattr(xp, f)(A)
        for f in ["ceil", "trunc", "rint", "sinc", "arcsinh", "isfinite"]
    ],
    *[lambda xp, f=f: getattr(xp, f)(A / 4) for f in ["arcsin", "arccos", "arctanh"]],
    *[lambda xp, f=f: getattr(xp, f)(A, B) for f in ["add", "subtract", "multiply", "divide"]],
    *[lambda xp, f=f: getattr(xp, f)(A, B) for f in ["maximum", "minimum", "arctan2", "hypot"]],
    *[
        lambda xp, f=f: getattr(xp, f)(A, B)
        for f in ["remainder", "floor_divide", "logaddexp", "fmod"]
    ],
    *[
        lambda xp, f=f: getattr(xp, f)(A, B)
        for f in ["equal", "less", "greater_equal", "not_equal"]
    ],
    *[lambda xp, f=f: getattr(xp, f)(I, 2) for f in ["bitwise_and", "bitwise_or", "left_shift"]],
    *[
        lambda xp, f=f: getattr(xp, f)(A)
        for f in ["sum", "mean", "max", "min", "std", "var", "prod", "argmax"]
    ],
    *[
        lambda xp, f=f: getattr(xp, f)(A, axis=0)
        for f in ["sum", "mean", "max", "min", "std", "var"]
    ],
    *[lambda xp, f=f: getattr(xp, f)(A, axis=-1) for f in ["argmin", "cumsum", "cumprod", "sort"]],
    *[lambda xp, f=f: getattr(xp, f)(M, axis=1) for f in ["any", "all", "sum", "count_nonzero"]],
    lambda xp: xp.sum(C, axis=(0, 2), keepdims=True),
    lambda xp: xp.mean(C, axis=(1,)),
    lambda xp: xp.sum(A, where=M),
    lambda xp: xp.mean(A, axis=1, where=M),
    lambda xp: xp.max(A, initial=9.0),
    lambda xp: xp.std(A, axis=1, ddof=1),
    lambda xp: xp.var(A, ddof=1, keepdims=True),
    lambda xp: xp.median(A, axis=0),
    lambda xp: xp.median(V),
    lambda xp: xp.quantile(V, 0.3),
    lambda xp: xp.percentile(A, [10, 50], axis=0),
    lambda xp: xp.ptp(A, axis=1),
    lambda xp: xp.average(A, axis=0, weights=[1.0, 2.0, 3.0]),
    lambda xp: xp.cov(A),
    lambda xp: xp.corrcoef(A),
    lambda xp: xp.nansum(np.where(M, A, np.nan), axis=0),
    lambda xp: xp.nanmean(np.where(M, A, np.nan)),
    lambda xp: xp.nanmax(np.where(M, A, np.nan)),
    lambda xp: xp.nan_to_num(np.array([np.nan, np.inf, -np.inf, 1.0]), nan=2.0, posinf=3.0),
    lambda xp: xp.clip(A, -0.5, 0.5),
    lambda xp: xp.clip(A, None, 0.5),
    lambda xp: xp.round(A, 2),
    lambda xp: xp.where(M, A, B),
    lambda xp: xp.where(M, A, 0),
    lambda xp: xp.select([A > 1, A > 0], [A, B], 7.0),
    lambda xp: xp.heaviside(A, 0.5),
    lambda xp: xp.deg2rad(A),
    lambda xp: xp.isclose(A, A + 1e-9),
    lambda xp: xp.divmod(A, 0.7)[1],
    lambda xp: xp.power(P, 1.5),
    lambda xp: xp.power(A, 3),
    lambda xp: xp.reshape(C, (4, -1)),
    lambda xp: xp.reshape(C, (6, 4), order="F"),
    lambda xp: xp.ravel(A),
    lambda xp: xp.transpose(C, (2, 0, 1)),
    lambda xp: xp.transpose(C),
    lambda xp: xp.swapaxes(C, 0, 2),
    lambda xp: xp.moveaxis(C, (0, 1), (-1, 0)),
    lambda xp: xp.rollaxis(C, 2),
    lambda xp: xp.expand_dims(A, (0, 2)),
    lambda xp: xp.squeeze(C[:1, :, :1]),
    lambda xp: xp.squeeze(C[:1], 0),
    lambda xp: xp.broadcast_to(W, (3, 4)),
    lambda xp: xp.broadcast_arrays(W, A)[0],
    lambda xp: xp.concatenate([A, B], axis=1),
    lambda xp: xp.concatenate([A, B], axis=None),
    lambda xp: xp.stack([A, B], axis=1),
    lambda xp: xp.vstack([W, W]),
    lambda xp: xp.hstack([A, B]),
    lambda xp: xp.column_stack([V, V]),
    lambda xp: xp.append(A, B, axis=0),
    lambda xp: xp.split(V, [1, 3])[1],
    lambda xp: xp.split(A, 2, axis=1)[1],
    lambda xp: xp.repeat(A, 2, axis=0),
    lambda xp: xp.tile(A, (2, 1)),
    lambda xp: xp.flip(C, (0, 2)),
    lambda xp: xp.fliplr(A),
    lambda xp: xp.rot90(A, 3),
    lambda xp: xp.roll(A, 2),
    lambda xp: xp.roll(A, (1, -1), (0, 1)),
    *[lambda xp, m=m: xp.pad(A, ((1, 2), (0, 1)), mode=m) for m in ("constant", "edge", "wrap")],
    lambda xp: xp.pad(A, ((2, 1), (1, 1)), mode="reflect"),
    *[lambda xp, f=f: getattr(xp, f)(E[:, None], E) for f in ["hypot", "arctan2", "fmax", "fmin"]],
    lambda xp: xp.trace(np.diag(W) + np.triu(np.full((4, 4), np.inf), 1)),
    lambda xp: xp.diag(V[:0], -2),
    lambda xp: xp.nanvar(E[1:]),
    lambda xp: xp.pad(A, ((7, 4), (0, 9)), mode="wrap"),
    *[lambda xp, f=f: getattr(xp, f)(M[:, :0], axis=1) for f in ["any", "all"]],
    lambda xp: xp.pad(V, 2, constant_values=7.0),
    lambda xp: xp.zeros((2, 3)) + xp.ones((3,)),
    lambda xp: xp.full((2,), 3.5),
    lambda xp: xp.full_like(A, 2),
    lambda xp: xp.arange(2, 11, 3),
    lambda xp: xp.arange(0.0, 1.0, 0.25),
    lambda xp: xp.linspace(0, 1, 5),
    lambda xp: xp.linspace(1, 3, 4, endpoint=False),
    lambda xp: xp.eye(3, 4, k=1),
    lambda xp: xp.identity(3),
    lambda xp: xp.tril(A),
    lambda xp: xp.triu(A, 1),
    lambda xp: xp.tri(3),
    lambda xp: xp.diag(W),
    lambda xp: xp.diag(W, 1),
    lambda xp: xp.diag(W, -2),
    lambda xp: xp.diag(A, 1),
    lambda xp: xp.diagonal(C, 0, 1, 2),
    lambda xp: xp.meshgrid(V, W)[0],
    lambda xp: xp.meshgrid(V, W, indexing="ij")[1],
    lambda xp: xp.indices((2, 3)),
    lambda xp: xp.matmul(C, W),
    lambda xp: xp.matmul(C, A.T),
    lambda xp: xp.dot(C, W),
    lambda xp: xp.dot(C, np.ones((4, 2))),
    lambda xp: xp.inner(A, B),
    lambda xp: xp.outer(V, W),
    lambda xp: xp.vdot(A, B),
    lambda xp: xp.tensordot(A, B, axes=([0, 1], [0, 1])),
    lambda xp: xp.tensordot(C, A, axes=2),
    lambda xp: xp.einsum("bij,kj->bik", C, A),
    lambda xp: xp.einsum("ij,jk,kl->il", A, A.T, A),
    lambda xp: xp.einsum("ij->j", A),
    lambda xp: xp.einsum(A, [0, 1], A, [2, 1]),
    lambda xp: xp.einsum(C, [0, 1, 2], A, [9, 2], [9, 0, 1]),
    lambda xp: xp.einsum(C, [..., 1], C, [..., 1], [...]),
    lambda xp: xp.einsum(A, [5, 3]),
    lambda xp: xp.einsum(A, [27, 0], *MANY_LABELS),
    lambda xp: xp.einsum(A, (7, 2)),
    lambda xp: xp.trace(S),
    lambda xp: xp.kron(A, B),
    lambda xp: xp.cross(A[:, :3], B[:, :3]),
    *[lambda xp, m=m: xp.convolve(V, W, mode=m) for m in ("full", "same", "valid")],
    *[lambda xp, m=m: xp.correlate(V, W, mode=m) for m in ("full", "valid")],
    lambda xp: xp.vander(W, 3),
    lambda xp: xp.polyval(W, V),
    lambda xp: xp.diff(A, 2, axis=1),
    lambda xp: xp.trapezoid(A, axis=1),
    lambda xp: xp.take(A, J, axis=0),
    lambda xp: xp.take(A, [5, 1]),
    *[
        lambda xp, m=m, a=a: xp.take(A, np.array([7, -1, -9, 1]), axis=a, mode=m)
        for m in ("clip", "wrap")
        for a in (None, 0, 1)
    ],
    lambda xp: xp.take_along_axis(A, I, axis=1),
    lambda xp: xp.argsort(A, axis=0),
    lambda xp: xp.argsort(-V),
    lambda xp: xp.lexsort((V, np.array([1, 0, 1, 0, 1, 0]))),
    lambda xp: xp.searchsorted(np.sort(V), W),
    lambda xp: xp.searchsorted(np.sort(V), V, side="right"),
    lambda xp: xp.digitize(V, np.array([-1.0, 0.0, 1.0])),
    lambda xp: xp.interp(V, np.array([-1.0, 0.0, 1.0]), np.array([0.0, 2.0, 1.0])),
    lambda xp: xp.unique(J),
    lambda xp: xp.nonzero(M)[1],
    lambda xp: xp.argwhere(M),
    lambda xp: xp.isin(I, [1, 2]),
    lambda xp: xp.tril_indices(4, -1)[0],
    lambda xp: xp.allclose(A, A),
    *[
        lambda xp, f=f: getattr(xp.linalg, f)(S)
        for f in ["cholesky", "inv", "det", "eigvalsh", "norm"]
    ],
    lambda xp: xp.linalg.slogdet(S)[1],
    lambda xp: xp.linalg.solve(S, A),
    lambda xp: xp.linalg.solve(S, J + 1.0),
    lambda xp: xp.linalg.svd(A, full_matrices=False)[1],
    lambda xp: xp.abs(xp.linalg.qr(A[:, :3])[1]),
    lambda xp: xp.linalg.pinv(A),
    *[lambda xp, o=o: xp.linalg.norm(V, o) for o in (1, 2, 3, np.inf)],
    *[lambda xp, o=o: xp.linalg.norm(A, o) for o in (1, 2, "fro", "nuc", np.inf)],
    lambda xp: xp.linalg.norm(C, axis=-1, keepdims=True),
    *[lambda xp, f=f: getattr(xp, f)(A) for f in ["signbit", "modf", "isposinf", "isneginf"]],
    lambda xp: xp.copysign(A, B),
    lambda xp: xp.ldexp(A, I),
    lambda xp: xp.logaddexp2(A, B),
    lambda xp: xp.frexp(np.array([1.0, 2.0, 3.0, 0.5, -8.0, 1000.0])),
    lambda xp: xp.atleast_3d(A),
    lambda xp: xp.dstack([A, B]),
    lambda xp: xp.hsplit(A, 2),
    lambda xp: xp.vsplit(A, 3),
    lambda xp: xp.dsplit(C, 2),
    lambda xp: xp.block([[A, B], [B, A]]),
    lambda xp: xp.delete(A, 1, axis=0),
    lambda xp: xp.delete(V, slice(1, 4)),
    lambda xp: xp.insert(A, 1, 9.0, axis=0),
    lambda xp: xp.insert(V, -1, 9.0),
    lambda xp: xp.ediff1d(V, to_begin=np.array([1.0]), to_end=np.array([2.0, 3.0])),
    lambda xp: xp.diagflat(W, 1),
    lambda xp: xp.add(*xp.ix_(J, np.array([1, 0]))),
    lambda xp: xp.unravel_index(np.array([5, 11]), (3, 4)),
    lambda xp: xp.ravel_multi_index((np.array([1, 2]), np.array([3, 0])), (3, 4)),
    *[lambda xp, f=f: getattr(xp, f)(V, W) for f in ["polyadd", "polysub", "polymul"]],
    lambda xp: xp.polyder(V, 2),
    lambda xp: xp.polyint(V, 2),
    lambda xp: xp.gradient(V),
    lambda xp: xp.gradient(A, 0.5),
    lambda xp: xp.nanprod(np.where(M, np.nan, A), axis=0),
    lambda xp: xp.nancumsum(np.where(M, np.nan, A), axis=1),
    lambda xp: xp.nancumprod(np.where(M, np.nan, A)),
    lambda xp: xp.nanvar(np.where(A > 1, np.nan, A), axis=1, ddof=1),
    lambda xp: xp.nanstd(np.where(A > 1, np.nan, A)),
    lambda xp: xp.nanargmax(np.where(A > 1, np.nan, A), axis=1),
    lambda xp: xp.nanargmin(np.where(A > 1, np.nan, A), axis=0),
    lambda xp: xp.linalg.matrix_power(S, 0),
    lambda xp: xp.linalg.cond(S),
    lambda xp: xp.linalg.matrix_rank(A),
    lambda xp: xp.linalg.svd(A, compute_uv=False),
    lambda xp: xp.geomspace(1.0, 100.0, 5),
    lambda xp: xp.bitwise_count(I),
    lambda xp: xp.median(np.zeros((2, 0)), axis=1),
    lambda xp: xp.cross(A[:, :2], A[:, 1:3]),
    lambda xp: xp.cross(A[:, :2], A[:, :3]),
]
INDICES = [
    *[0, -1, slice(1, None), slice(None, -1), slice(None, None, 2), slice(None, None, -1)],
    *[slice(None, None, -2), slice(2, None, -1), slice(5, 1), None, Ellipsis, (0, 1), (1, None, 2)],
    *[
        (..., 0),
        (slice(None), 1, None),
        (slice(None), slice(1, 3)),
        (0, ..., slice(None, None, -1)),
    ],
    *[(np.array([1, 0, 1]),), (slice(None), np.array([2, 0])), (np.array([[0, 1], [1, 0]]),)],
    *[(np.array([0, 1]), np.array([2, 0])), (np.array([0, 1]), slice(None), np.array([3, -1]))],
    *[(0, np.array([1, 2]), slice(1, 3)), (slice(None), np.array([0, 2]), np.array([1, 1]))],
    *[(np.array([0]), 1), (1, slice(None), np.array([0, 3, 3])), (None, np.array([-1, 0]))],
    *[np.array([True, False]), (slice(None), np.array([True, False, True]))],
    *[(np.array([[0], [1]]), np.array([[0, 2]])), (..., np.array([0, 1])), (slice(None), None, 2)],
]


@pytest.mark.filterwarnings("ignore:invalid value", "ignore:Mean of empty", "ignore:Arrays of 2-")
@every_case("number", range(len(CASES)))
def test_functions_equal_numpy(number: int) -> None:
    expected = np.asarray(CASES[number](np))
    result = np.asarray(CASES[number](snp))
    assert result.shape == expected.shape
    assert result.dtype.kind == expected.dtype.kind
    tolerance = 1e-5 if result.dtype == "float32" else 1e-9
    np.testing.assert_allclose(result, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("index", INDICES, ids=str)
def test_indices_equal_numpy(index: Any) -> None:
    array = np.arange(24.0).reshape(2, 3, 4)
    result = structir.jit(lambda x: x[index])(array)
    np.testing.assert_array_equal(result, array[index])


def test_slices_of_axes_of_symbolic_size_equal_numpy() -> None:
    bounds = (None, 0, 2, -1, -3)
    slices = [slice(low, high, step) for low in bounds for high in bounds for step in (1, -1)]
    slices += [slice(None, 1, -2), slice(3, None, -3), slice(1, -1, 2)]
    info = R.Tensor(("n",), "float32")
    module = structir.trace(lambda x: tuple([x[index] for index in slices]), info)
    for n in range(6):
        x = np.arange(n, dtype="float32")
        results = structir.interpret(module, "main", x)
        for index, result in zip(slices, results, strict=True):
            np.testing.assert_array_equal(result, x[index], err_msg=f"{index} of {n}")


MODES = ("edge", "wrap", "reflect", "symmetric")


def of_symbolic_sizes(xp: Any, x: Any) -> list[Any]:
    """Returns padded matrices, parts, diagonals and spaces."""
    n, m = x.shape
    padded = [xp.pad(x, ((2 * n, 1), (0, m)), mode) for mode in MODES]
    diagonals = [xp.diagonal(x, k) for k in (-3, 0, 2)]
    return [*padded, *diagonals, *xp.array_split(x, 3), xp.linspace(0.0, 1.0, n), xp.diag(x[0], 1)]


def test_functions_of_symbolic_sizes_equal_numpy() -> None:
    module = structir.trace(lambda x: of_symbolic_sizes(snp, x), R.Tensor(("n", "m"), "float64"))
    for shape in ((2, 5), (5, 2), (1, 1)):
        x = np.arange(1.0, 1 + shape[0] * shape[1]).reshape(shape)
        results = structir.interpret(module, "main", x)
        for result, expected in zip(results, of_symbolic_sizes(np, x), strict=True):
            np.testing.assert_allclose(result, expected)


@pytest.mark.parametrize("index", INDICES, ids=str)
def test_updates_equal_numpy(index: Any) -> None:
    array = np.arange(24.0).reshape(2, 3, 4)
    values = np.arange(np.size(array[index])).reshape(np.shape(array[index])) - 5.0
    added = array.copy()
    np.add.at(added, index, values)
    largest = array.copy()
    np.maximum.at(largest, index, values * 3)

    def update(x: Any, v: Any) -> Any:
        return x.at[index].add(v), x.at[index].max(v * 3), x.at[index].set(7.0)

    results = structir.jit(update)(array, values)
    replaced = array.copy()
    replaced[index] = 7.0
    for result, expected in zip(results, (added, largest, replaced), strict=True):
        np.testing.assert_array_equal(result, expected)


def test_positions_that_are_arrays() -> None:
    x, i = np.arange(12.0).reshape(3, 4), np.array([2, -1, 0])
    read, updated = structir.jit(lambda x, i: (x[i], x.at[i, 1].add(1.0)))(x, i)
    np.testing.assert_array_equal(read, x[i])
    expected = x.copy()
    np.add.at(expected, (i, 1), 1.0)
    np.testing.assert_array_equal(updated, expected)
