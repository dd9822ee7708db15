"""The interpreter that releases values after their last use."""

import weakref

import numpy as np
import pytest

import structir
from structir.errors import StructIRError
from structir.interpret.early_release import ReleasingInterpreter, dead_variables
from structir.interpret.interpreter import Interpreter
from structir.tools.comparison import require_agreement, result
from structir.tools.generate import random_arguments, random_module

PROGRAM = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n",), "float32"), c: R.Tensor((), "bool")):
        a = R.add(x, x)
        b = R.exp(a)
        pair = (a, b)

        @R.function
        def scaled(y: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32"):
            return R.multiply(y, b)

        d = R.negative(a)
        if c:
            e = R.abs(d)
            f = scaled(e)
        else:
            g = R.sqrt(R.abs(d))
            f = R.add(g, pair[0])
        unused = R.exp(f)
        h = cls.helper(f, 3)
        return R.add(h, scaled(x))

    @R.function
    def helper(x: R.Tensor(("n",), "float32"), k: R.Prim("int64")) -> R.Tensor(("n",), "float32"):
        y = R.add(x, x)
        return R.subtract(y, x)
"""


@pytest.mark.parametrize("condition", [False, True])
def test_the_results_of_branches_functions_and_tuples(condition):
    module = structir.parse(PROGRAM)
    args = (np.arange(5, dtype=np.float32), np.array(condition))
    expected = Interpreter(module).global_function("main")(*args)
    np.testing.assert_array_equal(
        ReleasingInterpreter(module).global_function("main")(*args), expected
    )


def test_values_are_released_after_their_last_use():
    module = structir.parse(PROGRAM)
    function = module["main"]
    dead = {v.name for variables in dead_variables(function).values() for v in variables}
    assert {"d", "unused", "pair", "f"} <= dead
    assert "b" not in dead  # `scaled` reads it later

    class Recording(ReleasingInterpreter):
        __slots__ = ()

        def _bind(self, binding, value, scope):
            if isinstance(value, np.ndarray):
                references[binding.var.name] = weakref.ref(value)
            alive[binding.var.name] = {n for n, r in references.items() if r() is not None}
            super()._bind(binding, value, scope)

    references, alive = {}, {}
    Recording(module).global_function("main")(np.ones(5, np.float32), np.array(False))
    assert {"d", "g"}.isdisjoint(alive["unused"])
    assert "b" in alive["h"]


@pytest.mark.parametrize("seed", range(60))
def test_random_programs_have_the_same_results(seed):
    module = random_module(seed, 4)
    arguments = random_arguments(module["main"], seed)
    expected = result(Interpreter(module).global_function("main"), arguments)
    actual = result(ReleasingInterpreter(module).global_function("main"), arguments)
    assert isinstance(expected, StructIRError) == isinstance(actual, StructIRError)
    if not isinstance(expected, StructIRError):
        require_agreement(module, "main", arguments, expected, actual)
