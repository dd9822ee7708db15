"""The reference of sort: the elements in the order of argsort, bit by bit."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import structir
from structir.ir.dtype import numpy_dtype

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
