"""Calls of the random number generators."""

from __future__ import annotations

from collections.abc import Iterable

from structir.ir.dims import Dim
from structir.ir.expr import Expr, PrimValue, ShapeExpr
from structir.ir.struct_info import TensorStructInfo
from structir.script import R


def sampled(name: str, sizes: Iterable[Dim], *numbers: float) -> Expr:
    """Returns float64 samples of a distribution.

    `numbers` are the two parameters of the distribution, the seed, and optionally the stream.
    """
    shape = ShapeExpr(tuple(sizes))
    info = TensorStructInfo(shape.values, "float64")
    operands = [PrimValue(float(v)) for v in numbers]
    return R.call_pure_packed(f"draw.{name}", shape, *operands, sinfo_args=info)


def sampled_for(
    name: str, operands: Iterable[Expr], info: TensorStructInfo, *numbers: float
) -> Expr:
    """Returns one sample for each element of tensors of parameters.

    `numbers` are the seed and the stream.
    """
    values = [PrimValue(float(v)) for v in numbers]
    return R.call_pure_packed(f"draw.{name}", *operands, *values, sinfo_args=info)
