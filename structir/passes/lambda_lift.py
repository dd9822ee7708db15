"""Turns closures into functions of the module."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from typing import Any

from structir.analysis.internal_functions import PRIVATE
from structir.analysis.lattice import PASS, base_check
from structir.analysis.substitution import Substitution
from structir.analysis.variables import free_vars, symbols_in
from structir.ir.binding_dims import bound_dims
from structir.ir.bodies import bindings_of, with_bindings
from structir.ir.dims import Sym, as_dim
from structir.ir.expr import (
    Binding,
    Call,
    Expr,
    Function,
    GlobalVar,
    MatchCast,
    ShapeExpr,
    Var,
    VarBinding,
)
from structir.ir.module import IRModule
from structir.ir.node import Node, replace
from structir.ir.struct_info import FuncStructInfo, ShapeStructInfo
from structir.passes.base import module_pass


@module_pass
def lambda_lift(module: IRModule) -> IRModule:
    """Moves nested functions to the module; captured variables become parameters.

    A closure that captures variables and is used other than as a callee is not moved.
    """
    functions: dict[str, Node] = dict(module.functions)
    worklist = list(functions)
    while worklist:  # a lifted function may contain functions
        name = worklist.pop(0)
        function, count = functions[name], len(functions)
        if isinstance(function, Function):
            functions[name] = _lift(function, name, functions)
            worklist += list(functions)[count:] if functions[name] is not function else []
            worklist += [name] if functions[name] is not function else []
    same = all(functions[name] is value for name, value in module.functions.items())
    return module if same else module.with_functions(functions)


def _lift(function: Function, name: str, functions: dict[str, Node]) -> Function:
    aliased = _aliased(function)
    extra: dict[Var, tuple[GlobalVar, tuple[Expr, ...]]] = {}

    def update_call(binding: Binding) -> Iterable[Binding]:
        value = binding.value
        if isinstance(value, Call) and isinstance(value.op, Var) and value.op in extra:
            callee, more = extra[value.op]
            return (replace(binding, value=replace(value, op=callee, args=(*value.args, *more))),)
        return (binding,)

    def lift_closure(binding: Binding) -> Iterable[Binding]:
        value = binding.value
        if not isinstance(value, Function):
            return update_call(binding)
        if extra:  # it may call earlier closures
            value = with_bindings(value, update_call)
            binding = binding if value is binding.value else replace(binding, value=value)
        free = free_vars(value)
        captured = [var for var in free if var is not binding.var]
        enclosing = _dims_of(function, value)
        checks = _checks_dims(binding, function, enclosing)
        determining = captured if checks else [*value.params, *captured]
        dims = _open_dims(enclosing, value, captured, determining)
        recursive = len(captured) < len(free)
        if recursive or ((captured or dims) and binding.var in aliased):
            return (binding,)
        global_name = _fresh(f"{name}_{binding.var.name}", functions)
        sizes = [ShapeExpr(tuple([as_dim(sym) for sym in dims]))] if dims else []
        lifted = _with_params(value, captured, sizes)
        functions[global_name] = lifted
        info: FuncStructInfo = lifted.struct_info
        global_var = GlobalVar(global_name, info)
        if not captured and not dims:
            return (VarBinding(binding.var, global_var, binding.span),)
        extra[binding.var] = global_var, (*captured, *sizes)
        return ()

    return with_bindings(function, lift_closure)


def _open_dims(
    enclosing: Set[Sym], closure: Function, captured: list[Var], determining: Sequence[Var]
) -> list[Sym]:
    """Returns the dims of the enclosing function that a closure uses and that these variables do
    not determine."""
    determined = bound_dims([var.struct_info for var in determining])
    used = symbols_in((closure, tuple(captured)))
    return [sym for sym in used if sym in enclosing and sym not in determined]


def _dims_of(outer: Function, closure: Function) -> Set[Sym]:
    """Returns the dims that a function binds outside of a closure."""
    nested = {*bindings_of(closure)}
    casts = [b for b in bindings_of(outer) if isinstance(b, MatchCast) and b not in nested]
    return bound_dims([p.struct_info for p in outer.params] + [c.struct_info for c in casts])


def _checks_dims(binding: Binding, function: Function, dims: Set[Sym]) -> bool:
    """Returns whether a call checks at run time that an argument has these dims of the enclosing
    function: a parameter does not bind them."""
    calls = [b.value for b in bindings_of(function) if isinstance(b.value, Call)]
    closure: Any = binding.value
    return any(
        not dims.isdisjoint(symbols_in(param)) and base_check(param.struct_info, info) is not PASS
        for call in calls
        if call.op is binding.var
        for param, info in zip(closure.params, [a.struct_info for a in call.args], strict=False)
    )


def _aliased(function: Function) -> set[Var]:
    """Returns the closures used other than as the callee of a call."""
    used: set[Var] = set(_result_vars(function))
    closures = {b.var for b in bindings_of(function) if isinstance(b.value, Function)}
    for binding in bindings_of(function):
        value = binding.value
        if isinstance(value, Call):
            used |= {v for a in value.args for v in free_vars(a)} if value.args else set()
        elif not isinstance(value, Function):
            used |= set(free_vars(value))
    return used & closures


def _result_vars(function: Function) -> list[Var]:
    """Returns the variables in the results of a function and of all nested sequences."""
    results = [function.body.body]
    for binding in bindings_of(function):
        value = binding.value
        for part in ("body", "true_branch", "false_branch"):
            inner = getattr(value, part, None)
            if inner is not None:
                results.append(inner.body)
    return [var for result in results for var in free_vars(result)]


def _with_params(function: Function, captured: list[Var], sizes: list[ShapeExpr]) -> Function:
    """Returns the function with more parameters, for captured variables and unbound dims."""
    params = {var: Var(var.name, var.struct_info, var.span) for var in captured}
    shapes = [Var("sizes", ShapeStructInfo(shape.dims)) for shape in sizes]
    substituted = Substitution(params).function(function)
    extended = replace(
        substituted,
        params=(*substituted.params, *params.values(), *shapes),
        attrs={**function.attrs, PRIVATE: True},
    )
    return Substitution(fresh=True).function(extended)


def _fresh(name: str, functions: dict[str, Node]) -> str:
    global_name, count = name, 1
    while global_name in functions:
        global_name, count = f"{name}_{count}", count + 1
    return global_name
