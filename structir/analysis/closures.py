"""Closures as functions of the module: captured values become parameters."""

from __future__ import annotations

from collections.abc import Sequence

from structir.analysis.internal_functions import PRIVATE
from structir.analysis.substitution import Substitution
from structir.ir.expr import Expr, Function, ShapeExpr, Var
from structir.ir.node import replace
from structir.ir.struct_info import ShapeStructInfo


def with_captured(
    function: Function, captured: Sequence[Var], sizes: Sequence[ShapeExpr]
) -> Function:
    """Returns a function with more parameters, for captured variables and unbound dims."""
    params: dict[Var, Expr] = {v: Var(v.name, v.struct_info, v.span) for v in captured}
    shapes = [Var("sizes", ShapeStructInfo(shape.dims)) for shape in sizes]
    substituted = Substitution(params).function(function)
    extended = replace(
        substituted,
        params=(*substituted.params, *params.values(), *shapes),
        attrs={**function.attrs, PRIVATE: True},
    )
    return Substitution(fresh=True).function(extended)
