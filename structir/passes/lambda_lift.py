"""Turns closures into functions of the module."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Set
from typing import Any, NamedTuple

import attrs

from structir.analysis.closures import with_captured
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
    If,
    MatchCast,
    ShapeExpr,
    Var,
    VarBinding,
)
from structir.ir.module import IRModule
from structir.ir.node import Node, replace
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
            worklist += list(functions)[count:]
    same = all(functions[name] is value for name, value in module.functions.items())
    return module if same else module.with_functions(functions)


def _lift(function: Function, name: str, functions: dict[str, Node]) -> Function:
    """Returns a function without the closures that become functions of the module.

    An outer closure moves together with the closures in it. Closures that do not capture each other
    move at once.
    """
    if not any([type(binding.value) is Function for binding in bindings_of(function)]):
        return function
    function = _without_aliases(function)
    while moves := _next_moves(function):  # they may end the other uses of a closure
        callees: dict[Var, _Callee] = {}
        for var, closure, captured, sizes in moves:
            global_name = _fresh(f"{name}_{var.name}", functions)
            info = with_captured(closure, captured, sizes).struct_info
            callee = _Callee(var, GlobalVar(global_name, info), (*captured, *sizes))
            itself = _called_in(closure, {var: callee})
            functions[global_name] = with_captured(itself, captured, sizes)
            callees[var] = callee
        function = _called_in(_without(function, callees), callees)
    return function


class _Move(NamedTuple):
    """A closure that becomes a function of the module, with the values and sizes it captures."""

    var: Var
    closure: Function
    captured: list[Var]
    sizes: list[ShapeExpr]


def _next_moves(function: Function) -> list[_Move]:
    """Returns closures that may move now; outer ones precede inner ones, which move later, as do
    those that capture closures of the list."""
    surroundings = _Surroundings.of(function)
    moves: dict[Var, _Move] = {}
    inside: set[Binding] = set()  # bindings of the closures that move
    for binding in bindings_of(function):
        var, closure = binding.var, binding.value
        if not isinstance(closure, Function) or binding in inside:
            continue
        captured = [v for v in free_vars(closure) if v is not var]
        if not moves.keys().isdisjoint(captured):
            continue
        dims = surroundings.open_dims(var, closure, captured)
        if var not in surroundings.values or not (captured or dims):
            sizes = [ShapeExpr(tuple([as_dim(sym) for sym in dims]))] if dims else []
            moves[var] = _Move(var, closure, captured, sizes)
            inside.update(bindings_of(closure))
    return list(moves.values())


class _Callee(NamedTuple):
    """The function of a module that a closure becomes, with the arguments of each of its calls."""

    var: Var
    function: GlobalVar
    more: tuple[Expr, ...]


def _called_in(caller: Function, callees: Mapping[Var, _Callee]) -> Function:
    """Returns a function that uses functions of the module in place of closures."""

    def called(binding: Binding) -> Iterable[Binding]:
        value = binding.value
        if not isinstance(value, Call) or not isinstance(value.op, Var):
            return (binding,)
        callee = callees.get(value.op)
        if callee is None or not callee.more:
            return (binding,)
        return (replace(binding, value=replace(value, args=(*value.args, *callee.more))),)

    caller = with_bindings(caller, called)
    return Substitution({var: each.function for var, each in callees.items()}).function(caller)


def _without(function: Function, variables: Collection[Var]) -> Function:
    return with_bindings(function, lambda b: () if b.var in variables else (b,))


def _without_aliases(function: Function) -> Function:
    """Returns a function that uses closures under one name: `g = f` is removed."""
    closures: dict[Var, Var] = {}
    for binding in bindings_of(function):
        value = binding.value
        if isinstance(value, Function):
            closures[binding.var] = binding.var
        elif isinstance(binding, VarBinding) and isinstance(value, Var) and value in closures:
            closures[binding.var] = closures[value]
    aliases = {var: closure for var, closure in closures.items() if var is not closure}
    return Substitution(aliases).function(_without(function, aliases)) if aliases else function


@attrs.frozen(eq=False)
class _Surroundings:
    """What closures of a function may depend on: the dims that are bound, and the uses."""

    binders: Counter[Any]  # the number of parameters and casts that bind a dim
    calls: Mapping[Expr, list[Call]]  # by callee
    values: set[Var]  # closures used other than as the callee of a call

    @classmethod
    def of(cls, function: Function) -> _Surroundings:
        """Returns those of all closures in a function."""
        calls: dict[Expr, list[Call]] = defaultdict(list)
        for binding in bindings_of(function):
            if isinstance(binding.value, Call) and isinstance(binding.value.op, Var):
                calls[binding.value.op].append(binding.value)
        return cls(_binders(function), calls, _used_as_values(function))

    def open_dims(self, var: Var, closure: Function, captured: list[Var]) -> list[Sym]:
        """Returns the dims of the enclosing functions that the captured variables do not determine,
        nor the parameters if every call proves their sizes."""
        used = symbols_in((closure, tuple(captured)))
        inner = _binders(closure) if used else self.binders
        enclosing = {sym for sym in used if self.binders[sym] > inner[sym]}
        if not enclosing:
            return []
        checked = any(_checks_dims(call, closure, enclosing) for call in self.calls.get(var, ()))
        determining = captured if checked else [*closure.params, *captured]
        determined = bound_dims([each.struct_info for each in determining])
        return [sym for sym in used if sym in enclosing and sym not in determined]


def _binders(function: Function) -> Counter[Any]:
    """Returns how many parameters and casts of a function, and of those in it, bind each dim."""
    infos = [param.struct_info for param in function.params]
    for binding in bindings_of(function):
        if isinstance(binding, MatchCast):
            infos.append(binding.struct_info)
        elif isinstance(binding.value, Function):
            infos += [param.struct_info for param in binding.value.params]
    return Counter(sym for info in infos for sym in bound_dims([info]))


def _checks_dims(call: Call, closure: Function, dims: Set[Sym]) -> bool:
    """Returns whether a call checks at run time that an argument has these dims of the enclosing
    function: a parameter does not bind them."""
    pairs = zip(closure.params, [arg.struct_info for arg in call.args], strict=False)
    return any(
        not dims.isdisjoint(symbols_in(param)) and base_check(param.struct_info, info) is not PASS
        for param, info in pairs
    )


def _used_as_values(function: Function) -> set[Var]:
    """Returns the closures used other than as the callee of a call."""
    used: set[Var] = set(_result_vars(function))
    closures = {b.var for b in bindings_of(function) if isinstance(b.value, Function)}
    for binding in bindings_of(function):
        used.update([var for part in _operands(binding.value) for var in free_vars(part)])
    return used & closures


def _operands(value: Expr) -> tuple[Expr, ...]:
    """Returns the operands of a bound value, without those of the bindings in it."""
    match value:
        case Call(args=args):
            return tuple(args)
        case If(cond=cond):
            return (cond,)
        case Function():
            return ()
    return (value,)


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


def _fresh(name: str, functions: dict[str, Node]) -> str:
    global_name, count = name, 1
    while global_name in functions:
        global_name, count = f"{name}_{count}", count + 1
    return global_name
