"""Values of expansions: tensors of tuples, moved axes, and functions without blocks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from structir.analysis.loop_view import AxisList
from structir.analysis.substitution import Substitution
from structir.analysis.variables import free_vars
from structir.build import BlockBuilder
from structir.ir.bodies import bindings_of, with_bindings, with_blocks
from structir.ir.expr import (
    BindingBlock,
    Call,
    DataflowBlock,
    DataflowVar,
    Expr,
    Function,
    If,
    Tuple,
    Var,
)
from structir.ir.node import replace
from structir.ir.struct_info import StructInfo, TensorStructInfo, TupleStructInfo
from structir.opdef.batched_op import apply


class UnknownRankError(Exception):
    """A mapped operand has an unknown rank."""


def member_of(builder: BlockBuilder, call: Call, path: Sequence[int]) -> Expr:
    """Returns the operand at a path."""
    value = call.args[path[0]]
    for member in path[1:]:
        value = field_of(builder, value, member)
    return value


def normalised(axes: AxisList, value: Expr) -> AxisList:
    """Returns axes counted from the first one."""
    if not axes:
        return axes
    info: Any = value.struct_info
    while isinstance(info, TupleStructInfo) and info.fields:
        info = info.fields[0]
    rank = info.ndim if isinstance(info, TensorStructInfo) and info.axes is None else None
    if rank is None or rank < 0:
        raise UnknownRankError
    return tuple([axis % rank for axis in axes])


def moved(builder: BlockBuilder, value: Expr, start: int, end: int) -> Expr:
    """Emits a tensor with one axis moved."""
    info: Any = value.struct_info
    order = [k for k in range(info.ndim) if k != start]
    end = end if end >= 0 else info.ndim + end
    if start == end:
        return value
    order.insert(end, start)
    return builder.emit(apply("permute_dims", value, order))


def field_of(builder: BlockBuilder, value: Expr, k: int) -> Expr:
    return value.fields[k] if isinstance(value, Tuple) else builder.emit(value[k])


def leaves_of(builder: BlockBuilder, value: Expr) -> list[Expr]:
    """Returns the tensors of a value."""
    info = value.struct_info
    if not isinstance(info, TupleStructInfo):
        return [value]
    fields = [field_of(builder, value, k) for k in range(len(info.fields))]
    return [leaf for field in fields for leaf in leaves_of(builder, field)]


def nested(info: StructInfo | None, leaves: Sequence[Expr]) -> Expr:
    """Returns leaves in the structure of a StructInfo."""
    remaining = iter(leaves)

    def build(part: StructInfo | None) -> Expr:
        if isinstance(part, TupleStructInfo):
            return Tuple(tuple([build(field) for field in part.fields]), part.names)
        return next(remaining)

    return build(info)


def without_unused_closures(function: Function) -> Function:
    """Returns a function without closures that are not used, such as operands of combinators."""
    while True:
        bindings = [*bindings_of(function)]
        results = [seq.body for seq in _sequences(function)]
        used = {
            var for value in (*results, *[b.value for b in bindings]) for var in free_vars(value)
        }
        unused = {b.var for b in bindings if isinstance(b.value, Function) and b.var not in used}
        if not unused:
            return function
        function = with_bindings(function, lambda b, unused=unused: () if b.var in unused else (b,))  # type: ignore[misc]


def _sequences(function: Function) -> list[Any]:
    """Returns the sequences of a function, its branches and its local functions."""
    sequences = [function.body]
    for value in [b.value for b in bindings_of(function)]:
        sequences += [value.body] if isinstance(value, Function) else []
        sequences += [value.true_branch, value.false_branch] if isinstance(value, If) else []
    return sequences


def without_dataflow(function: Function) -> Function:
    """Returns a function without dataflow blocks: expansions may contain branches."""
    names: dict[Var, Expr] = {
        b.var: Var(b.var.name, b.var.struct_info, b.var.span)
        for b in bindings_of(function)
        if type(b.var) is DataflowVar
    }

    def plain(block: BindingBlock) -> list[BindingBlock]:
        bindings = [replace(b, var=names.get(b.var, b.var)) for b in block.bindings]
        return [BindingBlock(tuple(bindings), block.span)]

    has_blocks = any(isinstance(block, DataflowBlock) for block in function.body.blocks)
    renamed = with_blocks(function, plain) if names or has_blocks else function
    return Substitution(names).function(renamed) if names else renamed
