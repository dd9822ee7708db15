"""Exits of unrolled loops, and names of literals and sizes."""

import pytest

import structir
from structir.errors import DiagnosticError

HEADER = """@R.function
def main(x: R.Tensor(("n", 4), "float32")):
    n = T.int64()
"""


def parsed(body):
    return structir.parse(HEADER + "".join(f"    {line}\n" for line in body.splitlines()))


def error_of(body):
    with pytest.raises(DiagnosticError) as caught:
        parsed(body)
    (diagnostic,) = caught.value.diagnostics
    return diagnostic


def same(body, expected):
    module = parsed(body)
    assert structir.structural_equal(module, parsed(expected))
    assert structir.structural_equal(structir.parse(module.script()), module)


def test_break_continue_and_else_of_an_unrolled_loop_are_those_of_python():
    loop = """y = x
for i in range(5):
    if i == 1:
        continue
    if i == {last}:
        break
    y = y * float(i)
else:
    y = R.exp(y)
return y"""
    same(loop.format(last=3), "y = x\ny = y * 0.0\ny = y * 2.0\nreturn y")
    unbroken = "y = x\ny = y * 0.0\ny = y * 2.0\ny = y * 3.0\ny = y * 4.0\ny = R.exp(y)\nreturn y"
    same(loop.format(last=9), unbroken)


def test_break_leaves_the_innermost_loop_and_return_the_function():
    nested = """y = x
for i in range(3):
    for j in range(3):
        if j > i:
            break
        y = y * float(10 * i + j)
    else:
        return R.exp(y)
return y"""
    calls = "".join([f"y = y * {number}.0\n" for number in (0, 10, 11, 20, 21, 22)])
    same(nested, f"y = x\n{calls}return R.exp(y)")


def test_a_loop_in_a_dataflow_block_or_a_macro_has_its_own_exits():
    block = """with R.dataflow():
    y = x
    for i in range(3):
        if i == 1:
            break
        y = R.exp(y)
    z = R.log(y)
    R.output(z)
return z"""
    plain = "    y = x\n    y = R.exp(y)\n    z = R.log(y)\n    R.output(z)\nreturn z"
    plain = f"with R.dataflow():\n{plain}"
    same(block, plain)
    text = """
@R.macro
def power(x, count):
    for i in range(9):
        if i == count:
            return x
        x = R.multiply(x, x)

@R.function
def main(x: R.Tensor(("n", 4), "float32")):
    for i in range(3):
        x = power(x, i)
        if i == 1:
            break
    return x
"""
    names = [binding.value.op.name for binding in structir.parse(text)["main"].bindings()]
    assert names == ["multiply"]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("break\nreturn x", "`break` is not supported in @R.function"),
        ("for i in range(2):\n    if R.sum(x) > 0.0:\n        break\nreturn x", "over values of"),
        (
            "for i in range(2):\n    if R.sum(x) > 0.0:\n        y = x\n    else:\n"
            "        continue\nreturn x",
            "`continue`: expected a condition over values of Python",
        ),
        (
            "for i in range(2):\n    with R.dataflow():\n        y = R.exp(x)\n        break\n"
            "        R.output(y)\nreturn x",
            "`break` is not supported",
        ),
        (
            "for i in range(2):\n    @R.function\n    def f(z: R.Object):\n        continue\n"
            "        return z\nreturn x",
            "`continue` is not supported",
        ),
        ("while True:\n    y = x\nreturn y", "`while` is not supported"),
        ("if n > 4:\n    return x\nreturn x", "expected an `else` branch"),
    ],
)
def test_an_exit_at_run_time_is_one_error(body, message):
    diagnostic = error_of(body)
    assert message in diagnostic.message and diagnostic.hint


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("h = 8\nreturn R.zeros((h, 4), 'float32')", "return R.zeros((8, 4), 'float32')"),
        ("h, w = 2, 2\nreturn R.reshape(x, (-1, h, w))", "return R.reshape(x, (-1, 2, 2))"),
        ("s = (8, 4)\nreturn R.ones(s, 'int8')", "return R.ones((8, 4), 'int8')"),
        ("axis = -1\nreturn R.sum(x, axis=axis)", "return R.sum(x, axis=-1)"),
        ("h = 8\nk = h // 2 + 1\nreturn R.ones((k,), 'int8')", "return R.ones((5,), 'int8')"),
        ("h = 2\nreturn R.multiply(x, h)", "return R.multiply(x, 2)"),
        ("h = 2\nreturn x, h", "return x, 2"),
        ("m = 2 * n\nreturn R.zeros((m, 4), 'int8')", "return R.zeros((2 * n, 4), 'int8')"),
        ("s = (n, 4)\na, b = s\nreturn R.ones((b, a), 'int8')", "return R.ones((4, n), 'int8')"),
        ("a, b = n, n + 1\nreturn R.ones((a, b), 'int8')", "return R.ones((n, n + 1), 'int8')"),
        (
            "m = n\ny: R.Tensor((m, 4), 'float32') = R.exp(x)\nm = 3\n"
            "z: R.Tensor((m,), 'int8') = R.ones((m,), 'int8')\nreturn y, z",
            "y = R.exp(x)\nz = R.ones((3,), 'int8')\nreturn y, z",
        ),
        (
            "with R.dataflow():\n    k = 2\n    y = R.add(x, k)\n    R.output(y, k)\nreturn y, k",
            "with R.dataflow():\n    y = R.add(x, 2)\n    R.output(y)\nreturn y, 2",
        ),
    ],
)
def test_a_name_of_a_literal_or_a_size_means_the_literal(body, expected):
    same(body, expected)


def test_an_annotated_literal_and_an_empty_tuple_are_values_of_the_program():
    annotated = 'h: R.Prim("int64") = 8\nreturn h', 'h: R.Prim("int64")\nh = 8\nreturn h'
    for body in (*annotated, "h = ()\nreturn h"):
        (binding,) = parsed(body)["main"].bindings()
        assert binding.var.name == "h"


@pytest.mark.parametrize("head", ["while R.sum(x) > 0.0:", "for i in x:"])
def test_a_loop_is_an_error_of_the_function_and_not_of_an_op_in_it(head):
    assert error_of(f"{head}\n    y = R.exp(x)\nreturn y").op == "main"
