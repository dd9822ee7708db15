"""Macros are helpers whose statements are parsed in place of each call, in a scope of their own."""

import numpy as np
import pytest

import structir
from structir.errors import DiagnosticError, StructIRError
from structir.script import I, R, T

SCALE = 2.0


@R.macro
def linear(x, w, bias=None, *, act=None):
    y = R.matmul(x, w)
    if bias is not None:
        y = R.add(y, bias)
    return y if act is None else act(y)


@R.macro
def scaled(x):
    """Multiplies by the SCALE of this file."""
    return R.multiply(x, SCALE)


def equal(function, body, info='R.Tensor(("n", 4), "float32")'):
    text = f"@R.function\ndef main(x: {info}, w: R.Tensor((4, 4), 'float32')):\n    n = T.int64()\n"
    module = structir.parse(text + "".join(f"    {line}\n" for line in body.splitlines()))
    assert structir.structural_equal(structir.parse(str(function))["main"], function)
    return structir.structural_equal(function, module["main"])


def test_a_call_is_the_statements_of_the_macro():
    @R.function
    def main(x: R.Tensor(("n", 4), "float32"), w: R.Tensor((4, 4), "float32")):
        y = linear(x, w, act=R.exp)
        return linear(scaled(y), w, R.const([1.0, 2.0, 3.0, 4.0], "float32"))

    literal = "y = R.matmul(x, w)\ny = R.exp(y)\nz = y * 2.0\nz = R.matmul(z, w)\n"
    assert equal(main, literal + "return R.add(z, R.const([1.0, 2.0, 3.0, 4.0], 'float32'))")


def test_names_of_a_macro_and_of_its_caller_are_separate():
    @R.macro
    def both(y):
        x = R.exp(y)
        n = R.log(x)
        return n, x

    @R.function
    def main(x: R.Tensor(("n", 4), "float32"), w: R.Tensor((4, 4), "float32")):
        n = T.int64()
        SCALE = R.sin(x)
        with R.dataflow():
            y, z = both(x)
            u = R.reshape(scaled(R.add(y, z)), (n * 4,))
            R.output(u)
        return u, SCALE

    literal = "s = R.sin(x)\nwith R.dataflow():\n    a = R.exp(x)\n    b = R.log(a)\n"
    literal += "    t = (b, a)\n    y = t[0]\n    z = t[1]\n    c = (y + z) * 2.0\n"
    literal += "    u = R.reshape(c, (n * 4,))\n    R.output(u)\nreturn u, s"
    x, w = np.ones((2, 4), "float32"), np.ones((4, 4), "float32")
    results = structir.compile(main)["main"](x, w)
    np.testing.assert_allclose(results[0], np.full(8, 2 * (1 + np.e)), rtol=1e-6)
    np.testing.assert_allclose(results[1], np.sin(x), rtol=1e-6)


def test_dims_of_a_macro_are_its_own_and_dims_of_python_those_of_the_function():
    rows = T.dynamic("rows")

    @R.macro
    def selected(x):
        m = T.int64()
        y = R.match_cast(R.nonzero(x), R.Tensor((2, m), "int64"))
        return R.reshape(y, (2 * m,))

    @R.macro
    def flat(x):
        return R.reshape(x, (rows * 4,))

    @R.function
    def main(x: R.Tensor((rows, 4), "float32")):
        m = T.int64()
        z = R.match_cast(R.exp(x), R.Tensor((m, 4), "float32"))
        return selected(x), selected(z), flat(x)

    dims = {b.var.struct_info.dims[0] for b in main.bindings() if b.var.struct_info.ndim == 1}
    assert len(dims) == 3 and main.params[0].struct_info.dims[0] * 4 in dims
    results = structir.interpret(
        structir.ir.IRModule({"main": main}), "main", np.eye(4, dtype="float32")
    )
    assert [result.shape for result in results] == [(8,), (32,), (16,)]


def test_macros_of_a_text_and_of_a_class():
    text = """@R.macro
def twice(x, factor=2.0):
    return cls_free(x) * factor


@R.macro
def cls_free(x):
    return R.exp(x)


@R.function
def main(x: R.Tensor(("n", 4), "float32"), w: R.Tensor((4, 4), "float32")):
    return twice(x)
"""
    assert equal(structir.parse(text)["main"], "return R.exp(x) * 2.0")

    @I.ir_module
    class Module:
        @R.macro
        def twice(x):
            return R.add(x, x)

        @R.function
        def main(x: R.Tensor(("n", 4), "float32"), w: R.Tensor((4, 4), "float32")):
            return scaled(twice(x))

    assert list(Module.functions) == ["main"]
    assert equal(Module["main"], "y = x + x\nreturn y * 2.0")


def test_a_macro_may_return_nothing_sizes_and_functions():
    @R.macro
    def log(x):
        R.call_packed("log", x)

    @R.macro
    def halves(size):
        return size // 2

    @R.function(pure=False)
    def main(x: R.Tensor(("n", 4), "float32"), w: R.Tensor((4, 4), "float32")):
        n = T.int64()
        log(x)
        return R.reshape(x, (n * 2, halves(4)))

    assert main.ret_struct_info.dims[1] == 2


def test_arguments_may_be_spread_and_literals_of_a_macro_are_sizes():
    weights = {"w": R.const([1.0, 2.0, 3.0, 4.0], "float32"), "bias": None}

    @R.macro
    def scaled_by(x, w, bias, rows):
        half, columns = 2, 2
        y = R.multiply(x, w)
        y = y if bias is None else R.add(y, bias)
        return R.reshape(y, (rows, columns, half))

    @R.function
    def main(x: R.Tensor(("n", 4), "float32"), w: R.Tensor((4, 4), "float32")):
        n = T.int64()
        return scaled_by(x, **weights, rows=n)

    assert main.ret_struct_info.dims[1:] == (2, 2)

    @R.macro
    def summed(x, y, z):
        return R.add(R.add(x, y), z)

    @R.function
    def spread(x: R.Tensor(("n", 4), "float32"), w: R.Tensor((4, 4), "float32")):
        return summed(x, *[R.exp(x), R.log(x)])

    assert equal(spread, "a = R.exp(x)\nb = R.log(x)\nc = R.add(x, a)\nreturn R.add(c, b)")


def error_of(text, **constants):
    with pytest.raises(DiagnosticError) as caught:
        structir.parse(text, constants=constants)
    return caught.value.diagnostics


HEADER = "@R.function\ndef main(x: R.Tensor(('n', 4), 'float32')):\n    return "


@pytest.mark.parametrize(
    ("macro", "call", "code", "message"),
    [
        ("def m(x):\n    return m(x)", "m(x)", "E0112", "m -> m"),
        ("def m(x):\n    return R.exp(k(x))", "m(x)", "E0112", "m -> k -> m"),
        ("def m(x):\n    return x", "m()", "E0106", "missing argument `x`"),
        ("def m(x):\n    return x", "m(x, x)", "E0106", "at most 1 arguments by position"),
        ("def m(x):\n    return x", "m(x, y=x)", "E0106", "unexpected keyword argument `y`"),
        ("def m(x):\n    return x", "m(x, x=x)", "E0106", "unexpected keyword argument `x`"),
        ("def m(*x):\n    return x", "m(x)", "E0124", "`*x` is not supported"),
        ("def m(x):\n    return x + n", "m(x)", "E0102", "`n` is not defined"),
        ("def m(x):\n    y = z\n    return y", "m(x)", "E0102", "`z` is not defined"),
        ("def m(x=len):\n    return x", "m(x)", "E0124", "as a default, found len"),
        ("def m(x):\n    for i in x:\n        pass", "m(x)", "E0103", "`for` is not supported"),
    ],
)
def test_a_wrong_macro_or_call_is_one_error(macro, call, code, message):
    text = f"@R.macro\n{macro}\n\n@R.macro\ndef k(x):\n    return m(x)\n\n{HEADER}{call}\n"
    (diagnostic,) = error_of(text)
    assert diagnostic.code == code and message in diagnostic.message and diagnostic.hint


def test_an_error_in_a_macro_has_its_location_and_those_of_the_calls():
    text = "@R.macro\ndef inner(x):\n    return R.squeeze(x, [1])\n\n"
    text += "@R.macro\ndef outer(x):\n    return inner(x)\n\n" + HEADER + "outer(x)\n"
    (diagnostic,) = error_of(text)
    assert diagnostic.span.line == 3
    notes = {note.text: note.span.line for note in diagnostic.notes if "macro" in note.text}
    assert notes == {"in this call of the macro inner": 7, "in this call of the macro outer": 11}


def test_an_error_in_a_macro_of_another_file_names_the_file():
    (diagnostic,) = error_of(HEADER + "linear(x, R.const([1.0]))\n", linear=linear)
    assert diagnostic.span.source.filename == __file__


def test_nested_macros_that_expand_exponentially_are_one_error():
    macros = [f"@R.macro\ndef m{k}(x):\n    return m{k - 1}(m{k - 1}(x))\n" for k in range(1, 40)]
    text = "@R.macro\ndef m0(x):\n    return R.exp(x)\n" + "".join(macros)
    assert error_of(text + HEADER + "m39(x)\n")[0].code == "E0109"


def test_a_macro_is_not_a_function_of_python():
    with pytest.raises(StructIRError, match="expanded in programs only"):
        scaled(1.0)


def test_a_macro_has_no_other_option():
    with pytest.raises(DiagnosticError, match="expected no option"):

        @R.macro(hygienic=False)
        def open_macro(x):
            return x

    @R.macro(hygienic=True)
    def closed(x):
        return x
