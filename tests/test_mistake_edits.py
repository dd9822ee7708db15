"""The edit that a help line suggests makes the program valid."""

import pytest

import structir
from structir.errors import DiagnosticError
from structir.script import R

HEAD = """@R.function
def main(
    x: R.Tensor(("n", 4), "float32"), w: R.Tensor((4, 3), "float32"), i: R.Tensor((5,), "int64"),
    j: R.Tensor((4,), "int64"),
    image: R.Tensor(("b", 3, 8, 8), "float32"), kernel: R.Tensor((2, 3, 3, 3), "float32"),
):
    n = T.int64()
"""
CASES = [  # a line, the edit in its help, the edited line
    ("y = R.reshape(x, 4, n)", "`R.reshape(x, (4, n))`", "y = R.reshape(x, (4, n))"),
    ("y = x.reshape(4, n)", "`R.reshape(x, (4, n))`", "y = R.reshape(x, (4, n))"),
    ("y = x.softmax(axis=1)", "`R.nn.softmax(x, axis=1)`", "y = R.nn.softmax(x, axis=1)"),
    ("y = R.reshape(x, (4, -1, -1))", "`(4, -1)`", "y = R.reshape(x, (4, -1))"),
    ("y = R.permute_dims(x, (0, 0))", "`axes=[1, 0]`", "y = R.permute_dims(x, axes=[1, 0])"),
    ("y = R.permute_dims(x, (0, 1, 2))", "`axes=[1, 0]`", "y = R.permute_dims(x, axes=[1, 0])"),
    ("y = R.sum(x, dim=1)", "`axis`", "y = R.sum(x, axis=1)"),
    ("y = R.sum(x, axis=1, keepdim=True)", "`keepdims`", "y = R.sum(x, axis=1, keepdims=True)"),
    (
        "y = R.take(x, [0, 1], axis=1)",
        '`R.const([0, 1], "int64")`',
        'y = R.take(x, R.const([0, 1], "int64"), axis=1)',
    ),
    ("y = R.take(x, 7, axis=1)", "from 0 to 3", "y = R.take(x, 3, axis=1)"),
    (
        "y = x + (1, 2, 3, 4)",
        '`R.const([1.0, 2.0, 3.0, 4.0], "float32")`',
        'y = x + R.const([1.0, 2.0, 3.0, 4.0], "float32")',
    ),
    ("y = R.astype(x, float16)", '`"float16"`', 'y = R.astype(x, "float16")'),
    ("y = R.astype(x, float)", '`"float32"`', 'y = R.astype(x, "float32")'),
    ("y = R.astype(x, np.float64)", '`"float64"`', 'y = R.astype(x, "float64")'),
    ("y: R.Tensor((n, 4), float32) = x", '`"float32"`', 'y: R.Tensor((n, 4), "float32") = x'),
    ("y = R.cast(x, 'int8')", '`R.astype(x, "int8")`', 'y = R.astype(x, "int8")'),
    ("y = R.astype(x, R.int8)", '`"int8"`', 'y = R.astype(x, "int8")'),
    ("y = x[x > 0]", "`R.where(x > 0, x, 0)`", "y = R.where(x > 0, x, 0)"),
    (
        "y = j[j > 0]",
        "`R.take(j, R.squeeze(R.nonzero(j > 0), axis=0), axis=0)`",
        "y = R.take(j, R.squeeze(R.nonzero(j > 0), axis=0), axis=0)",
    ),
    (
        "y = x; x[:, 1:3] = R.zeros((n, 2), 'float32')",
        "`x = R.slice_scatter(x, R.zeros((n, 2), 'float32'), 1, 3, axis=1)`",
        "y = R.slice_scatter(x, R.zeros((n, 2), 'float32'), 1, 3, axis=1)",
    ),
    (
        "y = x; x[i] = R.zeros((5, 4), 'float32')",
        "`x = R.index_put(x, (i,), R.zeros((5, 4), 'float32'))`",
        "y = R.index_put(x, (i,), R.zeros((5, 4), 'float32'))",
    ),
    ("y = R.zeros((n, -1), 'int8')", "at least 0 in place of -1", "y = R.zeros((n, 0), 'int8')"),
    ("y = R.arange(0, n, 0)", "`step=1`", "y = R.arange(0, n, step=1)"),
    ("y = R.repeat(x, -2)", "`repeats=1`", "y = R.repeat(x, repeats=1)"),
    (
        "y = R.strided_slice(x, [0, 1], begin=[0], end=(9, 9))",
        "`begin=(0, 0)`",
        "y = R.strided_slice(x, [0, 1], begin=(0, 0), end=(9, 9))",
    ),
    (
        "y = R.gather_elements(x, j, axis=0)",
        "`R.expand_dims(j, axis=[0])`",
        "y = R.gather_elements(x, R.expand_dims(j, axis=[0]), axis=0)",
    ),
    (
        'y = R.scatter_elements(x, j, R.zeros((1, 4), "float32"))',
        "`R.expand_dims(j, axis=[0])`",
        'y = R.scatter_elements(x, R.expand_dims(j, axis=[0]), R.zeros((1, 4), "float32"))',
    ),
    (
        "y = R.nn.max_pool2d(x)",
        "`R.expand_dims(x, axis=[0, 1])`",
        "y = R.nn.max_pool2d(R.expand_dims(x, axis=[0, 1]))",
    ),
    (
        "y = R.nn.conv1d(image, kernel)",
        "`R.reshape(image, (-1, 1, 1))`",
        "y = R.reshape(image, (-1, 1, 1))",
    ),
    ("y = len(x) * x", "`x.shape[0]`", "y = x.shape[0] * x"),
    ("y = R.require('n > 0')", "`R.require('n > 0')`", "y = x; R.require('n > 0')"),
    (
        "y = R.call_pure_packed(f, x)",
        'quote the name: `"f"`',
        'y = R.call_pure_packed("f", x)',
    ),
    ("y = main(x)", "`main(a, b, c, d, e, f)`", "y = main(x, w, i, j, image, kernel)"),
    ("y = R.pad(x, (0, 0, 1, 1))", "did you mean `R.nn.pad`?", "y = R.nn.pad(x, (0, 0, 1, 1))"),
    ("y = R", "`R.exp(x)`", "y = R.exp(x)"),
]


@pytest.mark.parametrize(("line", "edit", "edited"), CASES, ids=[case[0] for case in CASES])
def test_the_edit_works(line, edit, edited):
    with pytest.raises(DiagnosticError) as caught:
        structir.parse(f"{HEAD}    {line}\n    return y\n")
    (diagnostic,) = caught.value.diagnostics
    assert edit in diagnostic.hint and diagnostic.span is not None
    structir.parse(f"{HEAD}    {edited}\n    return y\n")


@pytest.mark.parametrize(
    ("expression", "edit"),
    [
        ("T.min(x[i], 1.0)", "did you mean `min`?"),
        ("T.if_then_else(i > 0, x[i], 1.0)", "`x if i > 0 else y`"),
    ],
)
def test_functions_of_sizes_in_kernels(expression, edit):
    head = "@I.kernel\ndef f(x: R.Tensor(('n',), 'float32'), y: R.Tensor(('n',), 'float32')):\n"
    with pytest.raises(DiagnosticError) as caught:
        structir.parse(f"{head}    for i in range(n):\n        y[i] = {expression}\n")
    assert edit in caught.value.diagnostics[0].hint


@pytest.mark.parametrize("name", ["random.normal", "convolve", "require"])
def test_ops_that_resemble_no_other_are_not_guessed(name):
    with pytest.raises(DiagnosticError) as caught:
        structir.parse(f"{HEAD}    y = R.{name}(x)\n    return y\n")
    assert "did you mean" not in caught.value.diagnostics[0].hint


def test_unknown_ops_in_python():
    with pytest.raises(AttributeError, match=r"unknown op `R.expp`; did you mean `R.exp`"):
        _ = R.expp
    with pytest.raises(AttributeError, match="list the ops"):
        _ = R.isclose


def test_a_condition_shows_one_size():
    with pytest.raises(DiagnosticError) as caught:
        structir.parse(
            f"{HEAD}    y = R.nn.conv2d(image, R.zeros((2, 3, 9, 9), 'float32'))\n    return y\n"
        )
    message = caught.value.diagnostics[0].message
    assert message.endswith("found 0"), message


def test_the_parameters_of_an_op_on_whole_values_have_no_annotations():
    with pytest.raises(DiagnosticError) as caught:
        structir.parse(f"{HEAD}    y = R.scan(x)\n    return y\n")
    hint = caught.value.diagnostics[0].hint
    assert hint == "call it as `R.scan(cell, states, x, captured=())`"


@pytest.mark.parametrize("shape", ["(5, 5)", "(5, -1)"])
def test_a_reshape_to_another_number_of_elements(shape):
    with pytest.raises(DiagnosticError) as caught:
        structir.parse(f"{HEAD}    y = R.reshape(w, {shape})\n    return y\n")
    assert "12 elements in all: `(-1,)`" in caught.value.diagnostics[0].hint
    structir.parse(f"{HEAD}    y = R.reshape(w, (-1,))\n    return y\n")
