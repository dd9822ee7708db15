"""Inlining: calls of module functions become the bodies of the functions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from structir.analysis.calls import Binder, are_disjoint
from structir.analysis.dataflow_outputs import without_surplus_outputs
from structir.analysis.deduction import deduce
from structir.analysis.derivative_rules import rule_names
from structir.analysis.lattice import FAIL_L0, PASS, base_check
from structir.analysis.purity import FORCE_PURE, is_pure_value
from structir.analysis.substitution import Substitution
from structir.analysis.variables import symbols_in
from structir.errors import DiagnosticError
from structir.ir.binding_dims import standing_alone
from structir.ir.bodies import bindings_of, with_blocks
from structir.ir.expr import (
    Binding,
    BindingBlock,
    Call,
    DataflowBlock,
    DataflowVar,
    Expr,
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

LARGEST = 256  # bindings of a function that is inlined


def inline_calls(
    module: IRModule, *, largest: int = LARGEST, functions: str = "", keep_rules: bool = False
) -> IRModule:
    """Replaces calls by the bodies of the functions, and keeps every function.

    With `keep_rules`, calls remain of functions that declare derivatives and are not named.
    """
    named = set(functions.replace(",", " ").split())
    callees = {
        name: value
        for name, value in module.functions.items()
        if isinstance(value, Function)
        and (name in named if named else not (keep_rules and rule_names(value)))
    }
    order = _innermost_first(module, callees)
    functions_by_name: dict[str, Node] = dict(module.functions)
    for name in order:
        function = functions_by_name[name]
        if isinstance(function, Function):
            functions_by_name[name] = _inline(function, name, callees, functions_by_name, largest)
    return module.with_functions(functions_by_name)


def _innermost_first(module: IRModule, callees: dict[str, Function]) -> list[str]:
    """Returns callees before callers; recursive functions are removed from `callees`."""
    calls = {
        name: {c for c in _called(value) if c in module.functions}
        for name, value in module.functions.items()
        if isinstance(value, Function)
    }
    order: list[str] = []
    pending = dict(calls)
    while pending:
        ready = [name for name, needs in pending.items() if needs <= set(order)]
        if not ready:
            for name in pending:
                callees.pop(name, None)
            ready = list(pending)
        order += ready
        pending = {name: needs for name, needs in pending.items() if name not in ready}
    return order


def _called(function: Function) -> set[str]:
    values = [binding.value for binding in bindings_of(function)]
    ops = [value.op for value in values if isinstance(value, Call)]
    return {op.name for op in ops if isinstance(op, GlobalVar)}


def _inline(
    function: Function,
    caller: str,
    callees: dict[str, Function],
    functions_by_name: dict[str, Node],
    largest: int,
) -> Function:
    def in_block(block: BindingBlock) -> list[BindingBlock]:
        in_dataflow = isinstance(block, DataflowBlock)
        bindings = [new for b in block.bindings for new in expand_call(b, in_dataflow)]
        same = len(bindings) == len(block.bindings)
        if same and all(new is old for new, old in zip(bindings, block.bindings, strict=True)):
            return [block]
        return [replace(block, bindings=tuple(bindings))]

    def expand_call(binding: Binding, local: bool) -> Iterable[Binding]:
        call: Any = binding.value
        if not isinstance(call, Call) or not isinstance(call.op, GlobalVar):
            return (binding,)
        name = call.op.name
        callee = functions_by_name.get(name)
        if name not in callees or name == caller or not isinstance(callee, Function):
            return (binding,)
        bindings = callee.bindings()
        if len(bindings) > largest or len(call.args) != len(callee.params):
            return (binding,)
        if callee.attrs.get(FORCE_PURE):  # its effects are hidden only while it is a function
            return (binding,)
        if local and not all(map(_may_be_local, bindings)):
            return (binding,)
        try:
            body = _body_at(binding, call, callee, DataflowVar if local else Var)
        except DiagnosticError:  # a size would be negative: the call fails at run time
            return (binding,)
        return body if _may_be_valid(body) else (binding,)

    inlined = with_blocks(function, in_block)
    return function if inlined is function else without_surplus_outputs(inlined)


def _may_be_valid(bindings: list[Binding]) -> bool:
    """Whether no binding is provably wrong for these sizes; a wrong one fails at run time."""
    worklist = list(bindings)
    while worklist:
        binding = worklist.pop()
        value, info = binding.value, binding.var.struct_info
        if isinstance(value, If):
            worklist += (*value.true_branch.bindings(), *value.false_branch.bindings())
        elif isinstance(value, Function):
            worklist += value.bindings()
            continue
        try:
            inferred = deduce(value)
        except DiagnosticError:
            return False
        if base_check(info, inferred) is FAIL_L0:
            return False
    return True


def _may_be_local(binding: Binding) -> bool:
    """Whether a binding may occur in a dataflow block."""
    value = binding.value
    return is_pure_value(value) and not isinstance(value, If)


def _body_at(binding: Binding, call: Call, callee: Function, kind: type[Var]) -> list[Binding]:
    """Returns the bindings of a call's body, and that of its result."""
    dims = _sizes(call, callee)
    order = _binding_first(callee, dims)
    if order is None:
        return [binding]
    copier = Substitution(dims=dims, fresh=True)
    copier.new_dims([param.struct_info for param in callee.params])
    body: list[Binding] = []
    for param, argument in [(callee.params[k], call.args[k]) for k in order]:
        info = copier.info(param.struct_info)
        if are_disjoint(info, argument.struct_info):
            return [binding]  # the call fails at run time, with a message
        if base_check(info, argument.struct_info) is PASS and type(argument) is not Tuple:
            copier.variables[param] = argument
            continue
        var = kind(param.name, info, param.span)
        body.append(MatchCast(var, argument, info, call.span))
        copier.variables[param] = var
    for inner in callee.bindings():
        body.append(_of_kind(copier.binding(inner), inner, copier, kind))
    result = copier.part(callee.body.body)
    result_info = copier.info(callee.ret_struct_info)
    if are_disjoint(binding.var.struct_info, result_info):
        return [binding]
    if result.struct_info is None or base_check(result_info, result.struct_info) is not PASS:
        var = kind(binding.var.name, result_info, binding.span)
        body.append(MatchCast(var, result, result_info, call.span))
        result = var
    return _ending_in(binding, body, result)


def _ending_in(binding: Binding, body: list[Binding], result: Expr) -> list[Binding]:
    """Returns the bindings of a body, whose last one binds the variable of the call."""
    var = binding.var
    last = next((k for k, b in enumerate(body) if b.var is result), None)
    if last is None or result.struct_info != var.struct_info:
        return [*body, VarBinding(var, result, binding.span)]
    renamed = Substitution({body[last].var: var})
    ends = [replace(body[last], var=var), *map(renamed.binding, body[last + 1 :])]
    return [*body[:last], *ends]


def _binding_first(callee: Function, determined: dict[Any, Any]) -> list[int] | None:
    """Orders the parameters so that match_casts bind each size that no argument determines before
    its uses.

    Returns None if there is no such order.
    """
    infos = [param.struct_info for param in callee.params]
    unknown = set(standing_alone(infos)) - determined.keys()
    order: list[int] = []
    pending = list(range(len(infos)))
    while pending:
        for k in pending:
            bound = standing_alone([infos[k]]).keys()
            if not unknown & (symbols_in(infos[k]).keys() - bound):
                break
        else:
            return None
        order.append(k)
        pending.remove(k)
        unknown -= bound
    return order


def _sizes(call: Call, callee: Function) -> dict[Any, Any]:
    """Returns the sizes and axes that the arguments determine for the dims and row variables of the
    callee."""
    binder = Binder(callee.struct_info)
    for param, argument in zip(callee.params, call.args, strict=True):
        if argument.struct_info is not None:
            binder.bind(param.struct_info, argument.struct_info)
    return binder.bindings


def _of_kind(copied: Binding, inner: Binding, copier: Substitution, kind: type[Var]) -> Binding:
    """Returns a copied binding with a variable of the class of the new block."""
    var = kind(copied.var.name, copied.var.struct_info, copied.var.span)
    copier.variables[inner.var] = var
    return replace(copied, var=var)
