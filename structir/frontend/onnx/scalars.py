"""Scalars: constants of an operand's dtype, and operands with one element."""

from __future__ import annotations

from typing import Any

import numpy as np

from structir.frontend.onnx.node import OnnxNode
from structir.ir.dims import Dim
from structir.ir.dtype import numpy_dtype
from structir.ir.expr import Constant, Expr, PrimValue, ShapeExpr
from structir.script import R


def number(value: Any, dtype: str) -> Constant:
    """Returns a number as a scalar constant of rank 0."""
    return Constant(np.asarray(value).astype(numpy_dtype(dtype)))


def like(node: OnnxNode, value: Any, index: int = 0) -> Constant:
    """Returns a number as a scalar constant in the dtype of an operand."""
    return number(value, node.dtype(index))


def scalar(node: OnnxNode, value: Expr) -> Expr:
    """Returns an operand of one element as a tensor of rank 0."""
    rank = node.tensor_info(value).ndim
    if rank == 0:
        return value
    if isinstance(value, Constant):
        return Constant(value.data.reshape(()))
    return R.reshape(value, ShapeExpr(()))


def size_number(size: Dim, dtype: str = "int64") -> Expr:
    """Returns a size as a tensor of rank 0."""
    if isinstance(size, int):
        return number(size, dtype)
    result: Expr = R.full(ShapeExpr(()), PrimValue(size), dtype="int64")
    return result if dtype == "int64" else R.astype(result, dtype)


def constant(values: Any, dtype: str = "int64") -> Constant:
    """Returns numbers as a constant tensor."""
    return Constant(np.asarray(values, numpy_dtype(dtype)))
