"""Functions that only an attribute names: passes keep them, and their meaning."""

import numpy as np
import pytest

import structir
from structir.passes import Gradient, InlineFunctions, pipeline

ROUNDED = structir.parse("""
@I.ir_module
class Module:
    @R.function(private=True)
    def rounded(x: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32"):
        R.func_attr({"pullback": "rounded_pullback"})
        return R.round(x)

    @R.function(private=True)
    def rounded_pullback(x: R.Tensor(("n",), "float32"), dy: R.Tensor(("n",), "float32")):
        return dy

    @R.function(private=True)
    def doubled(x: R.Tensor(("n",), "float32")):
        return x + x

    @R.function
    def main(x: R.Tensor(("n",), "float32")):
        cls = Module
        y = cls.doubled(cls.rounded(x))
        return R.sum(y * y)
""")
COUNTING = structir.parse("""
@I.ir_module
class Counting:
    @R.function(private=True)
    def initial():
        return R.const(0.0, "float32")

    @R.function
    def main(x: R.Tensor(("n",), "float32"), total: R.Tensor((), "float32")):
        R.func_attr({"state": {"total": ("total", 1)}, "initial_state": "initial"})
        new_total = R.add(total, R.sum(x))
        return R.divide(x, new_total), new_total
""")
X = np.array([0.4, 1.6], "float32")


@pytest.mark.parametrize("passes", ["inline", "inline,dce", "dce{entries=main}", "simplify,inline"])
def test_a_declared_pullback_remains_the_gradient(passes):
    module = pipeline(passes)(ROUNDED)
    gradient = structir.compile(Gradient(function="main")(module))["main_adjoint"]
    np.testing.assert_array_equal(gradient(X)[1][0], [0, 16])


def test_other_functions_and_named_ones_are_inlined():
    assert [*InlineFunctions()(ROUNDED)] == ["rounded", "rounded_pullback", "main"]
    assert "cls.rounded(" not in InlineFunctions(functions="rounded")(ROUNDED)["main"].script()


@pytest.mark.parametrize("passes", ["dce", "dce{entries=main}", "inline,dce", "simplify,cse,dce"])
def test_a_state_keeps_its_initial_values(passes):
    state = structir.compile(pipeline(passes)(COUNTING)).state
    np.testing.assert_allclose(state["main"](X), X / 2, rtol=1e-6)


def test_a_missing_function_of_initial_values():
    functions = {"main": COUNTING["main"]}
    with pytest.raises(structir.errors.DiagnosticError, match="initial_state") as caught:
        structir.compile(COUNTING.with_functions(functions))
    assert "add a private function `initial()`" in caught.value.diagnostics[0].hint
