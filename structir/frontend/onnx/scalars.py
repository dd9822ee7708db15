"""Scalars: constants of an operand's dtype, and operands with one element."""

from __future__ import annotations

from typing import Any

from structir.frontend.onnx.node import OnnxNode
from structir.frontend.scalars import number
from structir.ir.expr import Constant, Expr, ShapeExpr
from structir.script import R


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
