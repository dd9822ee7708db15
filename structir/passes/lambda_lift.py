"""Closures made functions of the module."""

from __future__ import annotations

from collections.abc import Iterable

from structir.analysis.internal_functions import PRIVATE
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
    """Move functions inside functions to the module; what they read from around them becomes
    parameters.

    A closure that is handed on as a value, and reads something from around it, stays where it is.
    """
    functions: dict[str, Node] = dict(module.functions)
    todo = list(functions)
    while todo:  # what was lifted may hold functions again
        name = todo.pop(0)
        function, known = functions[name], len(functions)
        if isinstance(function, Function):
            functions[name] = _lifted(function, name, functions)
            todo += list(functions)[known:] if functions[name] is not function else []
            todo += [name] if functions[name] is not function else []
    same = all(functions[name] is value for name, value in module.functions.items())
    return module if same else module.with_functions(functions)


def _lifted(function: Function, name: str, functions: dict[str, Node]) -> Function:
    handed_on = _aliased(function)
    extra: dict[Var, tuple[GlobalVar, tuple[Expr, ...]]] = {}

    def called(binding: Binding) -> Iterable[Binding]:
        value = binding.value
        if isinstance(value, Call) and value.op in extra:
            callee, more = extra[value.op]
            return (replace(binding, value=replace(value, op=callee, args=(*value.args, *more))),)
        return (binding,)

    def out(binding: Binding) -> Iterable[Binding]:
        value = binding.value
        if not isinstance(value, Function):
            return called(binding)
        if extra:  # it may call what stood before it
            value = with_bindings(value, called)
            binding = binding if value is binding.value else replace(binding, value=value)
        captured = [var for var in free_vars(value) if var is not binding.var]
        dims = _open_dims(function, value, captured)
        recursive = binding.var in free_vars(value)
        if recursive or ((captured or dims) and binding.var in handed_on):
            return (binding,)
        own = _fresh(f"{name}_{binding.var.name}", functions)
        sizes = [ShapeExpr(tuple([as_dim(sym) for sym in dims]))] if dims else []
        made = _with_params(value, captured, sizes)
        functions[own] = made
        info: FuncStructInfo = made.struct_info
        there = GlobalVar(own, info)
        if not captured and not dims:
            return (VarBinding(binding.var, there, binding.span),)
        extra[binding.var] = there, (*captured, *sizes)
        return ()

    return with_bindings(function, out)


def _open_dims(outer: Function, closure: Function, captured: list[Var]) -> list[Sym]:
    """The dims of the function around it that nothing would tell if what is captured were
    parameters."""
    inside = {*bindings_of(closure)}
    casts = [b for b in bindings_of(outer) if isinstance(b, MatchCast) and b not in inside]
    infos = [p.struct_info for p in outer.params] + [cast.struct_info for cast in casts]
    around = bound_dims(infos)
    told = bound_dims([param.struct_info for param in (*closure.params, *captured)])
    used = symbols_in((closure, tuple(captured)))
    return [sym for sym in used if sym in around and sym not in told]


def _aliased(function: Function) -> set[Var]:
    """The closures that stand anywhere but as the callee of a call."""
    found: set[Var] = set(_read_by_results(function))
    closures = {b.var for b in bindings_of(function) if isinstance(b.value, Function)}
    for binding in bindings_of(function):
        value = binding.value
        if isinstance(value, Call):
            found |= {v for a in value.args for v in free_vars(a)} if value.args else set()
        elif not isinstance(value, Function):
            found |= set(free_vars(value))
    return found & closures


def _read_by_results(function: Function) -> list[Var]:
    """What the results of a function and of everything inside it read."""
    results = [function.body.body]
    for binding in bindings_of(function):
        value = binding.value
        for part in ("body", "true_branch", "false_branch"):
            inner = getattr(value, part, None)
            if inner is not None:
                results.append(inner.body)
    return [var for result in results for var in free_vars(result)]


def _with_params(function: Function, captured: list[Var], sizes: list[ShapeExpr]) -> Function:
    """The function with more parameters, for what it reads, and for the dims that nothing binds."""
    params = {var: Var(var.name, var.struct_info, var.span) for var in captured}
    shapes = [Var("sizes", ShapeStructInfo(shape.dims)) for shape in sizes]
    inside = Substitution(params).function(function)
    whole = replace(
        inside,
        params=(*inside.params, *params.values(), *shapes),
        attrs={**function.attrs, PRIVATE: True},
    )
    return Substitution(fresh=True).function(whole)


def _fresh(name: str, functions: dict[str, Node]) -> str:
    own, count = name, 1
    while own in functions:
        own, count = f"{name}_{count}", count + 1
    return own
