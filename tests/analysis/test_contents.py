"""The contents of programs, by which a compiler selects its passes."""

from __future__ import annotations

import structir
from structir.analysis.contents import Contents, contents_of
from structir.ir.axes import Ragged, RowVar
from structir.ir.dtype import DtypeVar
from structir.ir.expr import Function, GlobalVar, If
from structir.ir.kernel import Kernel
from structir.ir.vdevice import VDevice


def contents(source: str) -> Contents:
    return contents_of(structir.parse(source))


def test_a_plain_function() -> None:
    plain = contents("""
@R.function
def main(x: R.Tensor(("n", 4), "float32")):
    return R.exp(x)
""")
    assert Function in plain.kinds and not plain.attributes
    assert not {GlobalVar, If, Kernel, Ragged, RowVar, DtypeVar, VDevice} & plain.kinds


def test_axes_dtypes_and_vdevices_of_tensors() -> None:
    assert {RowVar, DtypeVar} <= contents("""
@R.function
def main(x: R.Tensor(("*s", 4), "'D")):
    return R.add(x, x)
""").kinds
    assert (
        VDevice
        in contents("""
@R.function
def main(x: R.Tensor((4,), "float32", "llvm:0")):
    return R.exp(x)
""").kinds
    )


def test_hooks_attributes_and_nested_functions() -> None:
    several = contents("""
@R.function
def main(x: R.Tensor((3, 4), "float32"), test: R.Tensor((), "bool")):
    R.func_attr({"donated": {"x": 0}})

    @R.function
    def row(r: R.Tensor((4,), "float32")):
        return R.exp(r)

    if test:
        y = R.vmap(row, x)
    else:
        y = x
    return y
""")
    assert several.attributes == {"donated"} and "combinator" in several.hooks
    assert {Function, If} <= several.kinds
