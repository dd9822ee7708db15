"""Powers of infinities and signed zeros: those of IEEE 754, on every path."""

from functools import partial

import numpy as np
import pytest

import structir

SOURCE = """
@I.ir_module
class Module:
    @I.kernel
    def powers(
        x: R.Tensor(("n",), "DTYPE"), y: R.Tensor((), "DTYPE"), out: R.Tensor(("n",), "DTYPE")
    ):
        for i in range(n):
            out[i] = x[i] ** y[()]

    @R.function
    def main(x: R.Tensor(("n",), "DTYPE"), y: R.Tensor((), "DTYPE"), z: R.Tensor(("n",), "DTYPE")):
        n = T.int64()
        kernel = R.call_kernel(cls.powers, (x, y), out_sinfo=R.Tensor((n,), "DTYPE"))
        return x**EXPONENT, x**y, x**z, R.reshape(x, (n, 1)) ** R.reshape(y, (1, 1)), kernel
"""
INF = np.inf
X = (-INF, -0.0, 0.0, 4.0, INF)
EXPECTED = {
    0.5: (INF, 0.0, 0.0, 2.0, INF),
    -0.5: (0.0, INF, INF, 0.5, 0.0),
    2.0: (INF, 0.0, 0.0, 16.0, INF),
    3.0: (-INF, -0.0, 0.0, 64.0, INF),
    -1.0: (-0.0, -INF, INF, 0.25, 0.0),
    0.0: (1.0, 1.0, 1.0, 1.0, 1.0),
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("exponent", EXPECTED)
def test_powers_of_infinities_and_zeros(dtype, exponent):
    module = structir.parse(SOURCE.replace("DTYPE", dtype).replace("EXPONENT", str(exponent)))
    y = np.asarray(exponent, dtype)
    for run in (structir.compile(module)["main"], partial(structir.interpret, module, "main")):
        for k, result in enumerate(run(np.array(X, dtype), y, np.full(5, y))):
            values = np.ravel(result).tolist()
            assert list(map(str, values)) == list(map(str, EXPECTED[exponent])), (run, k)
