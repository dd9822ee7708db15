"""The vector forms of functions become vector code inside a loop."""

import re

import pytest
from numba import types

from structir.ir.scalar_functions import declared
from structir.targets.cpu.features import cpu_features
from structir.targets.cpu.scalars import helpers
from structir.targets.cpu.translated import translate_c_function
from tests.runtime.python_functions import POINTER, WORD, over_elements

SINGLE = {
    name: function
    for name, function in declared().items()
    if function.single is not None and not name.endswith("of_test")  # of other tests
}
VECTOR = re.compile(r"store <\d+ x (float|i32)>")


@pytest.mark.skipif("avx2" not in cpu_features(), reason="code for x86-64 with AVX2")
@pytest.mark.parametrize("name", [*SINGLE, "floor_quotient", "remainder"])
def test_becomes_vectors(name: str) -> None:
    arity = 1 if name in SINGLE and SINGLE[name].count == 1 else 2
    mapped = over_elements(helpers()[f"{name}_float32"], arity)
    pointer, symbol = POINTER(types.float32), f"vectors_of_{name}"
    library = translate_c_function(mapped, symbol, types.void(pointer, pointer, WORD, WORD))
    assert library.get_pointer_to_function(symbol)
    assert VECTOR.search(library.get_llvm_str())
