"""Mappings of views in another dtype, which reinterpret the bytes of the elements."""

from __future__ import annotations

from structir.frontend.torch.node import FxNode
from structir.frontend.torch.registry import torch_op, view_of
from structir.ir.expr import Expr, ShapeExpr
from structir.script import R


@torch_op("view.dtype")
def reinterpreted(node: FxNode) -> Expr:
    """Builds a view in a dtype, of another size along the last axis if the elements differ in
    size."""
    return R.memory.view(node["self"], shape=ShapeExpr(node.out_dims()), dtype=node.out_dtype())


@view_of("view.dtype")
def write_reinterpreted(part: FxNode, update: Expr) -> Expr:
    return R.memory.view(part.emit(update), shape=ShapeExpr(part.dims()), dtype=part.dtype())
