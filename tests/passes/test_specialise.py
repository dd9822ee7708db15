"""Copies for particular sizes, selected at run time."""

import numpy as np
import pytest

import structir
from structir.errors import StructIRError
from structir.ir import IRModule, structural_equal
from structir.passes import PassContext, VerifyIR, VerifyResults, pipeline

DISPATCHED = 'specialise{sizes="n=4 m=3; m=2" dispatch=true}'


@pytest.fixture
def module() -> IRModule:
    return structir.parse("""
@R.function
def main(x: R.Tensor(("n", "m"), "float32"), y: R.Tensor(("m",), "float32")):
    a = R.exp(x)
    b = R.add(a, y)
    return (b, R.sum(b))


@R.function
def caller(x: R.Tensor(("k", 2), "float32"), y: R.Tensor((2,), "float32")):
    r = main(x, y)
    return r[1]
""")


def test_the_first_copy_for_the_sizes_is_called(module: IRModule) -> None:
    with PassContext([VerifyIR(), VerifyResults(inputs=4)]):
        specialised = pipeline(DISPATCHED)(module)
    assert [*specialised] == ["main", "caller", "main_n4_m3", "main_m2", "main_general"]
    assert structural_equal(specialised["main"].struct_info, module["main"].struct_info)
    assert structural_equal(structir.parse(specialised.script()), specialised)
    marked = structir.parse(
        specialised.script().replace("R.exp", "R.sin", 1).replace("R.exp", "R.cos", 1)
    )
    for run in (
        lambda *a: structir.interpret(marked, "main", *a),
        structir.compile(marked)["main"],
    ):
        for shape, function in (((4, 3), np.sin), ((5, 2), np.cos), ((4, 7), np.exp)):
            x = np.linspace(0, 1, shape[0] * shape[1], dtype="float32").reshape(shape)
            y = np.zeros(shape[1], "float32")
            np.testing.assert_allclose(run(x, y)[0], function(x), rtol=1e-5)


def test_a_name_in_use_is_an_error(module: IRModule) -> None:
    specialised = pipeline(DISPATCHED)(module)
    with pytest.raises(StructIRError, match="function main_m2 already exists"):
        pipeline("specialise{sizes='m=2'}")(specialised)
    with pytest.raises(StructIRError, match="function main_general already exists"):
        pipeline("specialise{sizes='m=5' dispatch=true}")(specialised)
