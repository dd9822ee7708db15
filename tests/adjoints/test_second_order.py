"""Gradients of gradients against differences: sines and squares of what comes back, added up."""

import numpy as np
import pytest

import structir
from structir import passes
from structir.ir import IRModule, structural_equal
from structir.passes import pipeline
from tests.adjoints.differences import assert_gradient

RNG = np.random.default_rng(7)
BODIES = [
    "R.sum(R.tanh(R.matmul(x, w)))",
    "R.sum(R.power(R.exp(x), R.const(3.0, 'float64')))",
    "R.sum(R.multiply(R.nn.softmax(R.matmul(x, w)), x))",
    "R.max(R.multiply(x, x), axis=0)",
    "R.sum(R.nn.layer_norm(R.matmul(w, w), x, x, axes=[-1]))",
    "R.mean(R.square(R.concat((R.flip(R.cumsum(x), axis=0), R.take(x, R.const([0], 'int64'))))))",
]


def twice(body: str) -> IRModule:
    """A function of the gradient of a function."""
    first = structir.parse(f"""
@R.function
def inner(x: R.Tensor((3,), "float64"), w: R.Tensor((3, 3), "float64")):
    return {body}
""")
    script = pipeline("grad{function=inner}")(first).script().rstrip()
    return structir.parse(f"""{script}

    @R.function
    def main(x: R.Tensor((3,), "float64"), w: R.Tensor((3, 3), "float64")):
        cls = Module
        r = cls.inner_adjoint(x, w)
        return R.add(R.sum(R.square(r[1][1])), R.sum(R.sin(r[1][0])))
""")


@pytest.mark.parametrize("body", BODIES)
def test_second_order(body: str) -> None:
    module = twice(body)
    with passes.PassContext([passes.VerifyIR()]):
        made = pipeline("inline,grad")(module)
    assert structural_equal(structir.parse(made.script()), made)
    assert_gradient(module, made, (RNG.standard_normal(3), RNG.standard_normal((3, 3))))


def test_third_order_of_a_cube() -> None:
    module = structir.parse("""
@R.function
def f0(x: R.Tensor((2,), "float64")):
    return R.sum(R.multiply(R.multiply(x, x), R.multiply(x, x)))
""")
    for order in range(3):
        module = pipeline(f"grad{{function=f{order} value_and_grad=false}},inline")(module)
        script = module.script().rstrip()
        module = structir.parse(f"""{script}

    @R.function
    def f{order + 1}(x: R.Tensor((2,), "float64")):
        cls = Module
        r = cls.f{order}_adjoint(x)
        return R.sum(r[0])
""")
    x = np.array([0.5, -2.0])
    np.testing.assert_allclose(structir.interpret(module, "f2", x), (12 * x**2).sum())
    np.testing.assert_allclose(structir.interpret(module, "f3", x), (24 * x).sum())
    np.testing.assert_allclose(structir.compile(module)["f3"](x), (24 * x).sum())
