"""Infers StructInfos again where those of values became more precise."""

from __future__ import annotations

from typing import Any

from structir.analysis.deduction import deduce
from structir.analysis.lattice import PASS, base_check
from structir.analysis.substitution import Substitution
from structir.errors import StructInfoError
from structir.ir.expr import (
    Binding,
    Call,
    Expr,
    If,
    MatchCast,
    SeqExpr,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
)
from structir.ir.node import replace
from structir.ir.struct_info import StructInfo

DEDUCED = (Call, If, Tuple, TupleGetItem, Var)


class Refinement(Substitution):
    """Rebuilds a function so that each variable has the StructInfo of its value, where that is the
    more precise one."""

    def sequence(self, seq: SeqExpr) -> SeqExpr:
        """Returns a sequence with the StructInfo of its result."""
        new = super().sequence(seq)
        info = new.body.struct_info
        refined = new.struct_info is not None and _is_refined(new.struct_info, info)
        return replace(new, struct_info=info) if refined else new

    def binding(self, binding: Binding) -> Binding:
        """Returns a binding; its variable is new if the value has a more precise StructInfo."""
        new = super().binding(binding)
        if isinstance(new, MatchCast) or not isinstance(new.value, DEDUCED):
            return new
        value = new.value if new.value is binding.value else _deduced(new.value)
        if not _is_refined(new.var.struct_info, value.struct_info):
            return new
        info: Any = value.struct_info
        var: Var = type(new.var)(new.var.name, info, new.var.span)
        self.variables[binding.var] = var
        self.infos.clear()
        return VarBinding(var, value, binding.span)


def _deduced(value: Expr) -> Expr:
    if isinstance(value, Tuple | Var):  # which has that of its parts
        return value
    try:
        return replace(value, struct_info=deduce(value))
    except StructInfoError:  # a run of the program raises it
        return value


def _is_refined(old: StructInfo, new: StructInfo | None) -> bool:
    return new is not None and new != old and base_check(old, new) is PASS
