"""The reference of sort: the elements in the order of argsort, bit by bit."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import structir
from structir.ir.dtype import numpy_dtype

SPECIAL = (0.0, -0.0, 1.0, -1.0, float("nan"), -float("nan"), float("inf"), -float("inf"))


@given(
    st.lists(st.sampled_from(SPECIAL), max_size=8),
    st.sampled_from(["float16", "float32", "float64", "bfloat16", "int8", "uint8", "bool"]),
    st.booleans(),
)
def test_sort_is_take_along_axis_of_argsort(elements, dtype, descending):
    finite = [x for x in elements if np.isfinite(x)]
    source = np.array(elements if "float" in dtype else finite, "float64")
    x = source.astype("int8" if dtype == "uint8" else "float64").astype(numpy_dtype(dtype))
    module = structir.parse(
        f'''
@R.function
def main(x: R.Tensor(("n",), "{dtype}")):
    return R.sort(x, descending={descending}), R.argsort(x, descending={descending})
'''
    )
    values, order = structir.interpret(module, "main", x)
    assert values.dtype == x.dtype
    np.testing.assert_array_equal(values.view("uint8"), x[order].view("uint8"))
