"""The vector forms of functions become vector code inside a loop."""

import re

import pytest

from structir.ir.scalar_functions import declared
from structir.targets.cpu.features import cpu_features
from structir.targets.cpu.kinds import INDEX, NOTHING
from structir.targets.cpu.scalars import helpers
from tests.runtime.python_functions import optimized, over_elements

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
    loop = over_elements(helpers()[f"{name}_float32"], arity)
    arrays = ["float32*"] * (arity + 1)
    assert VECTOR.search(optimized(loop, NOTHING, *arrays, INDEX, INDEX))
