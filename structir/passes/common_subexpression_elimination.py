"""Replaces repeated computations of a value by its first one."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from operator import is_
from typing import Any

from structir.analysis.purity import is_pure_value
from structir.ir.expr import (
    Binding,
    BindingBlock,
    Call,
    Constant,
    DataflowBlock,
    DataflowVar,
    Expr,
    Function,
    GlobalVar,
    If,
    MatchCast,
    PrimValue,
    SeqExpr,
    ShapeExpr,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
)
from structir.ir.node import rebuild, replace
from structir.ir.op import Op
from structir.ir.struct_info import ObjectStructInfo, ShapeStructInfo
from structir.passes.base import function_pass


class AvailableValues:
    """The values available at a location, by key: those of this scope and of the enclosing ones."""

    __slots__ = ("current", "outer")

    def __init__(self, outer: tuple[dict[Hashable, Var], ...] = ()) -> None:
        self.current: dict[Hashable, Var] = {}
        self.outer = outer

    def nested(self) -> AvailableValues:
        """Returns the scope of a branch, a block or a function inside this one."""
        return AvailableValues((self.current, *self.outer))

    def first(self, key: Hashable, var: Var) -> Var:
        """Returns the variable that holds this value; records `var` if there is none."""
        for values in self.outer:
            existing = values.get(key)
            if existing is not None:
                return existing
        return self.current.setdefault(key, var)


@function_pass(aliases=("cse", "eliminate_common_subexpr"))
def common_subexpression_elimination(function: Function) -> Function:
    """Binds equal pure values once and replaces later ones by the first variable.

    A value bound before an `if` or a nested function is available inside it; a value bound in a
    branch or a dataflow block is available only there. Two values are merged only if their
    StructInfo is equal.
    """
    body = _Sharing().sequence(function.body, AvailableValues())
    return function if body is function.body else replace(function, body=body)


class _Sharing:
    """The replacement of each repeated variable."""

    def __init__(self) -> None:
        self.replacement: dict[Var, Var] = {}

    def sequence(self, seq: SeqExpr, available: AvailableValues) -> SeqExpr:
        blocks = tuple([self.block(block, available) for block in seq.blocks])
        body = self.expr(seq.body)
        same = all(a is b for a, b in zip(blocks, seq.blocks, strict=True))
        return seq if same and body is seq.body else replace(seq, blocks=blocks, body=body)

    def block(self, block: BindingBlock, available: AvailableValues) -> BindingBlock:
        inner = available.nested() if isinstance(block, DataflowBlock) else available
        bindings = [new for b in block.bindings if (new := self.binding(b, inner)) is not None]
        if inner is not available:
            available.current |= {
                key: var for key, var in inner.current.items() if type(var) is Var
            }
        same = len(bindings) == len(block.bindings) and all(map(is_, bindings, block.bindings))
        return block if same else replace(block, bindings=tuple(bindings))

    def binding(self, binding: Binding, available: AvailableValues) -> Binding | None:
        """Returns the binding over shared variables; None if an earlier variable replaces it."""
        value = self.value(binding.value, available)
        var = binding.var
        if not isinstance(binding, MatchCast) and not _names_a_shape(var):
            key = _KEYS.get(type(value), _no_key)(value)
            if key is not None:
                first = available.first((key, var.struct_info), var)
                if first is not var:
                    if type(first) is DataflowVar and type(var) is not DataflowVar:
                        return VarBinding(var, first, binding.span)
                    self.replacement[var] = first
                    return None
        return binding if value is binding.value else replace(binding, value=value)

    def value(self, value: Expr, available: AvailableValues) -> Expr:
        if type(value) is Function:
            body = self.sequence(value.body, available.nested())
            return value if body is value.body else replace(value, body=body)
        if type(value) is If:
            branches = value.true_branch, value.false_branch
            new = [self.sequence(branch, available.nested()) for branch in branches]
            cond = self.expr(value.cond)
            if cond is value.cond and new[0] is branches[0] and new[1] is branches[1]:
                return value
            return replace(value, cond=cond, true_branch=new[0], false_branch=new[1])
        shared: Expr = self.expr(value)
        return shared

    def call(self, call: Call) -> Call:
        op, replacement = call.op, self.replacement
        if type(op) is not Op:
            op = replacement.get(op, op)  # type: ignore[call-overload]
        args = [
            self.expr(a) if type(a) is Tuple else replacement.get(a, a)  # type: ignore[call-overload]
            for a in call.args
        ]
        if op is call.op and all(map(is_, args, call.args)):
            return call
        return Call(op, tuple(args), call.attrs, call.sinfo_args, call.struct_info, call.span)

    def expr(self, value: Any) -> Any:
        """Returns an expression of atoms over shared variables."""
        if not self.replacement:
            return value
        if isinstance(value, Var):
            return self.replacement.get(value, value)
        if type(value) is Call:
            return self.call(value)
        if isinstance(value, Tuple | TupleGetItem):
            return rebuild(value, self.expr)
        return value


def _names_a_shape(var: Var) -> bool:
    """Whether StructInfos may mention a variable, whose binding then remains."""
    info = var.struct_info
    if type(info) is ShapeStructInfo:
        return info.dims is None
    return type(info) is ObjectStructInfo


# Keys by which equal values are identified; None for a value that is not shared.


def _no_key(value: Any) -> None:
    return None


def _call_key(call: Any) -> Hashable | None:
    op = call.op
    if not (op.definition.pure if type(op) is Op else is_pure_value(call)):
        return None
    args = call.args
    for argument in args:
        if type(argument) not in VARIABLES:
            args = tuple([_atom(argument) for argument in args])
            break
    attributes = tuple(sorted(call.attrs.items())) if call.attrs else ()
    return op if type(op) is Op else _atom(op), args, attributes, call.sinfo_args


def _field_key(item: Any) -> Hashable:
    return TupleGetItem, item.tuple_value, item.index


def _atom(value: Any) -> Hashable:
    kind = type(value)
    if kind is Tuple:
        return Tuple, tuple([_atom(field) for field in value.fields]), value.names
    if kind is ShapeExpr:
        return ShapeExpr, value.dims
    if kind is GlobalVar:
        return GlobalVar, value.name
    if kind is PrimValue:
        return PrimValue, type(value.value), value.value
    if kind is Constant and value.data.size <= SMALL:
        return Constant, value.struct_info, value.data.tobytes()
    return value  # type: ignore[no-any-return]


SMALL = 64  # elements; larger constants are equal only if they are the same object
VARIABLES = frozenset({Var, DataflowVar})
_KEYS: dict[type, Callable[[Any], Hashable | None]] = {
    Call: _call_key,
    TupleGetItem: _field_key,
    Tuple: _atom,
    ShapeExpr: _atom,
    PrimValue: _atom,
    Constant: _atom,
}
