"""Functions of structir.lax equal those of jax.lax, evaluated at once and traced: values, dtypes
and shapes. Invalid arguments are one DiagnosticError."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import structir
import structir.lax
from structir.errors import DiagnosticError
from tests.cases import every_case
from tests.numpy.against_jax import assert_equals_jax, assert_gradient_equals_jax

jax = pytest.importorskip("jax")
RANDOM = np.random.default_rng(7)
A, B = RANDOM.normal(size=(3, 4)), RANDOM.normal(size=(3, 4))
X, V = RANDOM.normal(size=(2, 3, 4)), RANDOM.normal(size=6)
F, HALF = A.astype("float32"), A.astype("float16")
N = RANDOM.integers(-5, 6, size=(3, 4)).astype("int32")
BYTES, SHORT = np.array([[200, 100, 5], [255, 1, 2]], "uint8"), np.array([-128, 127, -1, 5], "int8")
M = A > 0
ENDS = np.array([np.nan, np.inf, -np.inf, 0.0, 0.5, -0.5, 2.5, -1.5, 1e30, -1e30], "float32")
TIES = np.array([0.5, -0.5, 1.5, 2.5, 0.49999997, 8388609.0, 2.7, np.inf, -0.0], "float32")
POWERS = np.logspace(-300, 300, 31)
LARGE = np.array([1e9, 1e10, 1e18, 1e300, 1e-3, 5.0, -0.5])
LEFT, RIGHT = (x.ravel() for x in np.meshgrid([0, 1, -1, 5, -5, 7, 31, 127, -128], [0, 2, -3, 33]))
IMAGE, KERNEL = RANDOM.normal(size=(2, 4, 7, 6)), RANDOM.normal(size=(6, 4, 3, 2))
ROWS, FILTER = IMAGE.transpose(0, 2, 3, 1).copy(), KERNEL.transpose(2, 3, 1, 0).copy()
SAME = ("NHWC", "HWIO", "NHWC")


def integers(function: str) -> Callable[..., Any]:
    return lambda s, x, y: [
        getattr(s, function)(x.astype(d), y.astype(d)) for d in ("int8", "uint8", "int32", "uint32")
    ]


def precisions(s: Any, x: Any) -> list[Any]:
    bits = [(5, 10), (8, 7), (8, 23), (4, 3), (5, 2), (3, 4), (6, 9), (8, 0), (11, 52)]
    return [s.reduce_precision(x, *pair) for pair in bits]


def windows(function: str, initial: Any) -> Callable[..., Any]:
    settings = [((2, 2), (1, 1)), ((1, 3), (1, 2)), ((2, 3), (2, 2)), ((1, 1), (2, 2))]
    paddings = ("VALID", "SAME", "SAME_LOWER", ((1, 0), (0, 2)))
    return lambda s, x: [
        s.reduce_window(x, x.dtype.type(initial), getattr(s, function), *sizes, padding)
        for sizes in settings
        for padding in paddings
    ]


CASES: dict[str, tuple[Any, ...]] = {
    "round": (lambda s, x: s.round(x), TIES),
    "round to even": (lambda s, x: s.round(x, s.RoundingMethod.TO_NEAREST_EVEN), TIES),
    "cbrt": (lambda s, x, y: (s.cbrt(x), s.cbrt(-x), s.cbrt(y)), POWERS, ENDS),
    "digamma": (lambda s, x: s.digamma(x), LARGE),
    "div": (integers("div"), LEFT, RIGHT),
    "rem": (integers("rem"), LEFT, RIGHT),
    "shift_right_arithmetic": (integers("shift_right_arithmetic"), LEFT, RIGHT),
    "shift_right_logical": (integers("shift_right_logical"), LEFT, RIGHT),
    "reduce_precision": (lambda s, x, y: precisions(s, x) + precisions(s, y), ENDS[1:4], A),
    "convert": (lambda s, x: [s.convert_element_type(x, d) for d in ("int32", "uint8")], ENDS),
    "bitcast to bytes": (lambda s, x: s.bitcast_convert_type(x, "uint8"), F),
    "bitcast from bytes": (lambda s, x: s.bitcast_convert_type(x[:, :2], "uint16"), BYTES),
    "select_n of one": (lambda s, m, x: s.select_n(m, x), M, A),
    "broadcast_in_dim": (lambda s, x: s.broadcast_in_dim(x, (4, 2, 3), (2, 0)), A),
    "broadcast_in_dim in front": (lambda s, x: s.broadcast_in_dim(x, (2, 3, 4), ()), 2.0),
    "split": (lambda s, x, y: (s.split(x, (1, 2, 3)), s.split(y, (2, 2), axis=-1)), V, A),
    "cumsum": (lambda s, x, y: [s.cumsum(z, 0, r) for z in (x, y) for r in (0, 1)], BYTES, SHORT),
    "cumprod": (lambda s, x: s.cumprod(x), SHORT),
    "cummax": (lambda s, x, y: (s.cummax(x), s.cummin(y)), BYTES, SHORT),
    "reduce_sum": (lambda s, x: (s.reduce_sum(x, (0,)), s.reduce_prod(x, (1,))), BYTES),
    "reduce_and": (
        lambda s, x: [f(x, (0,)) for f in (s.reduce_and, s.reduce_or, s.reduce_xor)],
        N,
    ),
    "reduce_and of bools": (lambda s, x: (s.reduce_and(x, (1,)), s.reduce_xor(x, (1,))), M),
    "reduce no axes": (lambda s, x: s.reduce(x, np.float64(2), s.add, ()), A),
    "reduce": (lambda s, x: s.reduce(x, np.float64(2), lambda a, b: a + b, (0, 1)), A),
    "reduce pairs": (
        lambda s, x, y: s.reduce(
            (x, y), (np.float64(0), np.float64(1)), lambda a, b: (a[0] + b[0], a[1] * b[1]), (1,)
        ),
        A,
        B,
    ),
    "top_k": (lambda s, x: [s.top_k(x, k, axis=axis) for k in (0, 2) for axis in (0, -1)], A),
    "pad between": (lambda s, x: s.pad(x, np.float64(7), ((1, 0, 2), (2, 1, 1))), A),
    "pad less": (lambda s, x: s.pad(x, np.float64(7), ((-1, 2, 1), (0, -2, 0))), A),
    "pad far less": (lambda s, x: s.pad(x, np.float64(7), ((-4, 0, 1), (1, -3, 2))), A),
    "sort_key_val": (lambda s, x, y: s.sort_key_val(x, y, 0, is_stable=True), N, A),
    **{
        f"reduce_window {name}": (windows(name, initial), F)
        for name, initial in (("add", 0.0), ("max", -np.inf), ("min", np.inf), ("mul", 1.0))
    },
    "reduce_window of integers": (windows("mul", 1), N),
    "reduce_window dilated": (
        lambda s, x: s.reduce_window(x, 0.0, s.add, (2, 2), (1, 1), "SAME", (2, 1), (1, 2)),
        A,
    ),
    **{
        f"conv {padding}": (
            lambda s, x, k, p=padding: [
                s.conv_general_dilated(x, k, strides, p) for strides in ((1, 1), (2, 1))
            ],
            IMAGE,
            KERNEL,
        )
        for padding in ("SAME", "SAME_LOWER", "VALID")
    },
    "conv batch groups": (
        lambda s, x, k: s.conv_general_dilated(x, k, (1, 1), "SAME", batch_group_count=2),
        IMAGE,
        KERNEL,
    ),
    "conv preferred": (
        lambda s, x, k: s.conv_general_dilated(
            (x * 20).astype("int8"), (k * 20).astype("int8"), (1, 1), "SAME",
            preferred_element_type=np.int32,
        ),
        IMAGE,
        KERNEL,
    ),
    "conv layouts": (
        lambda s, x, k: s.conv_general_dilated(
            x, k, (1, 2), "SAME",
            dimension_numbers=s.conv_dimension_numbers(x.shape, k.shape, SAME),
        ),
        ROWS,
        FILTER,
    ),
    "conv_transpose of a kernel": (
        lambda s, x, k: [
            s.conv_transpose(x, k.swapaxes(2, 3), (2, 2), p, transpose_kernel=True)
            for p in ("SAME", "VALID")
        ],
        ROWS,
        FILTER,
    ),
}  # fmt: skip


@every_case("name", CASES)
def test_functions_equal_those_of_jax(name: str) -> None:
    call, *arguments = CASES[name]
    assert_equals_jax(lambda s, *args: call(s.lax, *args), *arguments)


GRADIENTS: dict[str, tuple[Any, ...]] = {
    "cbrt": (lambda s, x: s.cbrt(x), A),
    "digamma": (lambda s, x: s.digamma(x), LARGE[4:]),
    "reduce_window": (lambda s, x: s.reduce_window(x, 0.0, s.add, (2, 3), (2, 1), "SAME"), A),
    "pad": (lambda s, x: s.pad(x, np.float64(0), ((1, -1, 2), (-1, 1, 1))), A),
    "conv": (
        lambda s, x, k: s.conv_general_dilated(x, k, (1, 1), "SAME_LOWER", batch_group_count=2),
        IMAGE,
        KERNEL,
    ),
    "split": (lambda s, x: s.split(x, (1, 2, 3))[1], V),
}


@every_case("name", GRADIENTS)
def test_gradients_equal_those_of_jax(name: str) -> None:
    call, *arguments = GRADIENTS[name]
    assert_gradient_equals_jax(lambda s, *args: call(s.lax, *args), *arguments)


def test_precision_has_the_derivative_of_the_identity() -> None:
    slope = structir.grad(lambda x: structir.lax.reduce_precision(x, 5, 2).sum())(A)
    np.testing.assert_array_equal(slope, np.ones_like(A))


def test_windows_larger_than_the_array() -> None:
    result = structir.lax.reduce_window(A, 0.0, structir.lax.add, (5, 5), (1, 1), "VALID")
    assert result.shape == (0, 0)


LAX = structir.lax
INVALID: dict[str, Callable[[], Any]] = {
    "integer_pow: y: expected an int": lambda: LAX.integer_pow(A, 2.5),
    "select_n: expected one or two cases": lambda: LAX.select_n(M, A, A, A),
    "bitcast_convert_type: expected a last axis": lambda: LAX.bitcast_convert_type(BYTES, "uint32"),
    "reduce_precision: expected floats": lambda: LAX.reduce_precision(N, 5, 2),
    "unknown dtype 'bogus'": lambda: LAX.convert_element_type(A, "bogus"),
    "expected nested lists": lambda: LAX.exp([[1, 2], [3]]),
    "iota: size: expected an int": lambda: LAX.iota("int32", 2.5),
    "broadcasted_iota: dimension": lambda: LAX.broadcasted_iota("int32", (2, 3), 2),
    "axis: expected different axes": lambda: LAX.rev(A, (0, 0)),
    "axis: expected different axes, found .1, 1.": lambda: LAX.expand_dims(A, (1, 1)),
    "broadcast: sizes: expected a sequence": lambda: LAX.broadcast(A, 2),
    "broadcast_dimensions: expected one": lambda: LAX.broadcast_in_dim(A, (3, 4), (0,)),
    "pad: padding_config: expected one": lambda: LAX.pad(A, 0.0, ((1, 1, 0),)),
    "pad: padding_config: expected .low": lambda: LAX.pad(A, 0.0, ((1, 1), (0, 0))),
    "slice: limit_indices: expected one": lambda: LAX.slice(A, (0, 0), (2,)),
    "slice: expected a slice of an axis": lambda: LAX.slice(A, (0, 0), (3, 5)),
    "slice_in_dim: stride": lambda: LAX.slice_in_dim(A, 0, 2, -1),
    "dynamic_slice: slice_sizes": lambda: LAX.dynamic_slice(A, (0, 0), (2,)),
    "dynamic_update_slice: sizes": lambda: LAX.dynamic_update_slice(A, V, (0, 0)),
    "index_in_dim: expected an index": lambda: LAX.index_in_dim(A, 3),
    "split: expected sizes whose sum is 6": lambda: LAX.split(V, (3, 4)),
    "sort: num_keys": lambda: LAX.sort((A, B), num_keys=3),
    "top_k: k: expected a number up to 4": lambda: LAX.top_k(A, 5),
    "dot_general: expected as many axes": lambda: LAX.dot_general(A, B, (((1,), (0, 1)), ((), ()))),
    "dot_general: dimension_numbers": lambda: LAX.dot_general(A, B, ((1,), (1,))),
    "padding: expected .* found 'BOGUS'": lambda: LAX.conv(IMAGE, KERNEL, (1, 1), "BOGUS"),
    "padding: expected 2 pairs": lambda: LAX.conv(IMAGE, KERNEL, (1, 1), ((1, 1),)),
    "window_strides: expected 2": lambda: LAX.conv(IMAGE, KERNEL, (0, 1), "SAME"),
    "expected arrays of one rank": lambda: LAX.conv(A, B, (), "SAME"),
    "window_dimensions: expected one": lambda: LAX.reduce_window(A, 0.0, LAX.add, (2,), (1,)),
    "window_dimensions: expected positive": lambda: LAX.reduce_window(A, 0.0, LAX.add, (0, 2)),
    "reduce_sum: axes: expected a sequence": lambda: LAX.reduce_sum(A, 0),
}


@every_case("message", INVALID)
def test_invalid_arguments_are_one_error(message: str) -> None:
    with pytest.raises(DiagnosticError, match=message):
        INVALID[message]()
