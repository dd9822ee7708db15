"""Kernels that call functions of the C library are the first ones of a process."""

import subprocess
import sys

import pytest

RUNS = """
import numpy as np
import structir
x = np.linspace(-1, 1, 7, dtype="float32")
text = '@R.function\\ndef main(x: R.Tensor(("n",), "float32")):\\n    return R.NAME(x)'
result = structir.compile(structir.parse(text))["main"](x)
np.testing.assert_allclose(result, np.NAME(x), rtol=1e-6)
"""


@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_the_first_kernel_of_a_process_finds_functions_of_c(name, monkeypatch):
    monkeypatch.setenv("STRUCTIR_CACHE", "off")
    subprocess.run([sys.executable, "-c", RUNS.replace("NAME", name)], check=True)
