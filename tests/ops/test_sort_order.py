"""The reference of sort: the elements in the order of argsort, bit by bit."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import structir
from structir.ir.dtype import numpy_dtype
from structir.ops.ordering import first_of_order, index_of_rank, order_of_keys, sort_keys
from structir.ops.sort import stable_order

SPECIAL = (0.0, -0.0, 1.0, -1.0, float("nan"), -float("nan"), float("inf"), -float("inf"))


@given(
    st.lists(st.lists(st.sampled_from(SPECIAL), min_size=4, max_size=4), max_size=3),
    st.sampled_from(["float16", "float32", "float64", "bfloat16", "int8", "uint8", "bool"]),
    st.booleans(),
)
def test_sort_is_take_along_axis_of_argsort(elements, dtype, descending):
    source = np.array(elements, "float64").reshape(-1, 4)
    source = source if "float" in dtype else np.nan_to_num(source, nan=2, posinf=3, neginf=-3)
    x = source.astype("int8" if dtype == "uint8" else "float64").astype(numpy_dtype(dtype))
    module = structir.parse(
        f'''
@R.function
def main(x: R.Tensor(("n", 4), "{dtype}")):
    return R.sort(x, descending={descending}), R.argsort(x, descending={descending})
'''
    )
    values, order = structir.interpret(module, "main", x)
    assert values.dtype == x.dtype
    expected = np.take_along_axis(x, order.astype("int64"), 1)
    np.testing.assert_array_equal(values.view("uint8"), expected.view("uint8"))


@st.composite
def rows(draw):
    """Draws a row of many or few different elements, of lengths around those of each method."""
    dtype = np.dtype(draw(st.sampled_from(["float32", "float64", "int8", "int64", "uint64"])))
    length = draw(st.sampled_from([1, 2, 32, 33, 64, 65, 100]))
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    row = np.frombuffer(random.bytes(length * dtype.itemsize), dtype)
    few = np.array(SPECIAL if dtype.kind == "f" else (0, 1, 2, 100), dtype)
    is_few = random.random(length) < draw(st.sampled_from([0.0, 0.5, 1.0]))
    return np.where(is_few, random.choice(few, length), row)


@settings(max_examples=30)
@given(rows(), st.booleans(), st.data())
def test_rows_are_ordered_by_integer_keys(row, descending, data):
    expected = stable_order(row, descending)
    np.testing.assert_array_equal(order_of_keys(*sort_keys(row, descending)), expected)
    count = data.draw(st.integers(0, len(row)))
    np.testing.assert_array_equal(first_of_order(row, count, descending), expected[:count])
    rank = data.draw(st.integers(0, len(row) - 1))
    assert index_of_rank(row, rank) == stable_order(row, False)[rank]


def test_compiled_order_of_a_long_row():
    module = structir.parse(
        """
@R.function
def main(x: R.Tensor(("n", "m"), "int64")):
    return R.argsort(x, axis=0, descending=True)
"""
    )
    x = np.random.default_rng(0).integers(-(2**62), 2**62, (90, 2)) >> np.arange(90)[:, None] % 62
    order = structir.compile(module)["main"](x)
    np.testing.assert_array_equal(order, structir.interpret(module, "main", x))


def test_not_a_number_of_a_narrow_float_is_last():
    x = np.array([np.nan, 3, np.inf, -np.inf, np.nan, 7, 96, 1, 7])
    source = """
@R.function
def main(x: R.Tensor((9,), "{0}")):
    edges = R.const([1.0, 7.0], "{0}")
    middle = R.median(x, axis=0)
    return R.sort(x), R.unique(x, return_counts=True), middle, R.bucketize(x, edges)
"""
    expected, *results = [
        structir.interpret(
            structir.parse(source.format(dtype)), "main", x.astype(numpy_dtype(dtype))
        )
        for dtype in ("float32", "bfloat16", "float8_e5m2")
    ]
    for result in results:
        for value, wanted in zip(flat_values(result), flat_values(expected), strict=True):
            np.testing.assert_array_equal(value.astype("float64"), wanted.astype("float64"))


def flat_values(value):
    return [v for each in value for v in flat_values(each)] if isinstance(value, tuple) else [value]
