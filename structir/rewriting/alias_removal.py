"""Removes aliases: bindings that only rename a value, fields of known tuples, and proved casts."""

from __future__ import annotations

from collections.abc import Iterable
from operator import is_
from typing import Any

from structir.analysis.dataflow_outputs import without_surplus_outputs
from structir.ir.bodies import bindings_of
from structir.ir.expr import (
    Binding,
    BindingBlock,
    Call,
    DataflowBlock,
    DataflowVar,
    Expr,
    Function,
    If,
    MatchCast,
    SeqExpr,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
)
from structir.ir.node import rebuild, replace
from structir.ir.op import Op
from structir.ir.requirements import conditions_of
from structir.ir.struct_info import ObjectStructInfo, ShapeStructInfo, StructInfo

MAX_ROUNDS = 16


def without_aliases(function: Function) -> Function:
    """Replaces aliases of variables, and fields of known tuples, by the original value.

    A binding remains if its annotation differs from the StructInfo of the value, if it exports a
    local value of a dataflow block, or if StructInfos mention its variable. A match_cast is removed
    if the value provably has its StructInfo, and outputs of dataflow blocks if nothing uses them.
    """
    for _ in range(MAX_ROUNDS):  # a local value may be an alias, and without it others are local
        function, before = without_surplus_outputs(function), function
        has_casts = any([type(binding) is MatchCast for binding in bindings_of(function)])
        body = _AtomTable(function.params, has_casts).sequence(function.body)
        function = function if body is function.body else replace(function, body=body)
        if function is before:
            break
    return function


class _AtomTable:
    """The replacement of each alias, and the known tuples."""

    def __init__(self, params: Iterable[Var], has_casts: bool) -> None:
        self.has_casts = has_casts  # only these depend on which variables are proved
        self.proved: set[Var] = set(params)  # their StructInfo holds: a call or an op checks it
        self.replacement: dict[Var, Expr] = {}
        self.tuples: dict[Var, Tuple] = {}
        self.promoted: dict[Var, Var] = {}

    def sequence(self, seq: SeqExpr) -> SeqExpr:
        blocks = tuple([self.block(block) for block in seq.blocks])
        body = self.expr(seq.body)
        same = all(map(is_, blocks, seq.blocks)) and body is seq.body
        remaining = tuple([block for block in blocks if block.bindings])
        return seq if same else replace(seq, blocks=remaining, body=body)

    def block(self, block: BindingBlock) -> BindingBlock:
        if isinstance(block, DataflowBlock):
            self.promote(block)
        bindings = [new for b in block.bindings if (new := self.binding(b)) is not None]
        same = len(bindings) == len(block.bindings) and all(map(is_, bindings, block.bindings))
        return block if same else replace(block, bindings=tuple(bindings))

    def promote(self, block: DataflowBlock) -> None:
        """Binds a local value directly to the output that only renames it."""
        roots: dict[Any, Any] = {}  # local variables by the value that they name
        tuples: dict[Any, Tuple] = {}
        for binding in block.bindings:
            var, value = binding.var, binding.value
            kind = type(value)
            if kind is Tuple:
                tuples[var] = value  # type: ignore[assignment]
            elif kind is TupleGetItem:
                whole = tuples.get(value.tuple_value)  # type: ignore[attr-defined]
                if whole is not None and value.index < len(whole.fields):  # type: ignore[attr-defined]
                    value = whole.fields[value.index]  # type: ignore[attr-defined]
            source = roots.get(value)
            if source is None or not isinstance(binding, VarBinding) or not _is_alias(var, source):
                if type(var) is DataflowVar:
                    roots[var] = var
            elif type(var) is DataflowVar:
                roots[var] = source
            elif source not in self.promoted:
                self.promoted[source] = self.replacement[source] = var

    def binding(self, binding: Binding) -> Binding | None:
        """Returns the binding with aliases replaced; None if it is itself an alias."""
        value = self.value(binding.value)
        var = self.promoted.get(binding.var, binding.var)
        if self.has_casts and self.holds(binding):
            self.proved |= {binding.var, var}
        if isinstance(binding, MatchCast) and not self.is_proved(binding, value):
            same = value is binding.value and var is binding.var
            return binding if same else replace(binding, var=var, value=value)
        if type(value) is TupleGetItem:
            value = self.field(value)
        if value is var:
            return None  # the output that its value is now bound to
        if isinstance(value, Var):
            hidden = type(value) is DataflowVar and type(var) is not DataflowVar
            if not hidden and _is_alias(var, value):
                self.replacement[var] = self.replacement[binding.var] = value
                return None
        elif type(value) is Tuple:
            self.tuples[var] = value
        if value is binding.value and var is binding.var:
            return binding
        return VarBinding(var, value, binding.span)

    def holds(self, binding: Binding) -> bool:
        """Whether the StructInfo of a binding is checked or inferred, not assumed."""
        value = binding.value
        if isinstance(binding, MatchCast):
            return True
        names: Iterable[Any]
        if type(value) is Call and type(value.op) is Op:
            names = value.args
        elif type(value) is TupleGetItem:
            names = (value.tuple_value,)
        elif isinstance(value, Var):
            names = (value,)
        else:
            return False
        if any(type(name) is Tuple for name in names):
            return False
        inferred = value.struct_info == binding.var.struct_info
        return inferred and all(not isinstance(v, Var) or v in self.proved for v in names)

    def is_proved(self, cast: MatchCast, value: Expr) -> bool:
        """Whether a match_cast is redundant: its StructInfo is proved, and it binds no dim."""
        infos = value.struct_info, cast.var.struct_info
        is_same = all(info == cast.struct_info for info in infos)
        return is_same and value in self.proved and not conditions_of(cast)

    def field(self, item: TupleGetItem) -> Expr:
        """Returns the field itself if it is visible, else the projection."""
        whole = self.tuples.get(item.tuple_value)  # type: ignore[call-overload]
        if whole is None or not 0 <= item.index < len(whole.fields):
            return item
        field: Expr = whole.fields[item.index]
        if _is_local(field) and type(item.tuple_value) is not DataflowVar:
            return item
        return field

    def value(self, value: Expr) -> Expr:
        if type(value) is Function:
            self.proved.update(value.params)
            body = self.sequence(value.body)
            return value if body is value.body else replace(value, body=body)
        if type(value) is If:
            branches = [self.sequence(s) for s in (value.true_branch, value.false_branch)]
            cond = self.expr(value.cond)
            same = branches[0] is value.true_branch and branches[1] is value.false_branch
            if same and cond is value.cond:
                return value
            return replace(value, cond=cond, true_branch=branches[0], false_branch=branches[1])
        renamed: Expr = self.expr(value)
        return renamed

    def expr(self, value: Any) -> Any:
        """Returns an expression of atoms with aliases replaced."""
        if not self.replacement:
            return value
        if isinstance(value, Var):
            return self.replacement.get(value, value)
        if type(value) is Call and type(value.op) is Op:
            replaced = self.replacement
            if not any([arg in replaced or type(arg) is Tuple for arg in value.args]):
                return value
        if isinstance(value, Call | Tuple | TupleGetItem):
            return rebuild(value, self.expr)
        return value


def _is_local(value: Expr) -> bool:
    """Whether a value is visible in its dataflow block only."""
    if type(value) is Tuple:
        return any(map(_is_local, value.fields))
    return type(value) is DataflowVar


def _is_alias(var: Var, value: Any) -> bool:
    """Whether a variable is an alias: the same StructInfo, which no other StructInfo mentions."""
    info: StructInfo = var.struct_info
    if isinstance(info, ObjectStructInfo):
        return False
    if isinstance(info, ShapeStructInfo) and info.dims is None:
        return False
    return bool(info == value.struct_info)
