"""numba is imported only for kernels of other packages that are Python functions over arrays."""

import subprocess
import sys

PROGRAM = """
import sys
from typing import Any
import numpy as np
import structir
Array = Any

@structir.op("x[*s, [i]] @ F -> y[*s, [i]] @ F")
def doubled(x: Any) -> Array:
    return 2 * x

@doubled.kernel("cpu")
def _(x, y):
    for k in range(len(x)):
        y[k] = 2 * x[k]

for source, dtype, expected in eval(sys.argv[1]):
    x = np.linspace(-1, 1, 6).reshape(2, 3).astype(dtype)
    result = structir.compile(structir.parse(source))["main"](x)
    np.testing.assert_allclose(result, eval(expected), rtol=1e-5)
    print("numba" in sys.modules)
"""
HEAD = """
@R.function
def main(x: R.Tensor(("n", 3), "{dtype}")):
    return {result}
"""
CASES = [
    ("float32", "R.exp(R.matmul(x, R.permute_dims(x)))", "np.exp(x @ x.T)"),
    ("float64", "R.linalg.qr(x)[0]", "np.linalg.qr(x)[0]"),  # allocates arrays
    ("float32", "R.doubled(x)", "2 * x"),  # declared above: numba compiles it
]


def test_kernels_without_numba(monkeypatch):
    monkeypatch.setenv("STRUCTIR_CACHE", "off")
    monkeypatch.setenv("STRUCTIR_NUM_THREADS", "2")
    cases = [(HEAD.format(dtype=t, result=result), t, expected) for t, result, expected in CASES]
    command = [sys.executable, "-c", PROGRAM, repr(cases)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.stdout.split() == ["False", "False", "True"], run.stderr
