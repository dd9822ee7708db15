"""Functions that use each primitive of JAX, with the StructInfo of their arguments."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tests.frontend.jax.functions import f32, i32, u32

X, SQUARE, INDEX, INTEGERS = f32("n", 8), f32(8, 8), i32(3), i32("n", 4)
Case = tuple[Callable[..., Any], tuple[Any, ...]]


def _cases(spec: Any, *functions: Callable[..., Any]) -> list[Case]:
    specs = spec if isinstance(spec, tuple) else (spec,)
    return [(function, specs) for function in functions]


LEAST = (np.float32(-np.inf), np.int32(-1))


def _larger(a: Any, b: Any) -> Any:
    return jnp.maximum(a[0], b[0]), jnp.where(a[0] >= b[0], a[1], b[1])


def _complex_cases() -> dict[str, list[Case]]:
    """Functions of complex numbers; their results are the real and imaginary parts."""

    def of(function: Callable[..., Any]) -> Callable[..., Any]:
        def both(x: Any) -> Any:
            result = function(x + 1j * (x[:, ::-1] - 0.3))
            return jnp.real(result), jnp.imag(result)

        return both

    def step(state: Any, x: Any) -> Any:
        return state * (0.5 + 0.3j) + x, state

    def pair(a: Any, b: Any) -> Any:
        return b[0] * a[0], b[0] * a[1] + b[1]

    def scan(x: Any) -> Any:
        last, states = lax.scan(step, jnp.zeros(8, "complex64"), x * (1 + 1j))
        return last.imag, states.real

    functions = [
        jnp.exp,
        jnp.log,
        jnp.sqrt,
        jnp.sin,
        jnp.cos,
        jnp.tan,
        jnp.sinh,
        jnp.cosh,
        jnp.tanh,
    ]
    functions += [jnp.abs, jnp.sign, jnp.square, jnp.angle, jnp.reciprocal, jnp.expm1, jnp.exp2]
    functions += [jnp.conj, jnp.isfinite, jax.nn.sigmoid, lax.rsqrt, jnp.log1p, jnp.var]
    parts = [
        *(lambda z: z.sum(0), lambda z: z.cumsum(1), lambda z: z[:, :3].prod(1)),
        *(lambda z: z.cumprod(1), lambda z: z.T, lambda z: z[:, 1:3], lambda z: z.reshape(-1)),
        *(lambda z: z.at[:, 0].set(2 + 3j), lambda z: z.at[0].add(1j), lambda z: z == z.conj()),
        *(lambda z: jnp.where(z.real > 0, z, 0), lambda z: jnp.pad(z, ((1, 1), (0, 2)))),
        *(lambda z: jnp.concatenate([z, 1j * z], 1), lambda z: z[jnp.array([0, 0])]),
        *(lambda z: z @ z.T, lambda z: z @ z.real.T, lambda z: z.imag @ z.conj().T),
        *(lambda z: z / (z + 3), lambda z: z**3, lambda z: z**-2, lambda z: (z + 2) ** (1 + 1j)),
        *(lambda z: z * 0 ** jnp.abs(z), lambda z: z != 1j, lambda z: 1j * jnp.eye(8) * z[:1]),
        lambda z: lax.associative_scan(pair, (z, z.conj()), axis=1)[1],
        lambda z: lax.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1] * 1j), (0, z))[1],
        lambda z: lax.cond(z.real.sum() > 0, lambda t: t * 1j, lambda t: t - 2j, z),
        lambda z: jax.jit(lambda t: t * 2j)(z),
        lambda z: jax.vmap(lambda t: t.sum() * t)(z),
    ]
    fourier = [
        *(jnp.fft.fft, jnp.fft.ifft, jnp.fft.hfft, jnp.fft.fftshift),
        *(lambda z: jnp.fft.fft(z, n=11), lambda z: jnp.fft.ifft(z, n=7, norm="ortho")),
        *(lambda z: jnp.fft.rfft(z.real), lambda z: jnp.fft.rfft(z.imag, n=7)),
        *(jnp.fft.irfft, lambda z: jnp.fft.irfft(z, n=7), lambda z: jnp.fft.fft(z[:2], axis=0)),
        *(lambda z: jnp.fft.fft2(z.reshape(-1, 2, 4)), lambda z: jnp.fft.ifftn(z[:1])),
        *(lambda z: jnp.fft.rfft2(z.real.reshape(-1, 4, 2)),),
        *(
            lambda z: jnp.fft.irfft2(z.reshape(-1, 4, 2)),
            lambda z: jnp.fft.fft(jnp.tile(z, 40)) / 40,
        ),
    ]
    gradients = [
        jax.grad(lambda x: jnp.abs(jnp.exp(x + 1j * x) * (2 + 1j)).sum()),
        jax.grad(lambda x: (jnp.abs(jnp.fft.rfft(x)) ** 2).sum()),
        jax.grad(lambda x: (jnp.fft.irfft(jnp.fft.rfft(x) * (1 + 2j)) ** 2).sum()),
    ]
    return {
        "complex functions": _cases(X, *[of(function) for function in functions]),
        "complex arrays": _cases(X, *[of(function) for function in parts]),
        "complex scan": _cases(SQUARE, scan),  # the length of a scan is static in JAX
        "fourier": _cases(X, *[of(function) for function in fourier]),
        "complex gradients": _cases(X, *gradients),
        "complex matrices": _complex_matrices(of),
    }


def _complex_matrices(of: Callable[..., Any]) -> list[Case]:
    """Functions of square complex matrices; all pivots differ."""
    linalg, options = lax.linalg, list(itertools.product((False, True), repeat=3))
    solutions = [
        lambda z, a=a, b=b, c=c: linalg.triangular_solve(
            z + 4 * jnp.eye(8), z, left_side=a, lower=b, transpose_a=c, conjugate_a=c
        )
        for a, b, c in options
    ]
    factors = [
        *(lambda z: linalg.lu(z)[0], lambda z: linalg.lu(z[:, :4])[0], lambda z: linalg.lu(z)[2]),
        *(lambda z: linalg.lu(z[:3])[1], lambda z: jnp.linalg.det(z / 2)),
        *(lambda z: jnp.linalg.slogdet(z)[0], lambda z: jnp.linalg.slogdet(z)[1]),
        lambda z: jnp.linalg.solve(z, z[:, :2] * 2j),
        lambda z: jnp.linalg.inv(jnp.stack([z, z * 2j]) + 5 * jnp.eye(8)),
        lambda z: jnp.linalg.cholesky(z @ z.conj().T + jnp.eye(8)),
        lambda z: linalg.triangular_solve(z, z, left_side=True, unit_diagonal=True) * 1e-3,
    ]
    products = [
        lambda z: z.at[:, 0].multiply(2 + 3j),
        lambda z: z.at[jnp.array([0, 1, 0, 7])].multiply(2j),
        lambda z: z.at[jnp.array([0, 1, 9])].multiply(z[:3], unique_indices=True),
        lambda z: z.at[jnp.array([0, 1, 0])].subtract(3j),
    ]
    gradient = jax.grad(lambda x: jnp.abs(jnp.linalg.solve(x + 1j * x.T, x[0])).sum())
    own = [of(function) for function in (*solutions, *factors, *products)]
    return _cases(SQUARE, *own, lambda x: gradient(x + 3 * jnp.eye(8)))


def _gamma(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns samples of parameters above and below 1."""
    return lambda key, x: function(key, jnp.exp(x))


def _gammas() -> list[Any]:
    random = jax.random
    functions = [
        *(random.gamma, random.loggamma, random.chisquare, random.dirichlet, random.t),
        lambda key, a: random.beta(key, a, 2.0),
        lambda key, a: random.gamma(random.wrap_key_data(key), a, (3, *a.shape)),
        lambda key, a: jax.grad(lambda a: random.gamma(key, a).sum())(a),
        lambda key, a: jax.vmap(lambda k, b: random.gamma(k, b, (3,)))(random.split(key, 5), a[0]),
    ]
    return [_gamma(function) for function in functions]


def _ragged(lhs: Any, rhs: Any, sizes: Any) -> Any:
    """Products of rows, of batches of rows, and the gradients, whose summed axis is ragged."""
    batch = [jnp.stack([x, 2 * x]) for x in (lhs, rhs)]
    return [
        lax.ragged_dot(lhs, rhs, sizes),
        lax.ragged_dot(lhs.astype("bfloat16"), rhs.astype("bfloat16"), sizes),
        jax.vmap(lax.ragged_dot)(*batch, jnp.stack([sizes, sizes[::-1]])),
        *jax.grad(lambda a, b: (lax.ragged_dot(a, b, sizes) ** 2).sum(), (0, 1))(lhs, rhs),
    ]


MODES = ("promise_in_bounds", "clip", "fill")


def _windows(x: Any, mode: str) -> Any:
    """Gathers windows of 2 x 3 elements, some of them partly outside of the operand."""
    numbers = lax.GatherDimensionNumbers((0, 1), (), (0, 1))
    start = jnp.argmax(x[:1] * 0, axis=1).repeat(2) + jnp.array([7, 6])
    return lax.gather(x, start, numbers, (2, 3), mode=mode)


UNARY = [
    *(jnp.tanh, jnp.sin, jnp.cos, jnp.tan, jnp.exp, jnp.expm1, jnp.exp2, jnp.arctan, jnp.sinh),
    *(jnp.cosh, jnp.arcsinh, jnp.sign, jnp.round, jnp.floor, jnp.ceil, jnp.abs, jnp.square),
    *(jnp.cbrt, jnp.isnan, jnp.isfinite, jnp.negative, jax.nn.gelu, jax.nn.silu, jax.nn.relu),
    *(jax.nn.sigmoid, jax.nn.softplus, lax.erf, lax.erfc, lax.lgamma, lax.digamma),
]
PRIMITIVES: dict[str, list[Case]] = {
    **_complex_cases(),
    "unary": _cases(X, *UNARY),
    "domains": _cases(
        X,
        lambda x: jnp.log(jnp.abs(x)),
        lambda x: jnp.log1p(jnp.abs(x)),
        lambda x: jnp.sqrt(jnp.abs(x)),
        lambda x: lax.rsqrt(jnp.abs(x) + 1),
        lambda x: jnp.arcsin(jnp.tanh(x)),
        lambda x: jnp.arccos(jnp.tanh(x)),
        lambda x: jnp.arctanh(jnp.tanh(x)),
        lambda x: jnp.arccosh(jnp.abs(x) + 1),
        lambda x: lax.erf_inv(jnp.tanh(x)),
    ),
    "powers": _cases(X, *[lambda x, k=k: x**k for k in (0, 2, 3, 5, -1, -2)]),
    "binary": _cases(
        X,
        lambda x: x / (1 + x * x),
        lambda x: jnp.arctan2(x, x - 1),
        lambda x: jnp.maximum(x, 0.5) - jnp.minimum(x, -0.5),
        lambda x: x % 2.0,
        lambda x: lax.rem(x, 2.0),
        lambda x: jnp.floor_divide(x, 2.0),
        lambda x: jnp.abs(x) ** 1.5,
        lambda x: jnp.where(x > 0, x, 0),
        lambda x: jnp.clip(x, -1, 1),
        lambda x: jnp.logaddexp(x, 1.0),
        lambda x: lax.round(x, lax.RoundingMethod.AWAY_FROM_ZERO),
        lambda x: lax.round(x.astype("float32") * 0 + np.float32(0.49999997)),
        lambda x: lax.round(x.astype("float32") * 0 + np.float32(8388609)),
        *[lambda x, m=m: lax.reduce_precision(x, *m) for m in ((8, 23), (8, 7), (5, 10))],
        lambda x: (x > 0) & (x < 1) | ~(x < 2) ^ (x >= 0),
        lambda x: x * jnp.array([np.nan, np.inf] * 4),
    ),
    "special": _cases(
        X,
        lambda x: lax.bessel_i0e(3 * x),
        lambda x: lax.bessel_i1e(8 * x),
        lambda x: lax.betainc(jnp.abs(x) + 0.1, 2 * jnp.abs(x) + 0.5, jax.nn.sigmoid(3 * x)),
        lambda x: lax.betainc(jnp.exp(2 * x), 1 + jnp.exp(-2 * x), jax.nn.sigmoid(3 * x)),
        lambda x: lax.betainc(jnp.abs(x), 2.0 * jnp.ones_like(x), jnp.clip(x, -0.5, 1)),
        lambda x: lax.rem(x * 1e6, jnp.abs(x) + 0.1),
    ),
    "integers": _cases(
        INTEGERS,
        *[lambda x, k=k: (x - 3) // k for k in (2, -3)],
        *[lambda x, k=k: (x - 3) % k for k in (2, -3)],
        lambda x: lax.div(x - 3, 2),
        lambda x: lax.rem(x - 3, 2),
        lambda x: (x << 2) + (x >> 1) - ~x,
        lambda x: (x & 3) | (x ^ 5),
        lambda x: lax.shift_right_logical(x - 3, 2),
        jnp.bitwise_count,
        lambda x: x.astype(jnp.uint32) // 3,
        lambda x: lax.select_n(x % 3, x, x * 2, x * 3),
    ),
    "conversions": _cases(
        X,
        lambda x: x.astype(jnp.bfloat16) * 2,
        lambda x: x.astype(jnp.float16),
        lambda x: (10 * x).astype(jnp.int32),
        lambda x: x.astype(bool),
        lambda x: lax.bitcast_convert_type(x, jnp.int32),
        lambda x: x.mean(dtype=jnp.float32) * x.shape[0],
    ),
    "shapes": _cases(
        X,
        lambda x: x.T,
        lambda x: x[::-1],
        lambda x: x[1:],
        lambda x: x[-1],
        lambda x: x[:, 1:7:2],
        lambda x: jnp.concatenate([x, x * 2], 1),
        lambda x: jnp.pad(x, ((1, 0), (0, 2))),
        lambda x: lax.pad(x, 0.5, ((1, -1, 1), (0, 0, 2))),
        lambda x: x.reshape(-1),
        lambda x: x[:, None] + x[None],
        lambda x: jnp.stack([x, x]),
        lambda x: jnp.split(x, 2, axis=1),
        lambda x: jnp.roll(x, 1, 0),
        lambda x: jnp.tile(x, (2, 1)),
        lambda x: jnp.repeat(x, 2, axis=1),
        lambda x: jnp.arange(x.shape[0]),
        lambda x: jnp.tril(x @ x.T),
        lambda x: jnp.moveaxis(jnp.broadcast_to(x, (3, *x.shape)), 0, 1),
        lambda x: jnp.squeeze(jnp.expand_dims(x, (0, 2)), (0, 2)),
    ),
    "reductions": _cases(
        X,
        jnp.sum,
        jnp.prod,
        *[lambda x, op=op: op(x, 0) for op in (jnp.mean, jnp.max, jnp.min, jnp.std, jnp.var)],
        lambda x: jnp.argmax(x, 1),
        lambda x: jnp.argmin(x, 0),
        lambda x: jnp.any(x > 0),
        lambda x: jnp.all(x > 0, 1),
        lambda x: jax.nn.logsumexp(x, -1),
        jax.nn.softmax,
        jax.nn.log_softmax,
        *[lambda x, op=op: op(x, 0) for op in (jnp.cumsum, jnp.cumprod, lax.cummax, lax.cummin)],
        lambda x: lax.cumlogsumexp(x, 0),
        lambda x: lax.cumsum(x, 1, reverse=True),
        lambda x: jnp.median(x, 1),
    ),
    "sorts": _cases(
        X,
        lambda x: jnp.sort(x, 0),
        lambda x: jnp.argsort(x, 1),
        lambda x: lax.top_k(x, 3),
        lambda x: lax.sort((jnp.round(x), jnp.sin(x), x), num_keys=2),
        lambda x: lax.sort((jnp.round(x), x), num_keys=1),
    ),
    "products": _cases(
        (X, f32(8, 4)),
        lambda x, y: x @ y,
        lambda x, y: jnp.einsum("ij,kj->ik", x, x),
        lambda x, y: jnp.einsum("bi,bi->b", x, x),
        lambda x, y: jnp.einsum("bi,bj->bij", x, x),
        lambda x, y: jnp.dot(x[0], y),
        lambda x, y: jnp.outer(x[0], y[:, 0]),
        lambda x, y: jnp.tensordot(x.reshape(-1, 2, 4), y.reshape(2, 4, 4), 2),
        lambda x, y: x.astype(jnp.bfloat16) @ y.astype(jnp.bfloat16),
        lambda x, y: jax.vmap(lambda r: r @ y)(x),
    ),
    "indices": _cases(
        (SQUARE, INDEX),
        lambda x, i: x[i],
        lambda x, i: x[:, i],
        lambda x, i: x[i, i],
        lambda x, i: x[i][:, None, i],
        lambda x, i: x[jnp.array([-1, 0])],
        lambda x, i: jnp.take(x, i * 4, axis=1),
        lambda x, i: jnp.take(x, i * 4, axis=0, mode="clip"),
        lambda x, i: jnp.take_along_axis(x, x.astype(jnp.int32) % 8, axis=1),
        lambda x, i: lax.dynamic_slice(x, (i[0], i[1]), (2, 3)),
        lambda x, i: lax.dynamic_slice_in_dim(x, i[0] + 5, 4, axis=1),
        lambda x, i: lax.dynamic_update_slice(x, jnp.zeros((2, 3)), (i[0], i[1])),
        lambda x, i: jax.vmap(lambda r: r[jnp.argmax(r)])(x),
        lambda x, i: jax.vmap(lambda r, k: lax.dynamic_slice(r, (k,), (3,)))(x[:3], i),
        lambda x, i: jax.nn.one_hot(i, 6),
        lambda x, i: jnp.take(x, i - 9, axis=0, mode="fill", fill_value=7),
    ),
    "updates": _cases(
        (SQUARE, INDEX),
        lambda x, i: x.at[0].set(1.0),
        lambda x, i: x.at[2:4].set(0.0),
        lambda x, i: x.at[jnp.array([100])].set(5.0),
        lambda x, i: x.at[i].add(2.0),
        lambda x, i: x.at[:, i].max(0.0),
        lambda x, i: x.at[i, i].min(-1.0),
        lambda x, i: x.at[i].multiply(2.0),
        lambda x, i: x.at[i * 4].set(3.0),
        lambda x, i: x.at[i * 4].add(3.0, mode="clip"),
        lambda x, i: jax.vmap(lambda r, k: r.at[k].set(9.0))(x[:3], i),
    ),
    "windows outside of the operand": _cases(
        SQUARE,
        *[
            lambda x, mode=mode: jnp.stack(
                [lax.dynamic_slice(x, (7, -9), (2, 3)), _windows(x, mode), _windows(x.T, mode)]
            )
            for mode in MODES
        ],
        *[
            lambda x, mode=mode: x.at[jnp.array([1, 12, 7]), jnp.array([9, 0, 7])].add(
                1.0, mode=mode
            )
            for mode in MODES
        ],
        lambda x: lax.linalg.eigh(x, lower=False, symmetrize_input=False)[1],
    ),
    "windows": _cases(
        f32("n", 9, 8, 3),
        lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID"),
        lambda x: lax.reduce_window(x, jnp.inf, lax.min, (1, 3, 1, 1), (1, 1, 2, 1), "SAME"),
        lambda x: lax.reduce_window(x, 0.0, lax.add, (1, 3, 3, 1), (1, 2, 2, 1), "SAME"),
        lambda x: lax.reduce_window(
            x, 0.0, lax.add, (1, 2, 2, 1), (1, 1, 1, 1), "VALID", window_dilation=(1, 3, 2, 1)
        ),
    ),
    "computations": _cases(
        (f32(3, 6), i32(3, 6)),
        lambda x, i: lax.reduce_window(x, 2.0, lax.mul, (2, 2), (1, 2), "SAME", (2, 1), (1, 2)),
        lambda x, i: lax.reduce_window((x, i), LEAST, _larger, (1, 2), (1, 2), "SAME"),
        lambda x, i: lax.reduce((x, i), LEAST, _larger, (1,)),
        lambda x, i: [*lax.approx_max_k(x, 3), lax.clz(i), lax.reduce_xor(i, (1,))],
        lambda x, i: lax.composite(lambda v: lax.nextafter(v, v - 1), "own.before")(x),
    ),
    "gamma": _cases((u32(2), f32(2, 5)), *_gammas()),
    "ragged": _cases((f32("n", 4), f32(3, 4, 5), i32(3)), _ragged),
    "subtractions": _cases(SQUARE, lambda x: x.at[jnp.array([0, 9, 0])].subtract(3.0)),
    "triangles": _cases(
        f32(2, 4, 4),
        *[
            lambda x, options=options: lax.linalg.triangular_solve(
                x + 4 * jnp.eye(4, dtype="float32"),
                x[:, :, :3] if options[0] else x[:, :3],
                left_side=options[0],
                lower=options[1],
                transpose_a=options[2],
                unit_diagonal=options[3],
            )
            for options in itertools.product((True, False), repeat=4)
        ],
    ),
    "factors": _cases(
        f32(4, 4),
        lambda x: lax.linalg.householder_product(x, x[0, :3]),
        lambda x: lax.linalg.tridiagonal_solve(x[0], x[1] * x[1] + 5, x[2], x),
        lambda x: (
            lax.linalg.lu_pivots_to_permutation(jnp.array([3, 1, 2, 4], "int32"), 5) + x[0, 0]
        ),
    ),
    "convolutions": _cases(
        (f32("n", 9, 8, 4), f32(3, 2, 2, 6)),
        *[
            lambda x, w, options=options: lax.conv_general_dilated(
                x,
                w,
                feature_group_count=2,
                dimension_numbers=("NHWC", "HWIO", "NHWC"),
                **options,
            )
            for options in (
                {"window_strides": (1, 1), "padding": "SAME"},
                {"window_strides": (2, 1), "padding": ((1, 0), (0, 2)), "rhs_dilation": (2, 1)},
                {"window_strides": (1, 1), "padding": ((2, 2), (1, 1)), "lhs_dilation": (2, 2)},
                {"window_strides": (1, 1), "padding": ((-1, 0), (1, 1))},
            )
        ],
    ),
    "loops": _cases(
        X,
        lambda x: lax.scan(lambda c, a: (c + a, c * a), jnp.zeros(8), x),
        lambda x: lax.scan(lambda c, a: (c + a, (c, a)), jnp.zeros(8), x, reverse=True),
        lambda x: lax.scan(lambda c, _: (c * 2, None), x, None, length=3),
        lambda x: lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * 2), (0, x)),
        lambda x: lax.fori_loop(0, 4, lambda i, c: c + i, x),
        lambda x: lax.map(lambda r: r * 2, x),
    ),
    "branches": _cases(
        X,
        lambda x: lax.cond(x.sum() > 0, lambda a: a + 1, lambda a: a - 1, x),
        *[
            lambda x, k=k: lax.switch(
                jnp.argmax(x[0]) % 3 + k, [lambda a: a, lambda a: a * 2, lambda a: a.sum(0) + a], x
            )
            for k in (-2, 0, 2)
        ],
        lambda x: lax.switch(5, [lambda a: a, lambda a: a * 2], x),
    ),
}
