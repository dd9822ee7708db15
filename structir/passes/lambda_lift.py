"""Lifts closures to module functions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from typing import Any, NamedTuple

import attrs

from structir.analysis.calls import derive_call_ret_struct_info
from structir.analysis.closures import Scope, scopes_of, with_captured
from structir.analysis.lattice import PASS, base_check
from structir.analysis.loop_view import LoopView
from structir.analysis.substitution import Substitution
from structir.analysis.variables import ProgramNames, free_symbols_in, free_vars, names_in
from structir.errors import StructInfoError
from structir.ir.binding_dims import bound_dims, row_size_of
from structir.ir.bodies import bindings_of, with_bindings
from structir.ir.dims import Sym, as_dim
from structir.ir.expr import (
    Binding,
    BindingBlock,
    Call,
    Constant,
    Expr,
    Function,
    GlobalVar,
    If,
    MatchCast,
    SeqExpr,
    ShapeExpr,
    Var,
    VarBinding,
)
from structir.ir.module import IRModule, numbered_name
from structir.ir.node import Node, replace
from structir.ir.op import Op
from structir.ir.struct_info import StructInfo, leaf_infos
from structir.passes.base import module_pass
from structir.system.locks import cached_property

Names = dict[Function, ProgramNames]  # of closures, which remain the same object if moved


@module_pass
def lambda_lift(module: IRModule) -> IRModule:
    """Moves nested functions to the module; captured variables become parameters.

    Sizes of enclosing functions become parameters as well. A value that binds a row or a dtype
    variable is passed where no other argument does.

    Not moved are closures that capture variables and are used other than as a callee, those that
    mention a row or a dtype variable that no value in scope binds, and those with a call that
    cannot pass the checks of the function: it fails at run time, if it is reached.
    """
    lifting = _Lifting(dict(module.functions))
    for name in lifting.worklist:  # which grows: a lifted function may contain functions
        lifting.lift(name)
    return module.with_functions(lifting.functions)


class _Callee(NamedTuple):
    """The module function of a lifted closure, with the additional arguments of its calls."""

    function: GlobalVar
    more: tuple[Expr, ...]


Callees = Mapping[Var, _Callee]


@attrs.define(eq=False)
class _Lifting:
    """The functions of a module while closures become functions of the module."""

    functions: dict[str, Node]
    names: Names = attrs.Factory(dict)
    callees: dict[str, dict[Var, _Callee]] = attrs.Factory(dict)  # of functions that were closures
    leaves: set[str] = attrs.Factory(set)  # functions that contain no closures
    worklist: list[str] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.worklist = list(self.functions)

    def lift(self, name: str) -> None:
        """Lifts the closures of a function.

        Closures that do not capture each other move at once. A function that was a closure becomes
        a copy: it shares its names with the function around it.
        """
        function = self.functions[name]
        if not isinstance(function, Function):
            return
        is_copied = name in self.callees
        callees: Callees = self.callees.get(name, {})
        bindings = [] if name in self.leaves else list(bindings_of(function))
        more = any([type(b.value) is Function and b.var not in callees for b in bindings])
        if more and callees:
            function = _Copy(callees).function(function)
            bindings = list(bindings_of(function))
        if more:
            without = _without_aliases(function, bindings)
            bindings = bindings if without is function else list(bindings_of(without))
            function = without
        while more:  # moves may end the other uses of a closure
            uses = _ClosureUses.of(function, bindings)
            moves, more = _next_moves(uses, self.names)
            callees = self._moved(moves, name)
            exports = {
                value: Var(value.name, value.struct_info, value.span)
                for move in moves
                if type(move.var) is Var
                for value in move.captured
                if type(value) is not Var
            }  # dataflow variables that calls outside of their block pass
            if callees and (more or exports or not is_copied):
                function, callees = _called_in(function, callees, uses), {}
            function = _export_dataflow_vars(function, exports) if exports else function
            bindings = list(bindings_of(function)) if more else []
        if is_copied:
            copier = _Copy(callees, fresh=True) if callees else Substitution(fresh=True)
            function = copier.function(function)
        self.functions[name] = function

    def _moved(self, moves: Iterable[_Move], name: str) -> Callees:
        """Adds functions for closures of the function of this name to the module.

        Returns those that the function calls; the others are called in closures that move, too.
        """
        callees: dict[Var, _Callee] = {}
        moved: dict[Var, tuple[str, set[Var]]] = {}  # names, and values whose parameters are new
        inner: dict[str, Set[Var]] = {}  # closures of new functions
        for var, closure, captured, sizes, is_recursive, around, closures in moves:
            parent, changed = (name, set()) if around is None else moved.get(around, ("", set()))
            if not parent or not changed.isdisjoint(captured):
                continue  # moves with the closures of the function around it
            global_name = numbered_name(f"{parent}_{var.name}", self.functions)
            lifted = with_captured(closure, captured, sizes)
            function = GlobalVar(global_name, lifted.struct_info)
            more = lifted.params[len(closure.params) :]
            callee = _Callee(function, (*captured, *sizes))
            (callees if around is None else self.callees[parent])[var] = callee
            moved[var] = global_name, set(captured).difference(more)
            self.functions[global_name] = lifted
            self.callees[global_name] = {var: _Callee(function, more)} if is_recursive else {}
            self.worklist.append(global_name)
            inner[global_name] = closures
        self.leaves.update([name for name, closures in inner.items() if closures <= moved.keys()])
        return callees


def _export_dataflow_vars(function: Function, names: Mapping[Var, Var]) -> Function:
    """Returns a function in which dataflow variables are outputs of their blocks."""
    function = Substitution(names).function(function)
    return with_bindings(
        function, lambda b: (replace(b, var=names[b.var]) if b.var in names else b,)
    )


class _Move(NamedTuple):
    """A closure that becomes a function of the module, with the values and sizes it captures."""

    var: Var
    closure: Function
    captured: list[Var]
    sizes: list[ShapeExpr]
    is_recursive: bool
    around: Var | None  # the innermost closure around it that moves, too
    closures: Set[Var]  # in it


def _next_moves(uses: _ClosureUses, names: Names) -> tuple[list[_Move], bool]:
    """Returns closures that may move now, and whether others remain.

    Outer ones precede inner ones. Those that capture closures of the list move later, as do inner
    ones that capture dataflow variables or need values that bind their variables.
    """
    moves: dict[Var, _Move] = {}
    around: dict[Var, Var] = {}  # of closures in those that move
    for closure in reversed(uses.closures.values()):  # inner ones before those around them
        if closure not in names:
            names[closure] = names_in(closure, names)
    for var, closure in uses.closures.items():
        is_inner = var in around
        free = names[closure].free
        captured = [v for v in free if v is not var]
        if not moves.keys().isdisjoint(captured):
            continue
        if is_inner and any([type(value) is not Var for value in captured]):
            continue
        is_recursive = len(captured) < len(free)
        dims = uses.open_variables(var, closure, captured, names[closure])
        binders = uses.binders_for(var, dims)
        if binders is None or (binders and is_inner):
            continue
        if binders:
            captured += binders
            dims = uses.open_variables(var, closure, captured, names[closure])
        if var not in uses.values or not (captured or dims):
            sizes = [ShapeExpr(tuple([as_dim(sym) for sym in dims]))] if dims else []
            if uses.permits_calls(var, closure, [*captured, *sizes]):
                inner = uses.closures.keys() & names[closure].defined
                moves[var] = _Move(
                    var, closure, captured, sizes, is_recursive, around.get(var), inner
                )
                around |= dict.fromkeys(inner, var)
    remaining = uses.closures.keys() - moves.keys() - around.keys()
    return list(moves.values()), bool(moves and remaining)


class _Copy(Substitution):
    """Rebuilds functions with functions of the module in place of closures."""

    def __init__(self, callees: Callees, fresh: bool = False) -> None:
        super().__init__({var: callee.function for var, callee in callees.items()}, fresh=fresh)
        self.callees = callees

    def call(self, call: Call) -> Call:
        """Returns a call, also of a closure, which passes what the closure captures."""
        callee = self.callees.get(call.op)  # type: ignore[call-overload]
        if callee is not None:
            return self.call_of(callee.function, (*call.args, *callee.more), call)
        return super().call(call)

    def callee(self, callee: Expr) -> Any:
        """Returns a callee; a function of the module has dims of its own."""
        return callee if type(callee) is GlobalVar else super().callee(callee)

    def sequence(self, seq: SeqExpr) -> SeqExpr:
        """Returns a sequence without the bindings of closures."""
        new = super().sequence(seq)
        if not self.callees or all([block.bindings for block in new.blocks]):
            return new
        return replace(new, blocks=tuple([block for block in new.blocks if block.bindings]))

    def block(self, block: BindingBlock) -> BindingBlock:
        """Returns a block without the bindings of closures."""
        if not self.callees.keys().isdisjoint([b.var for b in block.bindings]):
            kept = [b for b in block.bindings if b.var not in self.callees]
            block = type(block)(tuple(kept), block.span)
        return super().block(block)


def _called_in(caller: Function, callees: Callees, uses: _ClosureUses) -> Function:
    """Returns a function that uses functions of the module in place of closures, whose bindings it
    does not contain."""
    substitution = _Copy(callees)

    def called(binding: Binding) -> Iterable[Binding]:
        if binding.var in callees:
            return ()
        if binding.var not in uses.users:
            return (binding,)
        value = substitution.part(binding.value)
        return (binding if value is binding.value else replace(binding, value=value),)

    caller = with_bindings(caller, called, opaque=callees)
    return caller if uses.results.isdisjoint(callees) else substitution.function(caller)


def _without_aliases(function: Function, bindings: Iterable[Binding]) -> Function:
    """Returns a function that uses closures under one name: `g = f` is removed."""
    closures: dict[Var, Var] = {}
    for binding in bindings:
        value = binding.value
        if type(value) is Function:
            closures[binding.var] = binding.var
        elif isinstance(value, Var) and type(binding) is VarBinding and value in closures:
            closures[binding.var] = closures[value]
    aliases = {var: closure for var, closure in closures.items() if var is not closure}
    if not aliases:
        return function
    without = with_bindings(function, lambda b: () if b.var in aliases else (b,))
    return Substitution(aliases).function(without)


@attrs.define(eq=False)
class _ClosureUses:
    """The closures of a function, their uses, and the variables that they may depend on."""

    function: Function
    closures: dict[Var, Function] = attrs.Factory(dict)
    binders: Counter[Any] = attrs.Factory(Counter)  # how many parameters and casts bind a variable
    calls: dict[Expr, list[Call]] = attrs.Factory(dict)  # by callee
    users: set[Var] = attrs.Factory(set)  # the variables of the bindings that use closures
    operands: dict[Var, list[Expr]] = attrs.Factory(dict)  # values that closures are operands of
    values: set[Var] = attrs.Factory(set)  # closures used other than as the callee of a call
    results: set[Var] = attrs.Factory(set)  # closures in the results of sequences
    bound: dict[StructInfo, frozenset[Any]] = attrs.Factory(dict)  # memoized by `_bound_dims`

    @classmethod
    def of(cls, function: Function, bindings: Sequence[Binding]) -> _ClosureUses:
        """Returns those of all closures in a function with these bindings."""
        uses = cls(function, {b.var: b.value for b in bindings if type(b.value) is Function})
        names = uses.closures
        binders = [param.struct_info for param in function.params]
        results: list[Expr] = [function.body.body]
        for binding in bindings:
            value = binding.value
            kind = type(value)
            if kind is Function:
                results.append(value.body.body)  # type: ignore[attr-defined]
                binders += [param.struct_info for param in value.params]  # type: ignore[attr-defined]
                continue
            if type(binding) is MatchCast:
                binders.append(binding.struct_info)
            operands: tuple[Expr, ...] = (value,)
            if isinstance(value, Call):
                operands = value.args
                if value.op in names:
                    uses.users.add(binding.var)
                    uses.calls.setdefault(value.op, []).append(value)
            elif isinstance(value, If):
                operands = (value.cond,)
                results += (value.true_branch.body, value.false_branch.body)
            if used := _closures_in(operands, names):
                uses.users.add(binding.var)
                uses.values |= used
                for closure in used:
                    uses.operands.setdefault(closure, []).append(value)
        uses.binders = uses.counts(binders)
        uses.results = _closures_in(results, names)
        uses.values |= uses.results
        return uses

    @cached_property
    def scopes(self) -> dict[Var, Scope]:
        """The values that bind each row and dtype variable in scope of a closure."""
        return scopes_of(self.function)

    def binders_for(self, var: Var, variables: Iterable[Any]) -> list[Var] | None:
        """Returns values in scope of a closure that bind its row and dtype variables; None if one
        of them has no such value."""
        binders: list[Var] = []
        for variable in variables:
            row_size = row_size_of(variable) if type(variable) is Sym else None
            row = variable if row_size is None else row_size[1]
            if type(row) is Sym or row in bound_dims([value.struct_info for value in binders]):
                continue
            value = self.scopes[var].get(row)
            if value is None:
                return None
            binders.append(value)
        return binders

    def open_variables(
        self, var: Var, closure: Function, captured: list[Var], names: ProgramNames
    ) -> list[Any]:
        """Returns the symbolic, row and dtype variables of the enclosing functions that the
        captured variables do not determine, nor the parameters if every call proves theirs."""
        bound = frozenset[Any]().union(*[self._bound_dims(v.struct_info) for v in captured])
        used = [sym for sym in names.symbols if sym not in bound]
        if not used:
            return []
        inner = self.counts(names.binders)
        enclosing = {sym for sym in used if self.binders[sym] > inner[sym]}
        if enclosing and not self._checks_variables(var, closure, enclosing):
            for param in closure.params:
                enclosing -= self._bound_dims(param.struct_info)
        return [sym for sym in used if sym in enclosing]

    def counts(self, binders: Iterable[StructInfo]) -> Counter[Any]:
        """Returns how many of these StructInfos of parameters and casts bind each variable."""
        return Counter([variable for info in binders for variable in self._bound_dims(info)])

    def _bound_dims(self, info: StructInfo) -> frozenset[Any]:
        dims = self.bound.get(info)
        if dims is None:
            dims = self.bound[info] = bound_dims([info])
        return dims

    def _checks_variables(self, var: Var, closure: Function, variables: Set[Any]) -> bool:
        """Returns whether a call of a closure, also by an op that it is an operand of, may check at
        run time that an argument has these variables of the enclosing function."""
        if any(_checks_dims(call, closure, variables) for call in self.calls.get(var, ())):
            return True
        operands = self.operands.get(var, ())
        return var in self.results or not all(_is_proved_loop(v, var, closure) for v in operands)

    def permits_calls(self, var: Var, closure: Function, captured: list[Any]) -> bool:
        """Returns whether the function of the module accepts the arguments of every call.

        A closure checks the dims of the enclosing function at run time. A function of the module
        has these dims as its own, and rejects a call with others before the run.
        """
        infos = [param.struct_info for param in closure.params]
        for call in self.calls.get(var, ()):
            arguments = [arg.struct_info for arg in call.args]
            if len(infos) == len(arguments) and all(map(_is_certain, infos, arguments)):
                continue
            more = [value.struct_info for value in captured]
            function = replace(closure.struct_info, params=(*infos, *more))
            try:
                derive_call_ret_struct_info(function, [*arguments, *more])
            except StructInfoError:
                return False
        return True


def _is_certain(param: StructInfo, argument: StructInfo) -> bool:
    """Returns whether every argument of this StructInfo is accepted."""
    return argument is param or base_check(param, argument) is PASS


def _closures_in(operands: Iterable[Expr], closures: Collection[Var]) -> set[Var]:
    """Returns the closures that operands mention."""
    used: set[Var] = set()
    for operand in operands:
        if isinstance(operand, Var):
            if operand in closures:
                used.add(operand)
        elif type(operand) is not Constant:
            used.update([var for var in free_vars(operand) if var in closures])
    return used


def _is_proved_loop(value: Expr, var: Var, closure: Function) -> bool:
    """Returns whether a value is a call of an op that applies a closure to slices and states which
    surely have the StructInfos of its parameters."""
    op = value.op if isinstance(value, Call) else None
    hooks = getattr(op.definition, "hooks", {}) if isinstance(op, Op) else {}
    if "loop" not in hooks:
        return False
    view: LoopView = hooks["loop"](value)
    params, elements = [p.struct_info for p in closure.params], view.elements(value)  # type: ignore[arg-type]
    if view.body is not var or len(params) != len(elements) or None in elements:
        return False
    states = [leaf for info in params[: view.states] for leaf in leaf_infos(info)]
    results = [*leaf_infos(closure.ret_struct_info)][: len(states)]
    pairs = [*zip(params, elements, strict=True), *zip(states, results, strict=False)]
    return len(states) == len(results) and all([_is_certain(p, e) for p, e in pairs])


def _checks_dims(call: Call, closure: Function, dims: Set[Any]) -> bool:
    """Returns whether a call checks at run time that an argument has these variables of the
    enclosing function: a parameter does not bind them."""
    pairs = zip(closure.params, call.args, strict=False)
    return any(
        [
            not _is_certain(param.struct_info, arg.struct_info)
            and not dims.isdisjoint(free_symbols_in(param.struct_info))
            for param, arg in pairs
        ]
    )
