"""Separates the fields of tuples with scalars, shapes or objects: shards receive each of them."""

from __future__ import annotations

from typing import Any

from structir.analysis.substitution import Substitution
from structir.analysis.variables import variables_in
from structir.ir.expr import (
    Binding,
    BindingBlock,
    Expr,
    Function,
    SeqExpr,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
)
from structir.ir.node import replace
from structir.ir.struct_info import (
    FuncStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
    leaf_infos,
)


def with_separate_fields(function: Function) -> Function:
    """Returns a function without dataflow blocks that takes the fields of each tuple with values
    that are no tensors in place of the tuple."""
    fields = _SeparateFields()
    first = [new for p in function.params for new in fields.separated(p)]
    body = fields.sequence(function.body)
    blocks = (BindingBlock(tuple(first)), *body.blocks) if first else body.blocks
    bindings = tuple([b for block in blocks for b in block.bindings])
    whole = SeqExpr((BindingBlock(bindings),) if bindings else (), body.body, None, body.span)
    return replace(function, body=whole)


def has_mixed_tuples(function: Function) -> bool:
    """Whether a function has a tuple variable with values that are no tensors."""
    return any([_is_mixed(var.struct_info) for var in variables_in(function)])


def _is_mixed(info: StructInfo | None) -> bool:
    """Whether a tuple has values that are no tensors, and no functions."""
    leaves = set(map(type, leaf_infos(info))) if isinstance(info, TupleStructInfo) else set()
    return not leaves <= {TensorStructInfo} and FuncStructInfo not in leaves


class _SeparateFields(Substitution):
    """Replaces variables of mixed tuples by tuples of variables of their fields."""

    def separated(self, var: Var) -> list[Binding]:
        """Returns the bindings of the fields of a variable, which is replaced from now on."""
        if not _is_mixed(var.struct_info):
            return []
        bindings: list[Binding] = []
        self.variables[var] = self._fields(var, var.name, bindings)
        return bindings

    def _fields(self, value: Any, name: str, bindings: list[Binding]) -> Tuple:
        """Returns the tuple of the fields of a value, which are bound."""
        fields: list[Expr] = []
        for k, info in enumerate(value.struct_info.fields):
            var = Var(f"{name}_{k}", info)
            bindings.append(VarBinding(var, TupleGetItem(value, k, info)))
            is_tuple = isinstance(info, TupleStructInfo)
            fields.append(self._fields(var, var.name, bindings) if is_tuple else var)
        return Tuple(tuple(fields), value.struct_info.names)

    def block(self, block: BindingBlock) -> BindingBlock:
        """Returns a block with the bindings of fields."""
        bindings: list[Binding] = []
        for binding in block.bindings:
            new = self.binding(binding)
            bindings += [new, *self.separated(new.var)]
            if new.var is not binding.var and new.var in self.variables:
                self.variables[binding.var] = self.variables[new.var]
        same = len(bindings) == len(block.bindings)
        same = same and all(a is b for a, b in zip(bindings, block.bindings, strict=True))
        return block if same else type(block)(tuple(bindings), block.span)

    def part(self, part: Any) -> Any:
        """Returns any part of a program; a field of a separated tuple is its variable."""
        new = super().part(part)
        if type(new) is TupleGetItem and isinstance(new.tuple_value, Tuple):
            return new.tuple_value.fields[new.index]
        return new
