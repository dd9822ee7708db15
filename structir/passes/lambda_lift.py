"""Turns closures into functions of the module."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Set
from typing import NamedTuple

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

    An outer closure moves together with the closures in it.
    """
    function = _without_aliases(function)
    while (move := _next_move(function)) is not None:  # it may end the other uses of a closure
        var, closure, captured, sizes = move
        global_name = _fresh(f"{name}_{var.name}", functions)
        info = with_captured(closure, captured, sizes).struct_info
        callee = _Callee(var, GlobalVar(global_name, info), (*captured, *sizes))
        functions[global_name] = with_captured(callee.called_in(closure), captured, sizes)
        function = callee.called_in(_without(function, {var}))
    return function


class _Move(NamedTuple):
    """A closure that becomes a function of the module, with the values and sizes it captures."""

    var: Var
    closure: Function
    captured: list[Var]
    sizes: list[ShapeExpr]


def _next_move(function: Function) -> _Move | None:
    """Returns the first closure that may move; outer ones precede inner ones."""
    values = _used_as_values(function)
    for binding in bindings_of(function):
        var, closure = binding.var, binding.value
        if not isinstance(closure, Function):
            continue
        captured = [v for v in free_vars(closure) if v is not var]
        dims = _open_dims(function, var, closure, captured)
        if var not in values or not (captured or dims):
            sizes = [ShapeExpr(tuple([as_dim(sym) for sym in dims]))] if dims else []
            return _Move(var, closure, captured, sizes)
    return None


class _Callee:
    """The function of a module that a closure becomes, with the arguments of each of its calls."""

    def __init__(self, var: Var, function: GlobalVar, more: tuple[Expr, ...]) -> None:
        self.var, self.function, self.more = var, function, more

    def called_in(self, caller: Function) -> Function:
        """Returns a function that uses the function of the module in place of the closure."""
        caller = with_bindings(caller, self._called) if self.more else caller
        return Substitution({self.var: self.function}).function(caller)

    def _called(self, binding: Binding) -> Iterable[Binding]:
        value = binding.value
        if not isinstance(value, Call) or value.op is not self.var:
            return (binding,)
        return (replace(binding, value=replace(value, args=(*value.args, *self.more))),)


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


def _open_dims(outer: Function, var: Var, closure: Function, captured: list[Var]) -> list[Sym]:
    """Returns the dims of the enclosing function that the captured variables do not determine, nor
    the parameters if every call proves their sizes."""
    nested = {*bindings_of(closure)}
    bindings = [b for b in bindings_of(outer) if b not in nested]
    infos = [cast.struct_info for cast in bindings if isinstance(cast, MatchCast)]
    functions = [b.value for b in bindings if isinstance(b.value, Function)]
    for function in (outer, *functions):
        infos += [p.struct_info for p in function.params] if function is not closure else []
    enclosing = bound_dims(infos)
    checked = any(_checks_dims(call, closure, enclosing) for call in _calls_of(var, outer))
    determining = captured if checked else [*closure.params, *captured]
    determined = bound_dims([each.struct_info for each in determining])
    used = symbols_in((closure, tuple(captured)))
    return [sym for sym in used if sym in enclosing and sym not in determined]


def _calls_of(var: Var, outer: Function) -> Iterator[Call]:
    """Yields the calls of a closure."""
    for binding in bindings_of(outer):
        if isinstance(binding.value, Call) and binding.value.op is var:
            yield binding.value


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
