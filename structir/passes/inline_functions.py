"""Calls of functions of the module replaced by what the functions do."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from structir.analysis.calls import Binder, are_disjoint, contradicts
from structir.analysis.deduction import deduce
from structir.analysis.lattice import FAIL_L0, PASS, base_check
from structir.analysis.purity import FORCE_PURE, is_pure_value
from structir.analysis.substitution import Substitution
from structir.analysis.variables import symbols_in
from structir.errors import DiagnosticError
from structir.ir.binding_dims import standing_alone
from structir.ir.bodies import bindings_of, with_bindings
from structir.ir.expr import (
    Binding,
    Call,
    DataflowVar,
    Function,
    GlobalVar,
    If,
    MatchCast,
    Tuple,
    Var,
    VarBinding,
)
from structir.ir.module import IRModule
from structir.ir.node import Node, replace
from structir.passes.base import module_pass

LARGEST = 256  # bindings of a function that is put in place of its calls


@module_pass(aliases=("inline",))
def inline_functions(module: IRModule, *, largest: int = LARGEST, functions: str = "") -> IRModule:
    """Put the bodies of functions, or of those that are named, in the place of their calls.

    What a function checks of its arguments stays checked, by match_casts. A function that calls
    itself, has more than `largest` bindings, has branches or effects where the call stands in a
    dataflow block, or has parameters of which each takes a size of the other, stays a function.
    """
    named = set(functions.replace(",", " ").split())
    callees = {
        name: value
        for name, value in module.functions.items()
        if isinstance(value, Function) and (name in named or not named)
    }
    order = _innermost_first(module, callees)
    done: dict[str, Node] = dict(module.functions)
    for name in order:
        function = done[name]
        if isinstance(function, Function):
            done[name] = _inlined(function, name, callees, done, largest)
    same = all(done[name] is value for name, value in module.functions.items())
    return module if same else module.with_functions(done)


def _innermost_first(module: IRModule, callees: dict[str, Function]) -> list[str]:
    """Callees before callers; those on a circle are no callees any more."""
    calls = {
        name: {c for c in _called(value) if c in module.functions}
        for name, value in module.functions.items()
        if isinstance(value, Function)
    }
    order: list[str] = []
    waiting = dict(calls)
    while waiting:
        ready = [name for name, needs in waiting.items() if needs <= set(order)]
        if not ready:
            for name in waiting:
                callees.pop(name, None)
            ready = list(waiting)
        order += ready
        waiting = {name: needs for name, needs in waiting.items() if name not in ready}
    return order


def _called(function: Function) -> set[str]:
    values = [binding.value for binding in bindings_of(function)]
    ops = [value.op for value in values if isinstance(value, Call)]
    return {op.name for op in ops if isinstance(op, GlobalVar)}


def _inlined(
    function: Function,
    own: str,
    callees: dict[str, Function],
    done: dict[str, Node],
    largest: int,
) -> Function:
    def in_place(binding: Binding) -> Iterable[Binding]:
        call: Any = binding.value
        if not isinstance(call, Call) or not isinstance(call.op, GlobalVar):
            return (binding,)
        name = call.op.name
        callee = done.get(name)
        if name not in callees or name == own or not isinstance(callee, Function):
            return (binding,)
        local = isinstance(binding.var, DataflowVar)
        bindings = callee.bindings()
        if len(bindings) > largest or len(call.args) != len(callee.params):
            return (binding,)
        if callee.attrs.get(FORCE_PURE):  # its effects are its own only as long as it is a function
            return (binding,)
        if local and not all(map(_may_be_local, bindings)):
            return (binding,)
        try:
            made = _body_at(binding, call, callee, DataflowVar if local else Var)
        except DiagnosticError:  # a size would be negative: it fails when it is called
            return (binding,)
        return made if _may_hold(made) else (binding,)

    return with_bindings(function, in_place)


def _may_hold(bindings: list[Binding]) -> bool:
    """Whether nothing is provably wrong: one of the function for these sizes fails when it runs."""
    todo = list(bindings)
    while todo:
        binding = todo.pop()
        value, info = binding.value, binding.var.struct_info
        if isinstance(value, If):
            todo += (*value.true_branch.bindings(), *value.false_branch.bindings())
        elif isinstance(value, Function):
            todo += value.bindings()
            continue
        try:
            known = deduce(value)
        except DiagnosticError:
            return False
        if base_check(info, known) is FAIL_L0 or contradicts(info, known):
            return False
    return True


def _may_be_local(binding: Binding) -> bool:
    """Whether a binding may stand in a dataflow block."""
    value = binding.value
    return is_pure_value(value) and not isinstance(value, If)


def _body_at(binding: Binding, call: Call, callee: Function, kind: type[Var]) -> list[Binding]:
    """The bindings of a call's body, and that of its result."""
    known = _sizes(call, callee)
    order = _binding_first(callee, known)
    if order is None:
        return [binding]
    copier = Substitution(dims=known, fresh=True)
    copier.new_dims([param.struct_info for param in callee.params])
    made: list[Binding] = []
    for param, argument in [(callee.params[k], call.args[k]) for k in order]:
        info = copier.info(param.struct_info)
        if are_disjoint(info, argument.struct_info):
            return [binding]  # it fails when it is called, and says how
        if base_check(info, argument.struct_info) is PASS and type(argument) is not Tuple:
            copier.variables[param] = argument
            continue
        var = kind(param.name, info, param.span)
        made.append(MatchCast(var, argument, info, call.span))
        copier.variables[param] = var
    for inner in callee.bindings():
        made.append(_of_kind(copier.binding(inner), inner, copier, kind))
    result = copier.part(callee.body.body)
    stated = copier.info(callee.ret_struct_info)
    if are_disjoint(binding.var.struct_info, stated):
        return [binding]
    if result.struct_info is None or base_check(stated, result.struct_info) is not PASS:
        var = kind(binding.var.name, stated, binding.span)
        made.append(MatchCast(var, result, stated, call.span))
        result = var
    return [*made, VarBinding(binding.var, result, binding.span)]


def _binding_first(callee: Function, known: dict[Any, Any]) -> list[int] | None:
    """The parameters in an order in which match_casts bind each size that no argument tells before
    they mention it; None where there is none."""
    infos = [param.struct_info for param in callee.params]
    unknown = set(standing_alone(infos)) - known.keys()
    order: list[int] = []
    waiting = list(range(len(infos)))
    while waiting:
        for k in waiting:
            bound = standing_alone([infos[k]]).keys()
            if not unknown & (symbols_in(infos[k]).keys() - bound):
                break
        else:
            return None
        order.append(k)
        waiting.remove(k)
        unknown -= bound
    return order


def _sizes(call: Call, callee: Function) -> dict[Any, Any]:
    """The sizes and axes that the arguments are known to give the callee's dims and rows."""
    binder = Binder(callee.struct_info)
    for param, argument in zip(callee.params, call.args, strict=True):
        if argument.struct_info is not None:
            binder.bind(param.struct_info, argument.struct_info)
    return {**binder.sizes, **binder.rows}


def _of_kind(copied: Binding, inner: Binding, copier: Substitution, kind: type[Var]) -> Binding:
    """A copied binding with a variable of the kind that its new block holds."""
    var = kind(copied.var.name, copied.var.struct_info, copied.var.span)
    copier.variables[inner.var] = var
    return replace(copied, var=var)
