"""Numbers and sizes as tensors, for importers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from structir.ir.dims import Dim
from structir.ir.dtype import numpy_dtype
from structir.ir.expr import Constant, Expr, PrimValue, ShapeExpr
from structir.ir.struct_info import TensorStructInfo
from structir.script import R


def number(value: Any, dtype: str) -> Constant:
    """Returns a number as a scalar constant of rank 0."""
    return Constant(np.asarray(value).astype(numpy_dtype(dtype)))


def constant(values: Any, dtype: str = "int64") -> Constant:
    """Returns numbers as a constant tensor."""
    return Constant(np.asarray(values, numpy_dtype(dtype)))


def size_number(size: Dim, dtype: str = "int64") -> Expr:
    """Returns a size as a tensor of rank 0."""
    if isinstance(size, int):
        return number(size, dtype)
    result = R.full(ShapeExpr(()), PrimValue(size), dtype="int64")
    return result if dtype == "int64" else R.astype(result, dtype)


def reshape_to(x: Expr, sizes: Iterable[Dim]) -> Expr:
    """Returns a tensor reshaped to other sizes."""
    return R.reshape(x, ShapeExpr(tuple(sizes)))


def index_range(size: Dim, dtype: str = "int64") -> Expr:
    """Returns the range from 0 to a size, exclusive."""
    result = R.arange(PrimValue(0), PrimValue(size), PrimValue(1), dtype="int64")
    return result if dtype == "int64" else R.astype(result, dtype)


def tensor_info(x: Expr) -> TensorStructInfo:
    """Returns the inferred StructInfo of a tensor."""
    info = x.struct_info
    assert isinstance(info, TensorStructInfo)
    return info


def dims_of(x: Expr) -> tuple[Dim, ...]:
    """Returns the inferred sizes of a tensor of known rank."""
    sizes = tensor_info(x).dims
    assert isinstance(sizes, tuple)
    return sizes
