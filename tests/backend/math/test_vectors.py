"""The vector forms of functions become vector code inside a loop."""

import re

import pytest

from structir.backend.cpu import kernels
from structir.backend.cpu.features import cpu_features
from structir.backend.cpu.scalars import helpers
from structir.ir.scalar_functions import declared

SINGLE = {
    name: function
    for name, function in declared().items()
    if function.single is not None and not name.endswith("of_test")  # of other tests
}
VECTOR = re.compile(r"store <\d+ x (float|i32)>")


@pytest.mark.skipif("avx2" not in cpu_features(), reason="code for x86-64 with AVX2")
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
    library = kernels.translate_library(text, symbol, kernels.NAMES | helpers())
    assert library.get_pointer_to_function(symbol)
    assert VECTOR.search(library.get_llvm_str())
