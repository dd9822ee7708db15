"""Loops over ragged rows in blocks of whole vectors, against NumPy row by row."""

from itertools import pairwise

import numpy as np
import pytest

import structir
from structir import RaggedArray
from structir.errors import ShapeMismatchError
from structir.ir.dtype import numpy_dtype
from structir.targets.cpu import unaligned_sums

LAYOUTS = {
    "short": [3, 0, 1, 7, 2, 0, 9, 5] * 3,
    "blocks": [31, 32, 33, 0, 63, 64, 65, 96, 1],
    "long": [500, 3, 777],
    "one": [70],
    "last is short": [40, 40, 2],
    "empty": [0, 0],
}
BODIES = {
    "difference": "R.subtract(x, R.max(x, axis=1, keepdims=True))",
    "softmax": "R.nn.softmax(x, axis=1)",
    "log_softmax": "R.nn.log_softmax(x, axis=1)",
    "sum": "R.sum(R.multiply(x, x), axis=1)",
    "prod": "R.prod(x, axis=1)",
    "min": "R.min(x, axis=1)",
    "of exponentials": "R.sum(R.exp(x), axis=1)",
    "argmax": "R.argmax(x, axis=1)",
    "argmin": "R.argmin(x, axis=1)",
}
OF_ROWS = {
    "difference": lambda x: x - x.max(),
    "softmax": lambda x: np.exp(x - x.max()) / np.exp(x - x.max()).sum(),
    "log_softmax": lambda x: x - x.max() - np.log(np.exp(x - x.max()).sum()),
    "sum": lambda x: (x * x).sum(),
    "prod": lambda x: x.prod(),
    "min": lambda x: x.min(),
    "of exponentials": lambda x: np.exp(x).sum(),
    "argmax": lambda x: x.argmax(),
    "argmin": lambda x: x.argmin(),
}
TOLERANCE = {"float64": 1e-12, "float32": 1e-5, "float16": 4e-3, "bfloat16": 3e-2}


def program(name, dtype, params='x: R.Tensor(("n", "*"), "{dtype}")', head="", wrap=""):
    params, value = params.format(dtype=dtype), f"{wrap}({BODIES[name]})"
    return structir.parse(
        f"@R.function\ndef main({params}):\n    {head}y = {value}\n    return y\n"
    )


def check(name, actual, values, rows):
    """Compares the results of rows, given by their first and last values, with those of NumPy."""
    tolerance = TOLERANCE[str(values.dtype)]
    wide = values.astype("float64")
    for result, (first, last) in zip(actual, rows, strict=True):
        if first < last:
            expected = OF_ROWS[name](wide[first:last])
            np.testing.assert_allclose(
                np.asarray(result, "float64"), expected, tolerance, 4 * tolerance
            )


@pytest.fixture(params=(True, False), ids=("wide", "narrow"))
def width(request, monkeypatch):
    """Blocks for wide vectors, and for narrow ones."""
    monkeypatch.setattr(unaligned_sums, "has_wide_vectors", lambda: request.param)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("name", BODIES)
def test_rows_in_blocks_match_numpy(name, dtype, width):
    compiled = structir.compile(program(name, dtype), num_threads=2)
    rng = np.random.default_rng(0)
    assert ("T.registers" in compiled.source("main")) is (name != "prod")  # which keeps its order
    for lengths in LAYOUTS.values():
        offsets = np.cumsum([0, *lengths])
        values = rng.uniform(0.5, 1.1, offsets[-1]).astype(numpy_dtype(dtype))
        x = RaggedArray(values, offsets)
        result = compiled(x)
        check(name, result, values, pairwise(offsets))


@pytest.mark.parametrize(
    "name, wrap",
    (("difference", "R.ragged.values"), ("softmax", "R.ragged.values"), ("sum", "")),
)
@pytest.mark.parametrize("order", ("gaps", "reversed", "one gap"))
def test_rows_that_do_not_follow_each_other_are_an_error(name, wrap, order):
    params = 'v: R.Tensor(("t",), "{dtype}"), s: R.Tensor(("n",), "int64"), '
    params += 'e: R.Tensor(("n",), "int64")'
    module = program(name, "float32", params, "x = R.ragged.from_values(v, s, e)\n    ", wrap)
    compiled, rng = structir.compile(module, num_threads=1), np.random.default_rng(0)
    lengths = np.array([5, 40, 3, 33, 2, 70, 1, 0, 9] * 4)
    gaps = rng.integers(0, 6, len(lengths)) if order == "gaps" else np.zeros(len(lengths), int)
    gaps[7] += order == "one gap"
    starts = np.cumsum(lengths + gaps) - lengths
    limits = starts + lengths
    values = rng.uniform(0.5, 1.1, limits[-1] + 3).astype("float32")
    if order == "reversed":
        starts, limits = starts[::-1].copy(), limits[::-1].copy()
    with pytest.raises(ShapeMismatchError, match="E0731"):
        compiled(values, starts, limits)


@pytest.mark.parametrize("dtype", ("float16", "float32", "float64", "int8", "uint8", "int64"))
@pytest.mark.parametrize(
    "body", ("x", "R.abs(x)", "R.subtract(x, R.min(x, axis=1, keepdims=True))")
)
@pytest.mark.parametrize("op", ("argmax", "argmin"))
def test_the_first_of_equal_extremes_of_a_row(op, body, dtype, width):
    """Few distinct numbers, so that an extreme occurs in several lanes and blocks; and NaN."""
    text = f'x: R.Tensor(("n", "*"), "{dtype}")):\n    y = R.{op}({body}, axis=1)\n    return y\n'
    compiled = structir.compile(structir.parse(f"@R.function\ndef main({text}"), num_threads=1)
    rng = np.random.default_rng(0)
    for lengths in LAYOUTS.values():
        offsets = np.cumsum([0, *lengths])
        for numbers in ([1, 2, 3], [2], [0, 1] if "int" in dtype else [0, np.nan, np.inf, 3]):
            values = rng.choice(np.array(numbers, dtype), offsets[-1])
            rows = [values[first:last] for first, last in pairwise(offsets)]
            if "min" in body:
                with np.errstate(invalid="ignore"):
                    rows = [row - row.min() if row.size else row for row in rows]
            expected = [getattr(row, op)() if row.size else 0 for row in rows]
            assert compiled(RaggedArray(values, offsets)).tolist() == expected


@pytest.mark.parametrize("name", ("difference", "softmax", "of exponentials", "argmax"))
def test_kernels_of_rows_access_no_element_out_of_bounds(name, width):
    source = structir.compile(program(name, "float32")).source("main")
    text = source[source.index("@I.kernel\ndef rows") :].split("\n\n#")[0]
    kernel = structir.parse(text)
    *_, result = kernel.functions["rows"].params
    rng = np.random.default_rng(0)
    for lengths in LAYOUTS.values():
        offsets = np.cumsum([0, *lengths])
        x = rng.uniform(0.5, 1.1, offsets[-1]).astype("float32")
        is_per_row = result.struct_info.dims != kernel.functions["rows"].params[0].struct_info.dims
        out = np.zeros(len(lengths) if is_per_row else offsets[-1], result.struct_info.dtype)
        structir.interpret(kernel, "rows", x, offsets[:-1].copy(), offsets[1:].copy(), out)
        results = out if is_per_row else RaggedArray(out, offsets)
        check(name, results, x, pairwise(offsets))


def test_nan_of_one_row_stays_in_it():
    compiled = structir.compile(program("min", "float32"), num_threads=1)
    for length in (1, 5, 31, 32, 33, 100):
        values = np.ones(3 * length, "float32")
        values[length + length // 2] = np.nan
        result = compiled(RaggedArray(values, np.arange(4) * length))
        np.testing.assert_array_equal(result, [1, np.nan, 1])


@pytest.mark.parametrize("inner", ((), (3,)))
@pytest.mark.parametrize("dtype", ("float32", "int8"))
def test_copies_of_rows_access_no_element_out_of_bounds(inner, dtype):
    sizes = "".join([f", {size}" for size in inner])
    text = f'@R.function\ndef main(x: R.Tensor(("n", "*"{sizes}), "{dtype}")):\n'
    text += "    y = R.concat((x, x), axis=1)\n    return y\n"
    compiled = structir.compile(structir.parse(text), num_threads=2)
    source = compiled.source("main")
    kernel = structir.parse(source[source.index("@I.kernel\ndef rows") :].split("\n\n#")[0])
    for lengths in LAYOUTS.values():
        offsets = np.cumsum([0, *lengths])
        values = np.arange(offsets[-1] * max(inner, default=1)).reshape(-1, *inner).astype(dtype)
        x = RaggedArray(values, offsets)
        expected = np.concatenate([np.concatenate([row, row]) for row in x.rows()])
        np.testing.assert_array_equal(compiled(x).values, expected)
        out = np.zeros_like(expected)
        starts = {"x0": values, "x1": offsets[:-1], "x2": offsets[1:], "x3": 2 * offsets[:-1]}
        structir.interpret(kernel, "rows", *[a.copy() for a in starts.values()], out)
        np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("body", (BODIES["difference"], BODIES["sum"], "R.concat((x, x), axis=1)"))
def test_threads_compute_the_rows_of_one(body):
    text = '@R.function\ndef main(x: R.Tensor(("n", "*"), "float32")):\n'
    text += f"    y = {body}\n    return y\n"
    module, rng = structir.parse(text), np.random.default_rng(0)
    offsets = np.cumsum([0, *rng.integers(0, 40, 40000)])
    x = RaggedArray(rng.standard_normal(offsets[-1], "float32"), offsets)
    one, two = [structir.compile(module, num_threads=count)(x) for count in (1, 2)]
    np.testing.assert_array_equal(getattr(one, "values", one), getattr(two, "values", two))


def test_product_keeps_the_order_of_its_factors():
    """The product of every other factor overflows, that of all of them in order does not."""
    offsets = np.array([0, 60, 160, 260, 1000])
    values = np.tile(np.array([1e30, 1e-30], "float32"), 500)
    compiled = structir.compile(program("prod", "float32"), num_threads=1)
    np.testing.assert_allclose(compiled(RaggedArray(values, offsets)), np.ones(4), 1e-4)


@pytest.mark.parametrize("op", ("argmax", "argmin"))
def test_first_extreme_of_empty_rows_and_of_nan(op):
    x = RaggedArray(np.array([1, 1, np.nan, 2, np.nan], "float32"), np.array([0, 0, 2, 5]))
    module = program(op, "float32")
    expected = np.array([0, 0, 0])
    np.testing.assert_array_equal(structir.interpret(module, "main", x), expected)
    np.testing.assert_array_equal(structir.compile(module)["main"](x), expected)
