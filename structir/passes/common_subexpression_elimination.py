"""Computing once what a program computes twice."""

from __future__ import annotations

from collections.abc import Callable, Hashable
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
    """The values met so far, by key: those of this scope, and those of the scopes around it."""

    __slots__ = ("outer", "own")

    def __init__(self, outer: tuple[dict[Hashable, Var], ...] = ()) -> None:
        self.own: dict[Hashable, Var] = {}
        self.outer = outer

    def nested(self) -> AvailableValues:
        """The scope of a branch, a block or a function in this one."""
        return AvailableValues((self.own, *self.outer))

    def first(self, key: Hashable, var: Var) -> Var:
        """The variable that has this value already; else this one, which has it from now on."""
        for values in self.outer:
            found = values.get(key)
            if found is not None:
                return found
        return self.own.setdefault(key, var)


@function_pass(aliases=("cse",))
def common_subexpression_elimination(function: Function) -> Function:
    """Bind equal pure values once; later ones become the first one's variable.

    A value known before an `if` or a nested function is known inside; what is bound in a branch or
    in a dataflow block is known only there. Two values are one only if they have one StructInfo.
    """
    body = _Sharing().sequence(function.body, AvailableValues())
    return function if body is function.body else replace(function, body=body)


class _Sharing:
    """Which variable stands for which, and the value keys met so far."""

    def __init__(self) -> None:
        self.instead: dict[Var, Var] = {}

    def sequence(self, seq: SeqExpr, known: AvailableValues) -> SeqExpr:
        blocks = tuple([self.block(block, known) for block in seq.blocks])
        body = self.expr(seq.body)
        same = all(a is b for a, b in zip(blocks, seq.blocks, strict=True))
        return seq if same and body is seq.body else replace(seq, blocks=blocks, body=body)

    def block(self, block: BindingBlock, known: AvailableValues) -> BindingBlock:
        inner = known.nested() if isinstance(block, DataflowBlock) else known
        bindings = [new for b in block.bindings if (new := self.binding(b, inner)) is not None]
        if inner is not known:
            known.own |= {key: var for key, var in inner.own.items() if type(var) is Var}
        same = len(bindings) == len(block.bindings) and all(map(_is, bindings, block.bindings))
        return block if same else replace(block, bindings=tuple(bindings))

    def binding(self, binding: Binding, known: AvailableValues) -> Binding | None:
        """The binding over shared variables; None where an earlier variable takes its place."""
        value = self.value(binding.value, known)
        var = binding.var
        if not isinstance(binding, MatchCast) and not _names_a_shape(var):
            key = _KEYS.get(type(value), _no_key)(value)
            if key is not None:
                first = known.first((key, var.struct_info), var)
                if first is not var:
                    if type(first) is DataflowVar and type(var) is not DataflowVar:
                        return VarBinding(var, first, binding.span)
                    self.instead[var] = first
                    return None
        return binding if value is binding.value else replace(binding, value=value)

    def value(self, value: Expr, known: AvailableValues) -> Expr:
        if type(value) is Function:
            body = self.sequence(value.body, known.nested())
            return value if body is value.body else replace(value, body=body)
        if type(value) is If:
            sides = value.true_branch, value.false_branch
            new = [self.sequence(side, known.nested()) for side in sides]
            cond = self.expr(value.cond)
            if cond is value.cond and new[0] is sides[0] and new[1] is sides[1]:
                return value
            return replace(value, cond=cond, true_branch=new[0], false_branch=new[1])
        shared: Expr = self.expr(value)
        return shared

    def call(self, call: Call) -> Call:
        op, instead = call.op, self.instead
        if type(op) is not Op:
            op = instead.get(op, op)  # type: ignore[call-overload]
        args = [
            self.expr(a) if type(a) is Tuple else instead.get(a, a)  # type: ignore[call-overload]
            for a in call.args
        ]
        if op is call.op and all(map(_is, args, call.args)):
            return call
        return Call(op, tuple(args), call.attrs, call.sinfo_args, call.struct_info, call.span)

    def expr(self, value: Any) -> Any:
        """An expression of atoms over shared variables."""
        if not self.instead:
            return value
        if isinstance(value, Var):
            return self.instead.get(value, value)
        if type(value) is Call:
            return self.call(value)
        if isinstance(value, Tuple | TupleGetItem):
            return rebuild(value, self.expr)
        return value


def _is(a: object, b: object) -> bool:
    return a is b


def _names_a_shape(var: Var) -> bool:
    """Whether StructInfos may speak of a variable: then it keeps a binding of its own."""
    info = var.struct_info
    if type(info) is ShapeStructInfo:
        return info.dims is None
    return type(info) is ObjectStructInfo


# What tells equal values from others; None for a value that is not shared.


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
        return Tuple, tuple([_atom(field) for field in value.fields])
    if kind is ShapeExpr:
        return ShapeExpr, value.dims
    if kind is GlobalVar:
        return GlobalVar, value.name
    if kind is PrimValue:
        return PrimValue, type(value.value), value.value
    if kind is Constant and value.data.size <= SMALL:
        return Constant, value.struct_info, value.data.tobytes()
    return value  # type: ignore[no-any-return]


SMALL = 64  # elements; larger constants are one only if they are the same object
VARIABLES = frozenset({Var, DataflowVar})
_KEYS: dict[type, Callable[[Any], Hashable | None]] = {
    Call: _call_key,
    TupleGetItem: _field_key,
    Tuple: _atom,
    ShapeExpr: _atom,
    PrimValue: _atom,
    Constant: _atom,
}
