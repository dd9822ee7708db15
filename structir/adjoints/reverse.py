"""What a sequence of bindings gives back: its bindings as they run, then their rules backwards."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

import attrs

from structir.adjoints.cotangents import CotangentAccumulator, Sum, as_cotangent
from structir.adjoints.differentiable_leaves import Path, at_path, carries, leaf, real_leaves
from structir.analysis.deduction import callee_name
from structir.analysis.purity import is_pure_value
from structir.analysis.substitution import Substitution
from structir.analysis.variables import free_vars, variables_in
from structir.build import BlockBuilder
from structir.errors import Diagnostic, DiagnosticError, StructInfoError
from structir.ir.dims import as_dim
from structir.ir.expr import (
    Binding,
    Call,
    DataflowVar,
    Expr,
    Function,
    GlobalVar,
    If,
    MatchCast,
    SeqExpr,
    Tuple,
    TupleGetItem,
    Var,
)
from structir.ir.node import replace
from structir.ir.op import Op
from structir.ir.struct_info import KernelStructInfo, StructInfo
from structir.opdef.adjoint_op import Cotangent, Emit, zeros

Leaf = tuple[Var, Path]


class Pullbacks(Protocol):
    """Functions that give what comes back to parameters, by the functions that they belong to."""

    def pullback(
        self, name: str, wanted: Sequence[int], given: Sequence[Path]
    ) -> tuple[GlobalVar, list[tuple[int, Path]]] | None:
        """One for some parameters, where something comes back to some parts of the result, and the
        tensors that it gives; None for what is no function with a body."""
        ...

    def function(self, name: str) -> Function | None:
        """A function of the program; None for what is no function with a body."""
        ...

    def define(
        self, name: str, infos: Sequence[StructInfo], body: Callable[[Sequence[Var], Emit], Expr]
    ) -> GlobalVar:
        """A new function of parameters of these infos; `body` emits its bindings and gives its
        result."""
        ...


class ReverseMode:
    """One scope: what runs in it, and what comes back to the variables that are `active`."""

    def __init__(
        self, builder: BlockBuilder, functions: Pullbacks, active: Iterable[Var], again: bool
    ) -> None:
        self.builder, self.functions = builder, functions
        self.sums = CotangentAccumulator(builder, active)
        self.again = again  # whether all of it has run once before
        self.bindings: list[Binding] = []
        self.names: dict[Var, Expr] = {}  # other names of functions

    # ---- forwards

    def run(self, seq: SeqExpr, copier: Substitution) -> Expr:
        """The bindings of a sequence, copied into the open scope without its blocks; its result."""
        bindings = seq.bindings()
        if self.again and not all(is_pure_value(b.value) for b in bindings):
            bindings = _without_effects(seq)
        for binding in bindings:
            copied = copier.binding(binding)
            var: Var = copied.var
            if type(var) is DataflowVar:
                var = Var(var.name, var.struct_info, var.span)
                copier.variables[binding.var] = var
                copied = replace(copied, var=var)
            self.builder.take(copied)
            self._follow(copied)
        result: Expr = copier.part(seq.body)
        return result

    def _follow(self, binding: Binding) -> None:
        self.bindings.append(binding)
        value = self.names.get(binding.value, binding.value)  # type: ignore[call-overload]
        if type(value) is GlobalVar:
            self.names[binding.var] = value
        elif carries(binding.var.struct_info) and self._depends(value):
            self.sums.active.add(binding.var)

    def _depends(self, value: Expr) -> bool:
        """Whether a value moves with those that are active."""
        active = self.sums.active
        match value:
            case Call(op=op, args=args):
                still = isinstance(op, Op) and "no_gradient" in getattr(op.definition, "hooks", ())
                return not still and (op in active or any(_mentions(arg, active) for arg in args))
            case If() | Function():
                return not active.isdisjoint(_read_inside(value))
        return _mentions(value, active)

    # ---- backwards

    def back(self) -> None:
        """Go through the bindings from the last to the first."""
        for binding in reversed(self.bindings):
            found = self.sums.pop(binding.var)
            if found is None:
                continue
            if isinstance(binding, MatchCast):
                self.sums.add(binding.value, found)
            else:
                _RULES.get(type(binding.value), _same)(self, binding, found)

    def leaves(self, wanted: Iterable[Leaf]) -> list[Expr]:
        """What has come back to tensors of variables; zeros where nothing has."""
        emit = self.builder.emit
        return [
            self.sums.at(var, path) or emit(zeros(leaf(var, path, emit))) for var, path in wanted
        ]

    def op_call(self, binding: Binding, call: Any, found: Sum) -> None:
        """A call of an op, by what it says of its gradient."""
        definition = call.op.definition
        if "loop_gradient" in getattr(definition, "hooks", ()):
            self.loop(binding, call, found)
            return
        if not hasattr(definition, "adjoint") or not real_leaves(binding.var.struct_info):
            raise _refused(call, "nothing tells how its result follows its operands")
        result, back = binding.var, as_cotangent(found, binding.var.struct_info)
        came: list[Cotangent] = definition.adjoint(call, result, back, self.builder.emit)
        for arg, part in zip(call.args, came, strict=True):
            self.sums.add(arg, part)

    def loop(self, binding: Binding, call: Any, found: Sum) -> None:
        """A loop over a function of the module: another loop, over the function's pullback."""
        callee = self.names.get(call.args[0], call.args[0])
        cell = self.functions.function(callee.name) if type(callee) is GlobalVar else None
        if cell is None:
            raise _refused(call, "the function that it runs is not known before it does")
        rule = call.op.definition.hooks["loop_gradient"]
        back = as_cotangent(found, binding.var.struct_info)
        steps = LoopPullback(self.functions, self.builder.emit, callee, cell)
        try:
            came: list[Cotangent] = rule(replace(call, args=(callee, *call.args[1:])), back, steps)
        except StructInfoError as error:
            raise _refused(call, error.diagnostics[0].message) from None
        for arg, part in zip(call.args, came, strict=True):
            self.sums.add(arg, part)

    def function_call(self, binding: Binding, call: Any, found: Sum) -> None:
        """A call of a function of the module, by a call of its pullback."""
        emit = self.builder.emit
        callee = self.names.get(call.op, call.op)
        wanted = [k for k, arg in enumerate(call.args) if _mentions(arg, self.sums.active)]
        given = [path for path in real_leaves(binding.var.struct_info) if _at(found, path)]
        made = None
        if type(callee) is GlobalVar and callee.name and given:
            made = self.functions.pullback(callee.name, wanted, given)
        if made is None:
            raise _refused(call, _explain_non_differentiable(callee, bool(given)))
        function, leaves = made
        backs = [_at(found, path) for path in given]
        came = emit(Call(function, (*call.args, *backs), span=call.span))
        for number, (k, path) in enumerate(leaves):
            self.sums.add(call.args[k], at_path(path, emit(came[number])))

    def choice(self, binding: Binding, value: Any, found: Sum) -> None:
        """A branch: the side that ran runs again, and back."""
        emit = self.builder.emit
        read = [var for var in _read_inside(value) if var in self.sums.active]
        wanted = [(var, path) for var in read for path in real_leaves(var.struct_info)]
        if not wanted:
            return

        def side(branch: SeqExpr) -> Callable[[], Expr]:
            def forward_and_backward() -> Expr:
                inner = ReverseMode(self.builder, self.functions, self.sums.active, again=True)
                inner.names = dict(self.names)
                outside = {s: _itself(s) for s in self.builder.scopes[-1].symbols()}
                result = inner.run(branch, Substitution(dims=outside, fresh=True))
                inner.sums.add(result, found)
                inner.back()
                return Tuple(tuple(inner.leaves(wanted)))

            return forward_and_backward

        came = self.builder.if_else(value.cond, side(value.true_branch), side(value.false_branch))
        for number, (var, path) in enumerate(wanted):
            self.sums.add(var, at_path(path, emit(came[number])))


@attrs.frozen(eq=False)
class LoopPullback:
    """What the gradient of a loop is made with: the function that it runs, the pullback of that,
    and new functions."""

    functions: Pullbacks
    emit: Emit
    callee: GlobalVar
    cell: Function

    def define(
        self, purpose: str, infos: Sequence[StructInfo], body: Callable[[Sequence[Var], Emit], Expr]
    ) -> GlobalVar:
        """A new function, named after the one that is run and after its purpose."""
        return self.functions.define(f"{self.callee.name}_{purpose}", infos, body)

    def apply_pullback(
        self, wanted: Sequence[int], given: Sequence[Path]
    ) -> tuple[GlobalVar, list[Any]]:
        """The pullback of the function that is run, and the tensors that it gives."""
        found = self.functions.pullback(self.callee.name, wanted, given)
        assert found is not None
        return found


def _same(scope: ReverseMode, binding: Binding, found: Sum) -> None:
    """Another name, or a tuple: what comes back goes to what it is made of."""
    scope.sums.add(binding.value, found)


def _call(scope: ReverseMode, binding: Binding, found: Sum) -> None:
    is_op = isinstance(binding.value.op, Op)  # type: ignore[attr-defined]
    (scope.op_call if is_op else scope.function_call)(binding, binding.value, found)


def _item(scope: ReverseMode, binding: Binding, found: Sum) -> None:
    value: Any = binding.value
    scope.sums.add(value.tuple_value, {value.index: found})


_RULES: dict[type, Callable[[ReverseMode, Binding, Sum], None]] = {
    Call: _call,
    TupleGetItem: _item,
    If: lambda scope, binding, found: scope.choice(binding, binding.value, found),
}


def _mentions(value: Expr, active: set[Var]) -> bool:
    if isinstance(value, Var):
        return value in active
    if isinstance(value, Tuple):
        return any(_mentions(field, active) for field in value.fields)
    return isinstance(value, TupleGetItem) and _mentions(value.tuple_value, active)


def _read_inside(value: If | Function) -> list[Var]:
    """What the branches of a choice, or a closure, read from around them."""
    parts = (value.true_branch, value.false_branch) if isinstance(value, If) else (value,)
    return list(dict.fromkeys([var for part in parts for var in free_vars(part)]))


def _at(found: Sum, path: Path) -> Any:
    for index in path:
        found = None if found is None else found.get(index)
    return found


def _itself(symbol: Any) -> Any:
    return symbol if hasattr(symbol, "struct_info") else as_dim(symbol)


def _without_effects(seq: SeqExpr) -> list[Binding]:
    """What may run a second time; refused where something depends on an effect."""
    bindings = seq.bindings()
    read = variables_in((seq.body, tuple([binding.value for binding in bindings])))
    for binding in bindings:
        if not is_pure_value(binding.value) and binding.var in read:
            message = "its result would be computed again for the gradient, and its effects with it"
            hint = "move the call out of the branch, or inline the function that it stands in"
            raise DiagnosticError(Diagnostic(message, binding.value.span, hint=hint))
    return [binding for binding in bindings if is_pure_value(binding.value)]


def _explain_non_differentiable(callee: Expr, known: bool) -> str:
    if not known:
        return "nothing is known of its result"
    if isinstance(callee.struct_info, KernelStructInfo):
        return "it is a kernel: loops are not looked into"
    if isinstance(callee, Var):
        return "which function it is, is known only when the program runs"
    return "it comes from outside of the program"


def _refused(call: Call, why: str) -> DiagnosticError:
    return DiagnosticError(Diagnostic(f"it has no gradient: {why}", call.span, callee_name(call)))
