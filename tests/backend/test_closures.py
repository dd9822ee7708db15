"""Functions within functions, called again and again by loops: what is checked once stays right."""

import numpy as np
import pytest

import structir
from structir.errors import ShapeMismatchError
from tests.backend.agreement import assert_agree

LOOP = """
@R.function
def main(x: R.Tensor(("n", "m"), "float32"), trips: R.Tensor((), "int64")):
    n, m = T.int64(), T.int64()
    w = R.exp(x)
    @R.function
    def body(step: R.Tensor((), "int64"), going: R.Tensor((), "bool"),
             h: R.Tensor(dtype="float32", ndim=2)):
        s = R.match_cast(h, R.Tensor((n, m), "float32"))
        row = R.take(w, R.const(0, "int64"), axis=0)
        new = R.tanh(s + row)
        return (R.const(True, "bool"), new, R.sum(new, axis=1))
    none = R.zeros((0, 0), dtype="float32")
    made = R.call_pure_packed("loop.iterate", body, trips, R.const(True, "bool"), (x,), (none,),
        sinfo_args=[R.Tensor(dtype="float32", ndim=2), R.Tensor(dtype="float32", ndim=2)])
    return made
"""


def test_a_body_runs_at_all_sizes():
    module = structir.parse(LOOP)
    executable = structir.compile(module)
    for n, m, trips in ((2, 3, 4), (4, 1, 1), (2, 3, 6)):
        x = np.random.default_rng(n).standard_normal((n, m)).astype("float32")
        given = (x, np.array(trips))
        wanted = structir.interpret(module, "main", *given)
        assert_agree(wanted, executable["main"](*given), str(given))


def test_a_state_that_changes_its_shape_is_refused_when_it_does():
    grown = LOOP.replace("new = R.tanh(s + row)", "new = R.concat((s, s), axis=0)")
    executable = structir.compile(structir.parse(grown))
    x = np.zeros((2, 3), "float32")
    executable["main"](x, np.array(1))
    with pytest.raises(ShapeMismatchError):
        executable["main"](x, np.array(2))
