"""The float32 functions inside a loop become vector code, tables and all."""

import re

import llvmlite.binding as llvm
import pytest

from structir.backend.cpu import kernels
from structir.backend.cpu.scalars import helpers
from structir.ir.scalar_functions import declared

SCALAR = ("erfc", "of_test")  # of the C library, and of other tests
SINGLE = {n: f for n, f in declared().items() if f.single is not None and not n.endswith(SCALAR)}
VECTOR = re.compile(r"store <\d+ x (float|i32)>")


@pytest.mark.skipif("avx2" not in dict(llvm.get_host_cpu_features()), reason="code for x86-64")
@pytest.mark.parametrize("name", [*SINGLE, "floor_quotient", "remainder"])
def test_becomes_vectors(name: str) -> None:
    args = "x[i], y[i]" if name not in SINGLE or SINGLE[name].count == 2 else "x[i]"
    text = f"""def kernel(a, lo, hi):
    x = float32_pointer(a[0])
    y = float32_pointer(a[1])
    for i in range(lo, hi):
        y[i] = {name}_float32({args})
"""
    symbol = f"vectors_of_{name}"
    library = kernels.translated_library(text, symbol, kernels.NAMES | helpers())
    assert library.get_pointer_to_function(symbol)
    assert VECTOR.search(library.get_llvm_str())
