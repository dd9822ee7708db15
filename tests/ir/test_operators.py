"""Operators of expressions in Python, with numbers and arrays on either side."""

import operator

import numpy as np
import pytest

import structir
from structir.ir import BlockBuilder, Expr, Var
from structir.ir.struct_info import TensorStructInfo

FLOATS = [
    "add",
    "sub",
    "mul",
    "truediv",
    "floordiv",
    "mod",
    "pow",
    "matmul",
    "lt",
    "le",
    "eq",
    "ne",
    "gt",
    "ge",
]
INTEGERS = ["and_", "or_", "xor", "lshift", "rshift"]
X = np.array([[1, 2], [3, 5]])
Y = np.array([[2, 1], [1, 3]])
CASES = [(name, "float32") for name in FLOATS] + [(name, "int64") for name in INTEGERS]


def value_of(apply, dtype):
    """Returns the value at X of what a Python function builds of a variable."""
    builder, x = BlockBuilder(), Var("x", TensorStructInfo((2, 2), dtype))
    with builder.function("main", [x]):
        call = apply(x)
        assert isinstance(call, Expr)
        builder.emit_func_output(builder.emit(call))
    return structir.interpret(builder.get(), "main", X.astype(dtype))


@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_arrays_and_numbers_on_either_side(name, dtype):
    apply = getattr(operator, name)
    x = X.astype(dtype)
    others = [Y.astype(dtype)]
    others += [np.dtype(dtype).type(2), 2] if name != "matmul" else []
    for other in others:
        right = value_of(lambda v, other=other: apply(v, other), dtype)
        left = value_of(lambda v, other=other: apply(other, v), dtype)
        np.testing.assert_array_equal(right, apply(x, other))
        np.testing.assert_array_equal(left, apply(other, x))


def test_inversion():
    np.testing.assert_array_equal(value_of(operator.invert, "int64"), ~X)


def test_functions_of_numpy_are_refused():
    with pytest.raises(TypeError, match="operand 'Var' does not support ufuncs"):
        np.exp(Var("x", TensorStructInfo((2,), "float32")))
