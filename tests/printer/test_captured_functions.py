"""Programs call functions and kernels of other modules, which become private functions."""

import numpy as np
import pytest

import structir
from structir.errors import DiagnosticError
from structir.script import I, R, T


@I.ir_module
class Library:
    @R.function
    def exp(x: R.Tensor(("n", 4), "float32")):
        return R.exp(x)

    @R.function
    def exp_twice(x: R.Tensor(("n", 4), "float32")):
        return cls.exp(cls.exp(x))

    @R.function
    def power(x: R.Tensor((4,), "float32"), k: R.Tensor((), "int64")) -> R.Tensor((4,), "float32"):
        if R.greater(k, R.const(0)):
            y = cls.power(R.multiply(x, x), R.subtract(k, R.const(1)))
        else:
            y = x
        return y

    @I.kernel
    def doubled(x: R.Tensor(("n",), "float32"), out: R.Tensor(("n",), "float32")):
        for i in range(n):
            out[i] = x[i] * 2.0


@R.function
def log(x: R.Tensor(("n", 4), "float32")):
    return R.log(x)


FUNCTIONS = {"log": log}
X = np.linspace(1, 2, 8, dtype="float32").reshape(2, 4)


def test_captured_functions_become_private_functions_of_the_module():
    @I.ir_module
    class Module:
        @R.function
        def exp(x: R.Tensor(("n", 4), "float32")):
            return cls.main(x)

        @R.function
        def main(x: R.Tensor(("n", 4), "float32")):
            n = T.int64()
            y = Library["exp_twice"](log(log(x)))
            z = R.call_kernel(
                Library["doubled"],
                (R.reshape(y, (n * 4,)),),
                out_sinfo=R.Tensor((n * 4,), "float32"),
            )
            return R.reshape(z, (n, 4)) + FUNCTIONS["log"](x)

    assert set(Module.functions) == {"exp", "main", "exp_twice", "exp_1", "log", "doubled"}
    assert Module["exp_1"].attrs["private"] and "private" not in Module["exp"].attrs
    structir.analysis.check_well_formed(Module)
    assert structir.structural_equal(structir.parse(Module.script()), Module)
    with np.errstate(invalid="ignore", divide="ignore"):
        expected = 2 * np.exp(np.exp(np.log(np.log(X)))) + np.log(X)
    np.testing.assert_allclose(structir.compile(Module)["main"](X), expected, rtol=1e-5)


def test_captured_functions_are_local_to_a_function_outside_of_a_module():
    @R.function
    def main(x: R.Tensor(("n", 4), "float32")):
        with R.dataflow():
            y = Library["exp_twice"](log(x))
            R.output(y)
        return y

    assert structir.structural_equal(structir.parse(str(main))["main"], main)
    structir.analysis.check_well_formed(structir.ir.IRModule({"main": main}))
    np.testing.assert_allclose(structir.compile(main)["main"](X), np.exp(X), rtol=1e-5)


def test_a_captured_function_may_be_recursive():
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((4,), "float32")):
            return Library["power"](x, R.const(2))

    np.testing.assert_allclose(structir.compile(Module)["main"](X[0]), X[0] ** 4, rtol=1e-5)


def test_a_captured_function_is_a_value():
    @I.ir_module
    class Module:
        @R.function
        def step(s: R.Tensor((4,), "float32"), x: R.Tensor((4,), "float32")):
            return R.add(s, x), s

    step = Module["step"]

    @R.function
    def main(x: R.Tensor((3, 4), "float32")):
        return R.scan(step, (R.zeros((4,), "float32"),), x)

    rows = np.ones((3, 4), "float32")
    results = structir.compile(main)["main"](rows)
    np.testing.assert_allclose(results[1][:, 0], [0, 1, 2])


def test_the_name_of_a_captured_function_is_not_that_of_its_callee():
    exp = Library["exp_twice"]  # which calls the `exp` of its module
    with pytest.raises(DiagnosticError, match="calls `exp`, which is not captured"):

        @R.function
        def main(x: R.Tensor((2, 4), "float32")):
            return exp(x)


def error_of(body, **constants):
    text = f"@R.function\ndef main(x: R.Tensor(('n', 4), 'float32')):\n    return {body}\n"
    with pytest.raises(DiagnosticError) as caught:
        structir.parse(text, constants=constants)
    (diagnostic,) = caught.value.diagnostics
    return diagnostic


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("F(x)", "a captured function calls `exp`, which is not captured with it"),
        ("M['none'](x)", "`M` (IRModule) has no item 'none'"),
        ("M(x)", "cannot capture"),
        ("M['doubled'](x)", "called with R.call_kernel"),
    ],
)
def test_a_function_that_cannot_be_captured_is_one_error(body, message):
    diagnostic = error_of(body, F=Library["exp_twice"], M=Library)
    assert message in diagnostic.message and diagnostic.hint


def test_a_kernel_or_a_recursive_function_needs_a_module():
    kernel, power = Library["doubled"], Library["power"]
    with pytest.raises(DiagnosticError, match="captured function calls `power`"):

        @R.function
        def first(x: R.Tensor((4,), "float32")):
            return power(x, R.const(2))

    with pytest.raises(DiagnosticError, match="is recursive"):

        @R.function
        def second(x: R.Tensor((4,), "float32")):
            return Library["power"](x, R.const(2))

    with pytest.raises(DiagnosticError, match="is a kernel"):

        @R.function
        def main(x: R.Tensor((4,), "float32")):
            return R.call_kernel(kernel, (x,), out_sinfo=R.Tensor((4,), "float32"))


@R.function
def affine(
    x: R.Tensor(("n", 4), "float32"),
    scale: R.Tensor((), "float32") = 3.0,
    shift: R.Tensor((), "float32") = 1.0,
):
    return x * scale + shift


def test_captured_functions_take_arguments_by_keyword_and_have_defaults():
    library, half = {"affine": affine}, 0.5

    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor(("n", 4), "float32")):
            y = library["affine"](shift=2.0, x=x)
            return affine(affine(y), scale=half)

    @R.function
    def main(x: R.Tensor(("n", 4), "float32")):
        return affine(scale=2.0, x=affine(x))

    assert np.allclose(structir.interpret(Module, "main", X), ((3 * X + 2) * 3 + 1) / 2 + 1)
    assert np.allclose(structir.interpret(main, "main", X), (3 * X + 1) * 2 + 1)
    assert str(structir.parse(str(Module))) == str(Module)
    assert str(structir.parse(str(main))["main"]) == str(main)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("affine(x, scales=2.0)", "unexpected keyword argument `scales`"),
        ("affine(x, x=x)", "parameter `x`: expected one argument, found two"),
        ("affine(scale=2.0)", "missing `x`"),
        ("affine(x, scale=True, shift='a')", "argument 2: expected R.Tensor"),
        ("affine(x, 1, 2, 3)", "expected 3 arguments, found 4"),
    ],
)
def test_a_wrong_argument_of_a_captured_function_is_one_error(call, message):
    diagnostic = error_of(call, affine=affine)
    assert message in diagnostic.message


@pytest.mark.parametrize(("number", "is_exact"), [(2, True), (2.5, False), (1 << 40, False)])
def test_a_number_is_a_constant_of_the_dtype_of_a_scalar_parameter(number, is_exact):
    text = f"""
@I.ir_module
class Module:
    @R.function(private=True)
    def repeat(x: R.Tensor(("n",), "float32"), k: R.Tensor((), "int32")):
        return R.multiply(x, R.astype(k, "float32"))

    @R.function
    def main(x: R.Tensor(("n",), "float32")):
        return cls.repeat(x, {number})
"""
    if is_exact:
        assert 'cls.repeat(x, R.const(2, "int32"))' in str(structir.parse(text))
    else:
        with pytest.raises(DiagnosticError, match="argument 1: expected"):
            structir.parse(text)
