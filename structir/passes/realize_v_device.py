"""Places values of unknown vdevice on the vdevice of their users."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from structir.analysis.deduction import deduce
from structir.analysis.substitution import Substitution
from structir.analysis.vdevices import (
    destination_of,
    vdevices_of,
    with_default_vdevice,
    with_vdevices_of,
)
from structir.errors import DiagnosticError
from structir.ir.expr import (
    Call,
    Expr,
    Function,
    GlobalVar,
    If,
    SeqExpr,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
)
from structir.ir.module import IRModule
from structir.ir.node import Node, parts, replace
from structir.ir.op import Op
from structir.ir.struct_info import StructInfo
from structir.ir.vdevice import VDevice
from structir.passes.base import module_pass


@module_pass(aliases=("realize_vdevice",))
def realize_v_device(module: IRModule) -> IRModule:
    """Places values of unknown vdevice where their users are, from results to parameters.

    A value with users on several vdevices stays unplaced. Functions that others call, and functions
    where a call would need a move, are unchanged.
    """
    called = _called_functions(module)
    functions = {
        name: member
        if name in called or not isinstance(member, Function)
        else _place_values(member)
        for name, member in module.functions.items()
    }
    if all(functions[name] is member for name, member in module.functions.items()):
        return module
    return module.with_functions(functions)


def _place_values(function: Function) -> Function:
    """Places values to a fixed point; each round places at least one."""
    while (placed := _Placement(function).result()) is not function:
        function = placed
    return function


def _called_functions(module: IRModule) -> set[str]:
    names: set[str] = set()
    visited: set[int] = set()
    todo: list[Any] = [*module.functions.values()]
    while todo:
        item = todo.pop()
        if id(item) not in visited:
            visited.add(id(item))
            names |= {item.name} if isinstance(item, GlobalVar) else set()
            todo += [part for part in parts(item) if isinstance(part, Node)]
    return names


class _Placement(Substitution):
    """Places the values of one function."""

    def __init__(self, function: Function) -> None:
        super().__init__()
        self.source = function
        self.users: dict[Var, set[VDevice]] = {}  # the vdevices of the users of each value

    def result(self) -> Function:
        """Returns the function with its values placed, or the same function."""
        declared = self.source.ret_struct_info
        self.use(self.source.body.body, set(vdevices_of(declared)))
        self.visit(self.source.body)
        try:
            placed = self.function(self.source)
        except DiagnosticError:  # some call has operands with users on different vdevices
            return self.source
        if placed is self.source:
            return placed
        info = with_vdevices_of(declared, deduce(placed.body.body))
        return replace(placed, ret_struct_info=info)

    def visit(self, seq: SeqExpr) -> None:
        """Collects the vdevices of users, from the last binding to the first."""
        for binding in reversed([*seq.bindings()]):
            vdevices = set(vdevices_of(binding.var.struct_info)) or self.users.get(binding.var)
            value = binding.value
            if isinstance(value, If):
                for branch in (value.true_branch, value.false_branch):
                    self.use(branch.body, vdevices)
                    self.visit(branch)
            elif destination_of(value) is None and _runs_on_one_device(value):
                for operand in _operands(value):
                    self.use(operand, vdevices)

    def use(self, value: Any, vdevices: set[VDevice] | None) -> None:
        """Adds a use of a value by a user on these vdevices."""
        if isinstance(value, Var) and vdevices and len(vdevices) == 1:
            self.users.setdefault(value, set()).update(vdevices)

    def bound(self, var: Var) -> Var:
        vdevices = self.users.get(var, set())
        if len(vdevices) != 1:
            return super().bound(var)
        info = with_default_vdevice(var.struct_info, *vdevices)
        return super().bound(var) if info is var.struct_info else self.renamed(var, info)

    def renamed(self, var: Var, info: StructInfo) -> Var:
        """Returns a variable of another StructInfo, which replaces this one."""
        new = self.variables[var] = type(var)(var.name, info, var.span)
        return new

    def binding(self, binding: Any) -> Any:
        new = super().binding(binding)
        if new is binding or not isinstance(new, VarBinding):
            return new
        deduced, value = deduce(new.value), new.value
        if isinstance(value, Call | If | TupleGetItem):
            value = replace(value, struct_info=deduced)
        info = with_vdevices_of(new.var.struct_info, deduced)
        var = new.var if info is new.var.struct_info else self.renamed(binding.var, info)
        return replace(new, var=var, value=value)

    def sequence(self, seq: SeqExpr) -> SeqExpr:
        new = super().sequence(seq)
        if new is seq or new.struct_info is None:
            return new
        return replace(new, struct_info=with_vdevices_of(new.struct_info, deduce(new.body)))


def _runs_on_one_device(value: Expr) -> bool:
    """Returns whether the result and the operands of a value are on one vdevice."""
    if not isinstance(value, Call):
        return isinstance(value, Var)
    return isinstance(value.op, Op) and "struct_info" not in value.op.definition.hooks  # type: ignore[attr-defined]


def _operands(value: Any) -> Iterator[Any]:
    """Yields the operands of a call, also those in tuples, or the value of an alias."""
    for operand in value.args if isinstance(value, Call) else [value]:
        if isinstance(operand, Tuple):
            yield from operand.fields
        else:
            yield operand
