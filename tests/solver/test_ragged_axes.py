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


SIZES = {"n": 2, "m": 4, "k": 3, "*": 4}
FIRST = {2: ("n", "*"), 3: ("n", "*", "k")}
# ops that take dense operands beside ragged ones: as rows of any length, or as rows of the size
MIXED = {
    "concat((x, y), axis=0)": [(2, ("n", "m")), (2, ("k", "m")), (3, ("n", "m", "k"))],
    "concat((y, x, y), axis=0)": [(2, ("n", "m")), (3, ("n", "m", "k"))],
    "concat((R.concat((y, x)), y))": [(2, ("n", "m")), (3, ("n", "m", "k"))],
    "concat((x, y), axis=1)": [(2, ("n", "m")), (3, ("n", "m", "k"))],
    "concat((x, y), axis=2)": [(3, ("n", "m", "k")), (3, ("n", "m", "n"))],
    "matmul(x, y)": [(2, ("m", "k")), (2, ("m",))],
    "matmul(y, x)": [(3, ("n", "m")), (3, ("m",)), (3, ("n", "k", "m"))],
    "linear(x, y)": [(2, ("n", "m")), (2, ("k", "m"))],
    'einsum((x, y), "ij,j->i")': [(2, ("m",))],
    'einsum((x, y), "ijk,ijl->ikl")': [(3, ("n", "m", "n"))],
}
CASES = [(op, FIRST[rank], shape) for op, cases in MIXED.items() for rank, shape in cases]


def _annotation(axes: tuple[str, ...]) -> str:
    return f'R.Tensor(({", ".join(map(repr, axes))},), "float32")'


def _value(axes: tuple[str, ...]) -> object:
    sizes = [SIZES[axis] for axis in axes]
    values = np.arange(np.prod(sizes), dtype="float32").reshape(sizes)
    if "*" not in axes:
        return values
    return structir.RaggedArray.from_padded(values, [SIZES["*"]] * SIZES["n"])


@pytest.mark.parametrize("stated", ["sizes", "numbers", "rank", "axes", "rows", "callee"])
@pytest.mark.parametrize(("op", "ragged", "dense"), CASES)
def test_dense_operands_beside_ragged_ones_stay_dense(
    op: str, ragged: tuple[str, ...], dense: tuple[str, ...], stated: str
) -> None:
    """The size of a dense operand is the one of another parameter, which has a row variable."""
    y = {
        "numbers": _annotation(tuple(["4" if axis == "m" else axis for axis in dense])),
        "rank": f'R.Tensor(ndim={len(dense)}, dtype="float32")',
        "axes": _annotation(("_",) * len(dense)),
        "rows": _annotation(("*s", *dense[-1:])),
    }.get(stated, _annotation(dense))
    function = f"def main(x: {_annotation(ragged)}, y: {y}, z: {_annotation(('m', '*u'))}, "
    function += 'w: R.Tensor(("*u",), "float32")):\n    v = R.concat((w, w))\n'
    text = f"@R.function\n{function}    out = R.{op}\n    return (out, z, v)\n"
    if stated == "callee":
        callee = f"def callee(x: {_annotation(ragged)}, y: {_annotation(dense)}):"
        text = f"@R.function\n{callee}\n    out = R.{op}\n    return out\n\n\n" + text
        text = text.replace(
            f"    out = R.{op}\n    return (", "    out = callee(x, y)\n    return ("
        )
    if op.startswith("einsum") and stated == "numbers":  # its operands broadcast: only 1 does
        with pytest.raises(structir.errors.StructInfoError, match="E0405"):
            structir.parse(text)
        return
    program = structir.parse(text)
    arguments = [_value(axes) for axes in (ragged, dense, ("m", "k"), ("k",))]
    try:
        expected = structir.interpret(program, "main", *arguments)
    except structir.errors.StructIRError:  # such as an unknown rank
        assert stated in ("rank", "axes", "rows")
        structir.infer(program)
        return
    inferred = structir.infer(program)
    actual = structir.interpret(inferred, "main", *arguments)
    assert str(inferred["main"].params[2].struct_info).startswith("R.Tensor((m,")
    for first, second in zip(expected, actual, strict=True):
        assert type(first) is type(second)
        values = [getattr(each, "values", each) for each in (first, second)]
        np.testing.assert_array_equal(*values)
