"""Proofs that an index is in bounds account for integers that wrap around."""

import numpy as np
import pytest

import structir
from structir.errors import DiagnosticError
from structir.interpret.kernels import KernelValue, run_kernel
from structir.loops.emit.code import code_of
from structir.runtime.kernel_calls import KernelRunner


def kernel(body):
    return structir.parse(f"""
@I.kernel
def f(x: R.Tensor(("n",), "int64"), k_: R.Prim("int64", value="k"), out: R.Tensor(("n",), "int64")):
    {body}
""")["f"]


@pytest.mark.parametrize("index", ["i", "n - 1 - i", "(i + 5) - 5", "(i + k) - k"])
def test_proved_indices_are_not_checked(index):
    code = code_of(kernel(f"for i in range(n):\n        out[i] = x[{index}]"))
    assert not code.sites


@pytest.mark.parametrize("index", ["(i * 4 + k * 4) // 4 - k", "(i + k) // 1 - k", "i * 2 // 2"])
def test_a_proof_accounts_for_overflow(index):
    code = code_of(kernel(f"for i in range(n):\n        out[i] = x[{index}]"))
    assert code.sites


@pytest.mark.parametrize("run", [run_kernel, KernelRunner()])
def test_a_name_that_a_loop_counts_again_has_no_fixed_value(run):
    body = """j = 0
    for i in range(2):
        out[i] = x[j]
        for j in range(100):
            out[i] += 1"""
    value, x = KernelValue(kernel(body), run), np.arange(8)
    with pytest.raises(DiagnosticError, match="index 99 is out of range"):
        value(x, 1, np.zeros(8, "int64"))


def test_the_step_of_a_range_is_an_int64():
    with pytest.raises(DiagnosticError, match=f"range: expected a step of int64, found {2**63}"):
        kernel(f"for i in range(0, n, {2**63}):\n        out[i] = 0")
