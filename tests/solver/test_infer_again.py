"""Tests that results of `structir.infer` are well formed and complete after one run."""

import pytest

import structir
from structir.analysis import check_well_formed
from structir.ir import structural_equal

CLOSURE = """
@R.function
def main(x: R.Tensor(dtype="float32", ndim=1)):
    y = R.match_cast(x, R.Tensor((3,), "float32"))
    @R.function
    def inner(z: R.Tensor((3,), "float32")):
        return R.add(z, x)
    return inner(y)
"""
NARROWED = """
@R.function
def main(x: R.Tensor(("n",), "float32")):
    y = R.add(x, R.const([1.0, 2.0, 3.0], "float32"))
    z = R.reshape(y, (3, 1))
    w = R.matmul(R.const([[1.0, 2.0, 3.0]], "float32"), z)
    return w
"""
NAMED_TWICE = """
@R.function(private=True)
def helper(x: R.Tensor(dtype="float32", ndim=1)) -> R.Tensor(dtype="float32", ndim=1):
    found = T.int64()
    with R.dataflow():
        y = R.match_cast(x, R.Tensor((found,), "float32"))
        R.output()
    return x
"""
LOST = """
@R.function(private=True)
def helper(x: R.Tensor(("k",), "float32")):
    k = T.int64()
    y = R.matmul(R.reshape(x, (1, k)), R.const([[1.0], [2.0]], "float32"))
    s = R.shape([k + 1])
    return (y, s)
"""
PRODUCT = """
@R.function
def main(x: R.Tensor(ndim=3, dtype=None), y: R.Tensor(("*r", "n", "_"), "'T")):
    n = T.int64()
    z = R.where(x > y, x, y)
    w = R.match_cast(y, R.Tensor(ndim=3, dtype="'T"))
    v = R.reshape(z, (-1,))
    return x, y, z, w, v
"""
UNNAMED = """
@R.function
def main(x: R.Tensor(("*r", "_"), None), y: R.Tensor(("n", "m"), "'T")):
    n = T.int64()
    m = T.int64()
    return x, R.einsum((x, y), "*b i; i *o -> *b *o")
"""
EXPANDED = """
@R.function
def main(x: R.Tensor(("*r",), None), y: R.Tensor(("n", 1), "int32")):
    n = T.int64()
    z = R.multiply(x, x)
    return x, z, R.concat((z, y), axis=1)
"""


@pytest.mark.parametrize("text", [CLOSURE, NARROWED, NAMED_TWICE, LOST, PRODUCT, UNNAMED, EXPANDED])
@pytest.mark.filterwarnings("ignore")
def test_well_formed_and_complete_at_once(text: str) -> None:
    found = structir.infer(structir.parse(text))
    check_well_formed(found)
    again = structir.infer(found)
    check_well_formed(again)
    assert structural_equal(again, found), again.script()


def test_dims_that_a_refined_signature_drops_become_constants() -> None:
    found = structir.infer(structir.parse(LOST)).script()
    assert 'x: R.Tensor((2,), dtype="float32")' in found
    assert "R.shape([3])" in found
    assert "T.int64()" not in found
