"""numba is imported only for kernels of other packages that are Python functions over arrays."""

import subprocess
import sys

import pytest

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

x = np.linspace(-1, 1, 6).reshape(2, 3).astype(sys.argv[2])
result = structir.compile(structir.parse(sys.argv[1]))["main"](x)
np.testing.assert_allclose(result, eval(sys.argv[3]), rtol=1e-5)
print("numba" in sys.modules)
"""
HEAD = """
@R.function
def main(x: R.Tensor(("n", 3), "{dtype}")):
    return {result}
"""
CASES = [
    ("float32", "R.exp(R.matmul(x, R.permute_dims(x)))", "np.exp(x @ x.T)", "False"),
    ("float64", "R.linalg.qr(x)[0]", "np.linalg.qr(x)[0]", "False"),  # allocates arrays
    ("float32", "R.doubled(x)", "2 * x", "True"),  # declared above
]


@pytest.mark.parametrize(("dtype", "result", "expected", "loaded"), CASES)
def test_kernels_without_numba(dtype, result, expected, loaded, monkeypatch):
    monkeypatch.setenv("STRUCTIR_CACHE", "off")
    monkeypatch.setenv("STRUCTIR_NUM_THREADS", "2")
    source = HEAD.format(dtype=dtype, result=result)
    command = [sys.executable, "-c", PROGRAM, source, dtype, expected]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.stdout.strip() == loaded, run.stderr
