"""Computing once what a program computes twice."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Hashable, MutableMapping
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
from structir.ir.struct_info import ObjectStructInfo, ShapeStructInfo
from structir.passes.base import function_pass

Known = MutableMapping[Hashable, Var]


@function_pass(aliases=("cse",))
def common_subexpression_elimination(function: Function) -> Function:
    """Bind equal pure values once; later ones become the first one's variable.

    A value known before an `if` or a nested function is known inside; what is bound in a branch or
    in a dataflow block is known only there. Two values are one only if they have one StructInfo.
    """
    body = _Sharing().sequence(function.body, {})
    return function if body is function.body else replace(function, body=body)


class _Sharing:
    """Which variable stands for which, and the value keys met so far."""

    def __init__(self) -> None:
        self.instead: dict[Var, Var] = {}

    def sequence(self, seq: SeqExpr, known: Known) -> SeqExpr:
        blocks = tuple([self.block(block, known) for block in seq.blocks])
        body = self.expr(seq.body)
        same = all(a is b for a, b in zip(blocks, seq.blocks, strict=True))
        return seq if same and body is seq.body else replace(seq, blocks=blocks, body=body)

    def block(self, block: BindingBlock, known: Known) -> BindingBlock:
        inner = _nested(known) if isinstance(block, DataflowBlock) else known
        bindings = [new for b in block.bindings if (new := self.binding(b, inner)) is not None]
        if inner is not known:
            seen = {key: var for key, var in _own(inner).items() if type(var) is Var}
            known.update(seen)
        same = len(bindings) == len(block.bindings) and all(map(_is, bindings, block.bindings))
        return block if same else replace(block, bindings=tuple(bindings))

    def binding(self, binding: Binding, known: Known) -> Binding | None:
        """The binding over shared variables; None where an earlier variable takes its place."""
        value = self.value(binding.value, known)
        if isinstance(binding, MatchCast):
            return binding if value is binding.value else replace(binding, value=value)
        key = None if _names_a_shape(binding.var) else _key(value)
        if key is None:
            return binding if value is binding.value else replace(binding, value=value)
        first = known.setdefault((key, binding.var.struct_info), binding.var)
        if first is binding.var:
            return binding if value is binding.value else replace(binding, value=value)
        if isinstance(first, DataflowVar) and not isinstance(binding.var, DataflowVar):
            return VarBinding(binding.var, first, binding.span)
        self.instead[binding.var] = first
        return None

    def value(self, value: Expr, known: Known) -> Expr:
        match value:
            case Function():
                body = self.sequence(value.body, _nested(known))
                return value if body is value.body else replace(value, body=body)
            case If():
                sides = value.true_branch, value.false_branch
                new = [self.sequence(side, _nested(known)) for side in sides]
                cond = self.expr(value.cond)
                if cond is value.cond and new[0] is sides[0] and new[1] is sides[1]:
                    return value
                return replace(value, cond=cond, true_branch=new[0], false_branch=new[1])
            case _:
                shared: Expr = self.expr(value)
                return shared

    def expr(self, value: Any) -> Any:
        """An expression of atoms over shared variables."""
        if not self.instead:
            return value
        if isinstance(value, Var):
            return self.instead.get(value, value)
        if isinstance(value, Call | Tuple | TupleGetItem):
            return rebuild(value, self.expr)
        return value


def _nested(known: Known) -> Known:
    return ChainMap({}, *(known.maps if isinstance(known, ChainMap) else (known,)))


def _own(known: Known) -> Known:
    return known.maps[0] if isinstance(known, ChainMap) else known


def _is(a: object, b: object) -> bool:
    return a is b


def _names_a_shape(var: Var) -> bool:
    """Whether StructInfos may speak of a variable: then it keeps a binding of its own."""
    info = var.struct_info
    return isinstance(info, ObjectStructInfo) or (
        isinstance(info, ShapeStructInfo) and info.dims is None
    )


def _key(value: Expr) -> Hashable | None:
    """What tells equal values from others; None for a value that is not shared."""
    match value:
        case Call() if is_pure_value(value):
            keys = tuple([_atom(argument) for argument in value.args])
            attributes = tuple(sorted(value.attrs.items()))
            return Call, _atom(value.op), keys, attributes, value.sinfo_args
        case TupleGetItem():
            return TupleGetItem, _atom(value.tuple_value), value.index
        case Tuple() | ShapeExpr() | PrimValue() | Constant():
            return _atom(value)
        case _:
            return None


def _atom(value: Expr) -> Hashable:
    match value:
        case Tuple():
            return Tuple, tuple([_atom(field) for field in value.fields])
        case ShapeExpr():
            return ShapeExpr, value.dims
        case PrimValue():
            return PrimValue, type(value.value), value.value
        case GlobalVar():
            return GlobalVar, value.name
        case Constant() if value.data.size <= _SMALL:
            return Constant, value.data.dtype.name, value.data.shape, value.data.tobytes()
        case _:
            return value


_SMALL = 64  # elements; larger constants are one only if they are the same object
