"""Tests of inference with ragged axes."""

import numpy as np
import pytest

import structir


def test_concatenated_rows_have_lengths_of_their_own() -> None:
    x = 'x: R.Tensor(("n", "*:a"), "float32"), y: R.Tensor(("m", "*:b"), "float32")'
    text = (
        f"@R.function\ndef main({x}):\n    z = R.sum(y, axis=1)\n    v = R.concat((x, y), axis=1)\n"
    )
    inferred = structir.infer(structir.parse(f"{text}    return (z, v)\n"))
    result = 'R.Tuple(R.Tensor((n,), dtype="float32"), R.Tensor((n, "*"), dtype="float32"))'
    assert str(inferred["main"].ret_struct_info) == result


def test_a_ragged_axis_remains_where_the_sizes_beside_it_leave_their_scope() -> None:
    text = """
@R.function
def main(x: R.Tensor(("n", "*"), "float32")):
    y = R.match_cast(x, R.Tensor(("_", "*"), "float32"))
    return R.exp(y)
"""
    program = structir.parse(text)
    assert str(program["main"].ret_struct_info) == 'R.Tensor(("_", "*"), dtype="float32")'
    assert structir.interpret(program, "main", [[0.0], []]).to_list() == [[1.0], []]


def test_operands_of_unknown_sizes_beside_ragged_ones() -> None:
    text = """
@R.function
def main(x: R.Tensor(("n", "*", 2)), w: R.Tensor(ndim=2)):
    return (R.matmul(x, w), R.ragged.to_padded(x))
"""
    x = structir.RaggedArray(np.ones((3, 2), "int32"), np.array([0, 1, 3]))
    product, padded = structir.interpret(structir.parse(text), "main", x, np.ones((2, 4), "int32"))
    assert product.values.tolist() == [[2] * 4] * 3
    assert padded.dtype == "int32" and padded.sum() == 6


def test_a_dense_cast_beside_ragged_tensors_keeps_what_is_known_of_its_value() -> None:
    text = """
@R.function(private=True)
def step(s, a):
    n = R.add(s, a)
    return (n, n)

@R.function
def main(x: R.Tensor(("n", "*", 2), "'T")):
    m = T.int64()
    y = R.match_cast(R.sum(x, axis=1), R.Tensor((n, m)))
    return R.scan(cls.step, (R.sum(y, axis=0),), y)[1]
"""
    inferred = structir.infer(structir.parse(text))
    x = structir.RaggedArray(np.ones((3, 2), "int32"), np.array([0, 1, 3]))
    assert structir.interpret(inferred, "main", x).tolist() == [[4, 4], [6, 6]]


@pytest.mark.parametrize("first", ['("m", "k", "*m", "*k")', '("k", "m", "*k", "*m")'])
@pytest.mark.parametrize(
    ("lhs", "rhs", "op", "expected"),
    [
        ('("k",)', '("m", "*:len", "m", "k")', "matmul(x, y)", '(k, "*:len", k)'),
        ('("m", "*:len", "k")', '("m",)', "matmul(x, y)", '(m, "*:len")'),
        ('("m", "*:len", "k", "m")', '("k", "m")', "linear(x, y)", '(m, "*:len", k, k)'),
        ('("m", "*", "k")', '("k", "*", "m")', "concat((x, y), axis=0)", '(2 * m, "*", m)'),
        ('("*m", "k")', '("m", "*k")', 'sig("*a n; n *a -> n *a n")(x, y)', '(k, "*m", k)'),
    ],
)
def test_of_equal_sizes_a_result_has_the_one_that_occurs_first(
    first: str, lhs: str, rhs: str, op: str, expected: str
) -> None:
    axes = first.strip("()").split(", ")
    params = ", ".join([f"f{k}: R.Tensor(({axis},))" for k, axis in enumerate(axes)])
    params += f", x: R.Tensor({lhs}), y: R.Tensor({rhs})"
    program = structir.parse(f"@R.function\ndef main({params}):\n    return R.{op}\n")
    assert str(program["main"].ret_struct_info) == f"R.Tensor({expected})"
