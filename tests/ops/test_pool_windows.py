"""Pools with `ceil_mode` use the windows of torch and ONNX Runtime; `meshgrid` those of NumPy."""

from itertools import product

import numpy as np
import pytest

import structir
from structir.ir.dtype import int_limits, numpy_dtype

CASES = [
    ((7, 8), (3, 2), (2, 3), 1),
    ((5, 7), (2, 3), (3, 2), 1),
    ((6, 4), (3, 3), (4, 4), 1),
    ((4, 9), (2, 2), (3, 3), 0),
]


def windows(size: int, pool: int, stride: int, pad: int) -> list[tuple[int, int]]:
    """Returns the first index and the limit of each window, within the padding at both ends."""
    count = -(-(size + 2 * pad - pool) // stride) + 1
    if (count - 1) * stride >= size + pad:  # the last window begins beyond the padding
        count -= 1
    starts = [k * stride - pad for k in range(count)]
    return [(start, min(start + pool, size + pad)) for start in starts]


def pooled(
    x: np.ndarray, pool: tuple[int, int], strides: tuple[int, int], pad: int, how: str
) -> np.ndarray:
    axes = [windows(*each, pad) for each in zip(x.shape, pool, strides, strict=True)]
    result = np.empty([len(axis) for axis in axes], x.dtype)
    for index in np.ndindex(result.shape):
        ends = [axis[k] for axis, k in zip(axes, index, strict=True)]
        values = x[tuple([slice(max(low, 0), high) for low, high in ends])]
        area = np.prod([high - low for low, high in ends])
        result[index] = {"max": values.max(), "mean": values.mean(), "sum": values.sum() / area}[
            how
        ]
    return result


def both_ways(module: structir.ir.IRModule, *args: np.ndarray) -> list:
    return [structir.interpret(module, "main", *args), structir.compile(module)["main"](*args)]


@pytest.mark.parametrize(("case", "how"), list(product(CASES, ["max", "mean", "sum"])))
def test_windows_that_begin_beyond_the_padding_are_dropped(case: tuple, how: str) -> None:
    shape, pool, strides, pad = case
    x = np.random.default_rng(0).standard_normal(shape).astype("float32")
    name, counted = ("max_pool2d", False) if how == "max" else ("avg_pool2d", how == "sum")
    module = structir.parse(
        f"@R.function\ndef main(x: R.Tensor({(1, 1, *shape)}, 'float32')):\n"
        f"    return R.nn.{name}(x, pool_size={pool}, strides={strides}, padding={pad}, "
        f"ceil_mode=True, count_include_pad={counted})\n"
    )
    expected = pooled(x, pool, strides, pad, how)
    assert module["main"].ret_struct_info.dims == (1, 1, *expected.shape)
    for result in both_ways(module, x[None, None]):
        np.testing.assert_allclose(result[0, 0], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("indexing", ["ij", "xy"])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_meshgrid_has_the_axes_of_its_indexing(indexing: str, count: int) -> None:
    vectors = [np.arange(2 + k, dtype="float32") for k in range(count)]
    params = ", ".join([f'v{k}: R.Tensor(("n{k}",), "float32")' for k in range(count)])
    names = ", ".join([f"v{k}" for k in range(count)])
    module = structir.parse(
        f"@R.function\ndef main({params}):\n"
        f"    return R.meshgrid(({names},), indexing='{indexing}')\n"
    )
    for results in both_ways(module, *vectors):
        for result, expected in zip(results, np.meshgrid(*vectors, indexing=indexing), strict=True):
            assert np.array_equal(result, expected)


INTEGERS = [
    "int4",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint4",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
]


def truncated_means(x: np.ndarray, settings: dict) -> np.ndarray:
    """Returns the exact means of windows of the last axis, rounded toward zero."""
    (low, high), step, dilation = settings["padding"], settings["strides"], settings["dilation"]
    extent, n = (settings["pool_size"] - 1) * dilation + 1, x.shape[-1]
    is_partial, counted = settings["ceil_mode"], settings["count_include_pad"]
    count = (n + low + high - extent + (step - 1) * is_partial) // step + 1
    count = min(count, (n + low + step - 1) // step) if is_partial else count
    result = np.zeros((*x.shape[:-1], count), x.dtype)
    for index in np.ndindex(result.shape):
        at = range(index[-1] * step - low, index[-1] * step - low + extent, dilation)
        values = [int(x[(*index[:-1], k)]) for k in at if 0 <= k < n]
        divisor = sum(-low <= k < n + high for k in at) if counted else len(values)
        total = sum(values)
        result[index] = (abs(total) // max(divisor, 1)) * (-1 if total < 0 else 1)
    return result


@pytest.mark.parametrize("dtype", INTEGERS)
def test_means_of_integers_are_exact_and_truncated(dtype: str) -> None:
    rng = np.random.default_rng(INTEGERS.index(dtype))
    kind, limits = numpy_dtype(dtype), int_limits(dtype)
    low, high = [limit // 32 if "64" in dtype else limit for limit in limits]  # no sum overflows
    for case, (counted, partial) in enumerate(product([True, False], repeat=2)):
        pool_size = int(rng.integers(1, 5))
        settings = {
            "pool_size": pool_size,
            "strides": int(rng.integers(1, 4)),
            "dilation": int(rng.integers(1, 3)),
            "padding": tuple(rng.integers(0, pool_size, 2).tolist()),
            "ceil_mode": partial,
            "count_include_pad": counted,
        }
        text = ", ".join([f"{name}={value}" for name, value in settings.items()])
        module = structir.parse(
            f"@R.function\ndef main(x: R.Tensor((2, 'c', 'n'), '{dtype}')):\n"
            f"    return R.nn.avg_pool1d(x, {text}), R.mean(x, axis=[1, 2])\n"
        )
        x = rng.integers(
            low, high, (2, 2, 9), dtype="uint64" if low == 0 else "int64", endpoint=True
        )
        x = x.astype(kind)
        totals = [sum(map(int, row.ravel())) for row in x]
        whole = np.array([abs(t) // 18 * (-1 if t < 0 else 1) for t in totals]).astype(kind)
        interpreted = structir.interpret(module, "main", x)
        is_compiled = case == INTEGERS.index(dtype) % 4
        compiled = structir.compile(module)["main"](x) if is_compiled else interpreted
        for results in (interpreted, compiled):
            assert np.array_equal(results[0], truncated_means(x, settings)), text
            assert np.array_equal(results[1], whole)


@pytest.mark.parametrize("pool_size", (1, 3))
def test_windows_of_integers_may_be_wider_than_an_axis_of_one(pool_size: int) -> None:
    for partial in (False, True):
        settings = {
            "pool_size": pool_size,
            "strides": 1,
            "dilation": 1,
            "padding": (pool_size // 2,) * 2,
            "ceil_mode": partial,
            "count_include_pad": True,
        }
        text = ", ".join([f"{name}={value}" for name, value in settings.items()])
        module = structir.parse(
            "@R.function\ndef main(x: R.Tensor((1, 2, 1), 'int64')):\n"
            f"    return R.nn.avg_pool1d(x, {text})\n"
        )
        x = np.array([[[6], [-7]]])
        runs = [structir.compile(module)["main"](x)] if partial else []
        for result in (structir.interpret(module, "main", x), *runs):
            assert np.array_equal(result, truncated_means(x, settings)), text
