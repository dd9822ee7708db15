"""Terms: values whose operands are numbers of other terms, with hashable labels."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import attrs

from structir.ir.expr import (
    Call,
    Constant,
    DataflowVar,
    DataTypeImm,
    Expr,
    ExternFunc,
    GlobalVar,
    PrimValue,
    ShapeExpr,
    StringImm,
    Tuple,
    TupleGetItem,
    Var,
)

SMALL = 64  # elements; larger constants are equal only if they are the same object
INLINE = frozenset({Constant, PrimValue, ShapeExpr, StringImm, DataTypeImm, GlobalVar, ExternFunc})
VARIABLES = frozenset({Var, DataflowVar})


@attrs.frozen(eq=False)
class Term:
    """A value over other terms.

    `value` has the op and its attributes; its operands are replaced by the children. The children
    of a variable are the terms that must be computed before it.
    """

    label: Hashable
    children: tuple[int, ...]
    value: Expr

    @property
    def is_atom(self) -> bool:
        """Whether the term is a constant, a size or another value without operands."""
        return type(self.value) in INLINE

    @property
    def is_variable(self) -> bool:
        """Whether the term is a variable, whose value the e-graph does not contain."""
        return type(self.value) in VARIABLES


def label_of(value: Any) -> Hashable:
    """Returns what distinguishes values with equal operands: op, attributes, constants."""
    kind = type(value)
    if kind is Call:
        attributes = tuple(sorted(value.attrs.items()))
        kinds = tuple([type(each) for _, each in attributes])
        return Call, value.op.name, attributes, kinds, len(value.args)
    if kind is Tuple:
        return Tuple, value.names, len(value.fields)
    if kind is TupleGetItem:
        return TupleGetItem, value.index
    if kind is ShapeExpr:
        return ShapeExpr, value.dims
    if kind is GlobalVar:
        return GlobalVar, value.name
    if kind is PrimValue:
        return PrimValue, type(value.value), value.value
    if kind in (StringImm, DataTypeImm):
        return kind, value.value
    if kind is Constant and value.data.size <= SMALL:
        return Constant, value.struct_info, value.data.tobytes()
    if kind is Constant:
        return Constant, id(value.data)
    return kind, id(value)  # variables equal only themselves; terms keep them alive


def operands_of(value: Any) -> tuple[Expr, ...]:
    """Returns the operands of a call, a tuple or a field."""
    kind = type(value)
    if kind is Call:
        return value.args  # type: ignore[no-any-return]
    if kind is Tuple:
        return value.fields  # type: ignore[no-any-return]
    return (value.tuple_value,) if kind is TupleGetItem else ()


def with_operands(value: Any, operands: Sequence[Expr], info: Any = None) -> Expr:
    """Returns a value over other operands, with this StructInfo."""
    kind = type(value)
    if kind is Call:
        args = tuple(operands)
        return Call(value.op, args, value.attrs, value.sinfo_args, info, value.span)
    if kind is Tuple:
        return Tuple(tuple(operands), value.names, value.span)
    if kind is TupleGetItem:
        return TupleGetItem(operands[0], value.index, info, value.span)
    return value  # type: ignore[no-any-return]
