"""Floats as scalars have the dtype of their annotation, conversion or parameter."""

import pytest

import structir

PROGRAM = """
@I.ir_module
class Module:
    @R.function
    def scaled(x: R.Tensor(("n",), "float64"), scale: R.Prim("{dtype}")) -> R.Prim("{dtype}"):
        return scale

    @R.function
    def main(x: R.Tensor(("n",), "float64")):
        y = {value}
        return y
"""
DTYPES = ("float64", "float32", "float16", "bfloat16")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "value", ["cls.scaled(x, 2.5)", "cls.scaled(x, scale=2.5)", "R.prim_value(T.{dtype}(2.5))"]
)
def test_dtypes_of_floats(dtype, value):
    module = structir.parse(PROGRAM.format(dtype=dtype, value=value.format(dtype=dtype)))
    assert module["main"].ret_struct_info.dtype == dtype
    again = structir.parse(module.script())
    assert structir.structural_equal(module, again)
    assert again["main"].ret_struct_info.dtype == dtype
