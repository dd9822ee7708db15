"""Functions of jax.numpy and jax.lax, against JAX: values, dtypes and shapes; gradients and mapped
functions of most."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import structir
import structir.lax
import structir.numpy
from structir.errors import DiagnosticError
from tests.cases import every_case
from tests.numpy.against_jax import assert_equals_jax

jax = pytest.importorskip("jax")

from tests.numpy.derivatives import (  # noqa: E402
    assert_close,
    assert_gradients_equal,
    assert_mapped_equal,
)

RANDOM = np.random.default_rng(5)
F, G = (RANDOM.normal(size=(3, 4)).astype("float32") for _ in range(2))
N, M = (RANDOM.integers(-9, 12, (3, 4)).astype("int32") for _ in range(2))
V, W = RANDOM.normal(size=7).astype("float32"), RANDOM.uniform(0.1, 3, 7).astype("float32")
SQUARE = (RANDOM.normal(size=(4, 4)) + 4 * np.eye(4)).astype("float32")
CUBE = RANDOM.normal(size=(2, 3, 4)).astype("float32")
HOLES = np.where(RANDOM.random((5, 4)) < 0.3, np.nan, RANDOM.normal(size=(5, 4))).astype("float32")
IMAGE = RANDOM.normal(size=(2, 3, 6, 5)).astype("float32")
BYTES = (N % 250).astype("uint8")
INDEX, UPDATES = np.array([2, 0, 9, -1], "int32"), RANDOM.normal(size=(4, 8)).astype("float32")
TRUE, TWO = np.array([True, False, True]), np.array([1.0, 2.0], "float32")
PIVOTS, SIZES = np.array([3, 1, 2, 3], "int32"), np.array([1, 0], "int32")
LEVELS = np.array([10.0, 50.0, 90.0], "float32")
BOOLS = (False, True)


def numpy_functions() -> dict[str, tuple[Any, ...]]:
    def piecewise(s: Any, a: Any) -> Any:
        return s.piecewise(a, [a < -0.3, a > 0.6], [lambda t: -t, lambda t: t * 2, 0.5])

    def of_holes(s: Any, a: Any) -> Any:
        medians = [s.nanmedian(a, axis=axis) for axis in (None, 0)]
        medians.append(s.nanmedian(a, axis=1, keepdims=True))
        quantiles = [s.nanquantile(a, 0.3, axis=0, method=m) for m in ("linear", "nearest")]
        quantiles.append(s.nanquantile(a, LEVELS / 100, axis=1, keepdims=True))
        return [*medians, *quantiles, s.nanpercentile(a, LEVELS, axis=1)]

    def along(s: Any, a: Any) -> Any:
        functions = (s.cumsum, lambda v: s.stack([v, v * 2]), s.sum)
        return [s.apply_along_axis(f, k, a) for f, k in zip(functions, (1, 1, 0), strict=True)]

    return {
        "along axes": (along, CUBE),
        "angle": (lambda s, a: [s.angle(a), s.real(a), s.imag(a), s.conjugate(a)], F),
        "choose": (
            lambda s, a, f: [s.choose(a, [f, f * 2, f * 3], mode=m) for m in ("clip", "wrap")],
            *(N, F),
        ),
        "compress": (
            lambda s, a: [
                s.compress(TRUE, a, axis=0),
                s.compress(a[0] > 0, a, axis=1, size=3, fill_value=7.0),
                s.extract(a > 0, a, size=6, fill_value=-1.0),
            ],
            F,
        ),
        "cumulative_prod": (
            lambda s, a: [s.cumulative_prod(a, axis=k, include_initial=k == 1) for k in (0, 1)],
            F,
        ),
        "equal": (lambda s, a: [s.array_equiv(a, a), s.array_equiv(a[:1], a), s.iscomplex(a)], F),
        "frequencies": (
            lambda s, a: [
                *(s.fft.fftfreq(7, 0.5), s.fft.rfftfreq(8, 2.0), s.fft.fftshift(a)),
                *(s.fft.ifftshift(a, axes=1), s.fft.fftshift(a, axes=(0,))),
            ],
            F,
        ),
        "from function": (lambda s, a: s.fromfunction(lambda i, j: i * 2 + j + a[0, 0], (3, 4)), F),
        "gcd": (lambda s, a, b: [s.gcd(a, b), s.lcm(a, b)], N, M),
        "histograms": (
            lambda s, a, b: [
                s.histogram2d(a, b, bins=[3, 4]),
                s.histogramdd(s.stack([a, b], 1), 3, [(-1.0, 1.0)] * 2, density=True)[0],
            ],
            *(V, W),
        ),
        "i0": (lambda s, a: s.i0(a), F),
        "mask_indices": (lambda s, a: a[s.mask_indices(3, s.triu)], F),
        "matvec": (lambda s, a, b: [s.matvec(a, b[0]), s.vecmat(b[0][:3], a)], F, G),
        "nextafter": (lambda s, a, b: [s.nextafter(a, b), s.spacing(a)], F, G),
        "of holes": (of_holes, HOLES),
        "over axes": (lambda s, a: s.apply_over_axes(s.sum, a, (0, 2)), CUBE),
        "packbits": (
            lambda s, a: [
                *(s.packbits(a > 0), s.packbits(a > 0, axis=1)),
                s.packbits(a > 0, axis=0, bitorder="little"),
            ],
            F,
        ),
        "piecewise": (piecewise, F),
        "place": (lambda s, a: s.place(a, a > 0, TWO, inplace=False), F),
        "polynomials": (
            lambda s, a, b: [
                *(s.polyfit(a, b, 2), s.polyfit(a, b, 1, w=b), s.poly(a[:4])),
                s.polydiv(a, a[:3] + 3),
            ],
            *(V, W),
        ),
        "put": (
            lambda s, a: [
                s.put(a, np.array([0, 5, -1, 40]), TWO, mode=mode, inplace=False)
                for mode in (None, "clip", "wrap")
            ],
            F,
        ),
        "resize": (lambda s, a: [s.resize(a, (5, 4)), s.resize(a, 7)], F),
        "tensorinv": (
            lambda s, a: [
                s.linalg.tensorinv(a.reshape(2, 2, 2, 2)),
                s.linalg.tensorsolve(a.reshape(2, 2, 2, 2), a[:2, :2]),
            ],
            SQUARE,
        ),
        "unpackbits": (
            lambda s, a: [
                *(s.unpackbits(a), s.unpackbits(a, axis=1, count=5), s.unpackbits(a, count=-3)),
                s.unpackbits(a, axis=0, bitorder="little"),
            ],
            BYTES,
        ),
        "unwrap": (
            lambda s, a: [s.unwrap(a * 6), s.unwrap(a * 6, axis=0, period=3.0), s.unwrap(a, 4.0)],
            F,
        ),
    }


def lax_functions() -> dict[str, tuple[Any, ...]]:
    def triangular(s: Any, a: Any) -> Any:
        names = ("left_side", "lower", "transpose_a", "unit_diagonal")
        options = [dict(zip(names, o, strict=True)) for o in itertools.product(BOOLS, repeat=4)]
        return [
            s.linalg.triangular_solve(a, a[:, :2] if o["left_side"] else a[:2], **o)
            for o in options
        ]

    def special(s: Any, a: Any, b: Any) -> Any:
        gammas = [s.igamma(a, b), s.igammac(a, b), s.random_gamma_grad(a, b)]
        return [*gammas, s.betainc(a, b, b / 4), s.bessel_i0e(a), s.bessel_i1e(a)]

    def patches(s: Any, x: Any) -> Any:
        numbers = ("NCHW", "OIHW", "NHWC")
        return [
            s.conv_general_dilated_patches(x, (2, 3), (1, 2), "SAME"),
            s.conv_general_dilated_patches(
                x, (2, 2), (1, 1), "VALID", rhs_dilation=(2, 1), dimension_numbers=numbers
            ),
        ]

    def factors(s: Any, a: Any) -> Any:
        linalg = s.linalg
        parts = [linalg.cholesky(a @ a.T), linalg.svd(a, compute_uv=False), linalg.qr(a[:, :3])[1]]
        parts += [linalg.eigh(a)[1], linalg.householder_product(a, a[0, :3])]
        return [*parts, linalg.tridiagonal_solve(a[0], a[1] * a[1] + 5, a[2], a)]

    return {
        "bits": (
            lambda s, a, b, c: [s.clz(a), s.clz(b), s.mulhi(a * 99999, c * 99999)],
            *(N, BYTES, M),
        ),
        "factors": (factors, SQUARE),
        "lu": (
            lambda s, a: [*s.linalg.lu(a), s.linalg.lu_pivots_to_permutation(PIVOTS, 5)],
            SQUARE,
        ),
        "nextafter": (lambda s, a, b: s.nextafter(a, b), F, G),
        "patches": (patches, IMAGE),
        "platforms": (lambda s, a: s.platform_dependent(a, cpu=lambda v: v * 2), F),
        "ragged_dot": (
            lambda s, a, b: s.ragged_dot(a, b, SIZES),
            *(F, CUBE.transpose(0, 2, 1).copy()),
        ),
        "ranks": (
            lambda s, a: [
                *(s.broadcast_to_rank(a, rank=4), s.approx_max_k(a, 2), s.approx_min_k(a, 2)),
            ],
            F,
        ),
        "special": (special, W, W[::-1].copy()),
        "triangular": (triangular, SQUARE),
    }


def _pairs(index: Any) -> Any:
    return np.stack([index, index[::-1]], -1)


def gathers(s: Any, x: Any) -> list[Any]:
    numbers, results = s.GatherDimensionNumbers, []
    for mode in ("clip", "fill", "promise_in_bounds"):
        i = INDEX * 0 if mode == "promise_in_bounds" else INDEX
        cases = [
            (x, i[:, None], numbers((1,), (0,), (0,)), (1, 4)),
            (x, i[:, None], numbers((0,), (1,), (1,)), (3, 1)),
            (x, _pairs(i), numbers((1, 2), (), (0, 1)), (2, 3)),
            (x, _pairs(i), numbers((1,), (0,), (0, 1)), (1, 2)),
            (x, i[:2], numbers((0, 1), (), (0, 1)), (2, 2)),
            (x, i[:3, None], numbers((1,), (), (1,), (0,), (0,)), (1, 2)),
            (x.reshape(3, 2, 2), i.reshape(2, 2, 1), numbers((0, 3), (1,), (1,)), (3, 1, 2)),
        ]
        results += [s.gather(*case, mode=mode) for case in cases]
    return results


def scatters(s: Any, x: Any, u: Any) -> list[Any]:
    numbers, results = s.ScatterDimensionNumbers, []
    rows = numbers((1,), (0,), (0,))
    for name, mode in itertools.product(("add", "mul", "min", "max", "sub"), ("clip", "fill")):
        function = getattr(s, f"scatter_{name}")
        cases = [
            (INDEX[:, None], u[:, :4], rows),
            (_pairs(INDEX), u.reshape(-1)[:24].reshape(4, 2, 3), numbers((1, 2), (), (0, 1))),
            (INDEX[:3, None], u[:3, :2], numbers((1,), (), (1,), (0,), (0,))),
            (INDEX[:2], u[:2, :2], numbers((0, 1), (), (0, 1))),
        ]
        results += [function(x, *case, mode=mode) for case in cases]
    apart = np.array([[0], [2], [9]], "int32")
    return [*results, s.scatter(x, apart, u[:3, :4], rows)]


CASES: dict[str, tuple[Any, ...]] = {
    **{f"numpy {k}": ("numpy", *case) for k, case in numpy_functions().items()},
    **{f"lax {k}": ("lax", *case) for k, case in lax_functions().items()},
    "lax gathers": ("lax", gathers, F),
    "lax gathers of integers": ("lax", gathers, N),
    "lax gathers of bools": ("lax", gathers, F > 0),
    "lax scatters": ("lax", scatters, F, UPDATES),
    "lax scatters of integers": ("lax", scatters, N, (UPDATES * 9).astype("int32")),
}
# Their results depend on signs that are free, or JAX has no gradient of them.
NOT_MAPPED = ("numpy histograms", "numpy mask_indices", "lax factors", "lax lu", "numpy equal")
NO_GRADIENT = (
    "numpy packbits",
    "lax scatters",
    *NOT_MAPPED,
    "numpy nextafter",
    "lax nextafter",
    "lax special",
    "numpy of holes",
)


def _call(name: str) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    module, function, *arguments = CASES[name]
    return lambda s, *x: function(getattr(s, module), *x), tuple(arguments)


@every_case("name", CASES)
def test_functions_equal_those_of_jax(name: str) -> None:
    call, arguments = _call(name)
    wanted = jax.tree.leaves(call(jax, *map(jax.numpy.asarray, arguments)))
    assert_close(jax.tree.leaves(call(structir, *arguments)), wanted, 2e-5)


def test_compiled_gathers_equal_those_of_jax() -> None:
    assert_equals_jax(lambda s, x: gathers(s.lax, x), F)


@every_case("name", [n for n, case in CASES.items() if case[2].dtype == "float32"])
def test_gradients_and_mapped_functions(name: str) -> None:
    call, arguments = _call(name)
    if name not in NO_GRADIENT:
        assert_gradients_equal(call, arguments, tuple(range(len(arguments))), 1e-3)
    if name not in (*NOT_MAPPED, "lax ragged_dot"):
        assert_mapped_equal(call, [np.stack([x, x * 2]) for x in arguments], 2e-5)


def test_transforms_of_real_arrays_equal_those_of_numpy() -> None:
    for size, norm in itertools.product((8, 7, 90), (None, "ortho", "forward")):
        x = RANDOM.normal(size=(3, size))
        for n, axis in ((None, 1), (11, 1), (5, 0), (2, 0)):
            wanted = np.fft.rfft(x, n, axis, norm)
            result = structir.numpy.fft.rfft(x, n, axis, norm)
            np.testing.assert_allclose(result, np.stack([wanted.real, wanted.imag], -1), atol=1e-9)
            back = structir.numpy.fft.irfft(result, n, axis, norm)
            np.testing.assert_allclose(back, np.fft.irfft(wanted, n, axis, norm), atol=1e-9)


@every_case(("call", "message"), [
    (lambda s: s.gather(F, INDEX, s.GatherDimensionNumbers((1,), (0,), (0,)), (1, 4)),
     "expected index vectors of 1 elements"),
    (lambda s: s.gather(F, INDEX[:, None], s.GatherDimensionNumbers((), (0,), (0,)), (1, 4)),
     "offset_dims: expected 1 axes"),
    (lambda s: s.gather(F, INDEX[:, None], s.GatherDimensionNumbers((1,), (0,), (0,)), (1, 4),
                        mode="fold"), "mode: expected one of clip, fill"),
    (lambda s: s.scatter_add(F, INDEX[:, None], F, s.ScatterDimensionNumbers((), (0,), (0,))),
     "update_window_dims: expected 1 axes"),
    (lambda s: s.linalg.qr(F, pivoting=True), "qr: pivoting: expected False"),
    (lambda s: s.platform_dependent(F, cuda=abs), "expected a function `cpu` or `default`"),
])  # fmt: skip
def test_invalid_arguments_are_one_error(call: Callable[..., Any], message: str) -> None:
    with pytest.raises(DiagnosticError, match=message):
        call(structir.lax)
