"""Ops with data-dependent result sizes: a count is computed first, then kernels that know the
size."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from structir.analysis.deduction import deduce
from structir.ir import dims
from structir.ir.bodies import with_bindings
from structir.ir.dims import Dim
from structir.ir.expr import (
    Binding,
    Call,
    DataflowVar,
    Expr,
    Function,
    MatchCast,
    Var,
    VarBinding,
)
from structir.ir.op import Op
from structir.ir.struct_info import ShapeStructInfo
from structir.ops.shapes import tensor_to_shape


def with_counts(function: Function) -> Function:
    """Returns the function with a count and dependent ops in place of such ops."""
    return with_bindings(function, counted)


def counted(binding: Binding) -> Iterable[Binding]:
    """Returns a binding, or the bindings that replace it."""
    call: Any = binding.value
    if not isinstance(binding, VarBinding) or not isinstance(call, Call):
        return (binding,)
    definition: Any = call.op.definition if isinstance(call.op, Op) else None
    hook = None if definition is None else definition.hooks.get("counted")
    if hook is None:
        return (binding,)
    making = _Making()
    result = hook(*call.args, emit=making.emit, count=making.count, **call.attrs)
    if result is None:
        return (binding,)
    return [*making.bindings, VarBinding(binding.var, result, binding.span)]


class _Making:
    """Collects new bindings."""

    def __init__(self) -> None:
        self.bindings: list[Binding] = []

    def emit(self, expr: Expr) -> Var:
        """Binds a value to a new variable."""
        var = DataflowVar("part", deduce(expr))
        self.bindings.append(VarBinding(var, expr))
        return var

    def count(self, number: Expr) -> Dim:
        """Returns a number in a vector of one element as a size."""
        size = dims.sym("count")
        shape = self.emit(tensor_to_shape(number))
        info = ShapeStructInfo((size,))
        self.bindings.append(MatchCast(DataflowVar("sizes", info), shape, info))
        return size
