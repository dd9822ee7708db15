"""Reverse-mode differentiation of one sequence: forward bindings, then gradient rules."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

import attrs

from structir.adjoints.cotangents import CotangentAccumulator, Sum, as_cotangent
from structir.adjoints.differentiable_leaves import (
    Path,
    differentiable_leaves,
    extract_leaf,
    may_have_gradient,
    nest_at_path,
)
from structir.analysis.deduction import callee_name, deduce
from structir.analysis.lattice import FAIL_L1, base_check
from structir.analysis.purity import is_pure_value
from structir.analysis.substitution import Substitution
from structir.analysis.variables import free_vars, variables_in
from structir.build import BlockBuilder
from structir.errors import Diagnostic, DiagnosticError, StructInfoError
from structir.ir.dims import Sym, as_dim
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
    """A provider of pullbacks that also defines new functions."""

    def pullback(
        self, name: str, params: Sequence[int], result_paths: Sequence[Path]
    ) -> tuple[GlobalVar, list[tuple[int, Path]]] | None:
        """Returns a pullback and the parameter tensors whose cotangents it returns.

        `params` are parameter indices; `result_paths` are the paths of the result that have
        cotangents. None for a function without a body.
        """
        ...

    def function(self, name: str) -> Function | None:
        """Returns a function of the module; None where `name` is not a function with a body."""
        ...

    def define(
        self, name: str, infos: Sequence[StructInfo], body: Callable[[Sequence[Var], Emit], Expr]
    ) -> GlobalVar:
        """Defines a function with parameters of these StructInfos.

        `body` emits the bindings and returns the result.
        """
        ...


class ReverseMode:
    """One scope: its bindings, and the cotangents of the `active` variables."""

    def __init__(
        self, builder: BlockBuilder, functions: Pullbacks, active: Iterable[Var], recomputes: bool
    ) -> None:
        self.builder, self.functions = builder, functions
        self.cotangents = CotangentAccumulator(builder, active)
        self.recomputes = recomputes  # whether the bindings run a second time
        self.bindings: list[Binding] = []
        self.aliases: dict[Var, Expr] = {}  # variables bound to functions

    def run(self, seq: SeqExpr, copier: Substitution) -> Expr:
        """Copies the bindings of a sequence into the open scope and returns its result."""
        bindings = seq.bindings()
        if self.recomputes and not all(is_pure_value(b.value) for b in bindings):
            bindings = _pure_bindings(seq)
        for binding in bindings:
            copy = copier.binding(binding)
            var: Var = copy.var
            if type(var) is DataflowVar:
                var = Var(var.name, var.struct_info, var.span)
                copier.variables[binding.var] = var
                copy = replace(copy, var=var)
            self.builder.take(copy)
            self._follow(copy)
        result: Expr = copier.part(seq.body)
        return result

    def _follow(self, binding: Binding) -> None:
        self.bindings.append(binding)
        value = self.aliases.get(binding.value, binding.value)  # type: ignore[call-overload]
        if type(value) is GlobalVar:
            self.aliases[binding.var] = value
        elif may_have_gradient(binding.var.struct_info) and self._depends(value):
            self.cotangents.active.add(binding.var)

    def _depends(self, value: Expr) -> bool:
        """Returns whether a value depends on an active variable."""
        active = self.cotangents.active
        match value:
            case Call(op=op, args=args):
                hooks = getattr(op.definition, "hooks", ()) if isinstance(op, Op) else ()
                depends = op in active or any(_mentions(arg, active) for arg in args)
                return depends and "no_gradient" not in hooks
            case If() | Function():
                return not active.isdisjoint(_read_inside(value))
        return _mentions(value, active)

    def propagate(self) -> None:
        """Applies the gradient rules of the bindings, from the last to the first."""
        for binding in reversed(self.bindings):
            cotangent = self.cotangents.pop(binding.var)
            if cotangent is None:
                continue
            if isinstance(binding, MatchCast):
                self.cotangents.add(binding.value, cotangent)
            else:
                _RULES.get(type(binding.value), _alias)(self, binding, cotangent)

    def gradients(self, leaves: Iterable[Leaf]) -> list[Expr]:
        """Returns the cotangents of tensors of variables, with zeros for absent ones."""
        emit = self.builder.emit
        cotangents = [(leaf, self.cotangents.at(*leaf)) for leaf in leaves]
        return [
            emit(zeros(extract_leaf(*leaf, emit))) if cotangent is None else cotangent
            for leaf, cotangent in cotangents
        ]

    def op_call(self, binding: Binding, call: Any, cotangent: Sum) -> None:
        """Propagates through a call of an op with the gradient rule of the op."""
        definition = call.op.definition
        if "loop_gradient" in getattr(definition, "hooks", ()):
            self.loop(binding, call, cotangent)
            return
        if not hasattr(definition, "adjoint") or not differentiable_leaves(binding.var.struct_info):
            raise _not_differentiable(call, "the op has no gradient rule")
        result, result_cotangent = binding.var, as_cotangent(cotangent, binding.var.struct_info)
        cotangents: list[Cotangent] = definition.adjoint(
            call, result, result_cotangent, self.builder.emit
        )
        for arg, operand_cotangent in zip(call.args, cotangents, strict=True):
            self.cotangents.add(arg, operand_cotangent)

    def loop(self, binding: Binding, call: Any, cotangent: Sum) -> None:
        """Propagates through a loop over a function with a loop over its pullback."""
        callee = self.aliases.get(call.args[0], call.args[0])
        cell = self.functions.function(callee.name) if type(callee) is GlobalVar else None
        if cell is None:
            raise _not_differentiable(call, UNKNOWN_FUNCTION)
        rule = call.op.definition.hooks["loop_gradient"]
        result_cotangent = as_cotangent(cotangent, binding.var.struct_info)
        steps = LoopPullback(self.functions, self.builder.emit, callee, cell)
        info = binding.var.struct_info  # may be sharper than deduction
        call = replace(call, args=(callee, *call.args[1:]), struct_info=info)
        try:
            cotangents: list[Cotangent] = rule(call, result_cotangent, steps)
        except StructInfoError as error:
            raise _not_differentiable(call, *_message_and_hint(error)) from None
        for arg, operand_cotangent in zip(call.args, cotangents, strict=True):
            self.cotangents.add(arg, operand_cotangent)

    def function_call(self, binding: Binding, call: Any, cotangent: Sum) -> None:
        """Propagates through a call of a module function with a call of its pullback."""
        emit = self.builder.emit
        callee = self.aliases.get(call.op, call.op)
        params = [k for k, arg in enumerate(call.args) if _mentions(arg, self.cotangents.active)]
        leaves = differentiable_leaves(binding.var.struct_info)
        paths = [path for path in leaves if _at_path(cotangent, path) is not None]
        pullback = None
        if type(callee) is GlobalVar and callee.name and paths:
            pullback = self.functions.pullback(callee.name, params, paths)
        if pullback is None:
            raise _not_differentiable(call, _reason_without_pullback(callee, bool(paths)))
        function, targets = pullback
        result = deduce(call)  # may be sharper than the binding
        cotangents = [self.cast(_at_path(cotangent, p), _info_at(result, p)) for p in paths]
        results = emit(Call(function, (*call.args, *cotangents), span=call.span))
        for index, (k, path) in enumerate(targets):
            self.cotangents.add(call.args[k], nest_at_path(path, emit(results[index])))

    def cast(self, cotangent: Expr, info: StructInfo) -> Expr:
        """Returns a cotangent with the sizes that a pullback expects, checked by a run."""
        if base_check(info, cotangent.struct_info) is not FAIL_L1:
            return cotangent
        return self.builder.match_cast(cotangent, info)

    def branch(self, binding: Binding, value: Any, cotangent: Sum) -> None:
        """Propagates through an `if`: recomputes the branch and applies its gradient rules."""
        emit = self.builder.emit
        variables = [var for var in _read_inside(value) if var in self.cotangents.active]
        leaves = [
            (var, path) for var in variables for path in differentiable_leaves(var.struct_info)
        ]
        if not leaves:
            return

        def side(branch: SeqExpr) -> Callable[[], Expr]:
            def forward_and_backward() -> Expr:
                active = self.cotangents.active
                inner = ReverseMode(self.builder, self.functions, active, recomputes=True)
                inner.aliases = dict(self.aliases)
                outside = {s: _as_same_dim(s) for s in self.builder.scopes[-1].symbols()}
                result = inner.run(branch, Substitution(dims=outside, fresh=True))
                inner.cotangents.add(result, cotangent)
                inner.propagate()
                return Tuple(tuple(inner.gradients(leaves)))

            return forward_and_backward

        results = self.builder.if_else(
            value.cond, side(value.true_branch), side(value.false_branch)
        )
        for index, (var, path) in enumerate(leaves):
            self.cotangents.add(var, nest_at_path(path, emit(results[index])))


@attrs.frozen(eq=False)
class LoopPullback:
    """The context of a loop's gradient rule: the function of the loop and its pullback."""

    functions: Pullbacks
    emit: Emit
    callee: GlobalVar
    cell: Function

    def define(
        self, purpose: str, infos: Sequence[StructInfo], body: Callable[[Sequence[Var], Emit], Expr]
    ) -> GlobalVar:
        """Defines a function named `<function of the loop>_<purpose>`."""
        return self.functions.define(f"{self.callee.name}_{purpose}", infos, body)

    def apply_pullback(
        self, params: Sequence[int], result_paths: Sequence[Path]
    ) -> tuple[GlobalVar, list[Any]]:
        """Returns the pullback of the loop's function, and the tensors of the result."""
        pullback = self.functions.pullback(self.callee.name, params, result_paths)
        assert pullback is not None
        return pullback


def _alias(scope: ReverseMode, binding: Binding, cotangent: Sum) -> None:
    """Passes the cotangent of an alias or a tuple through to its operands."""
    scope.cotangents.add(binding.value, cotangent)


def _call(scope: ReverseMode, binding: Binding, cotangent: Sum) -> None:
    is_op = isinstance(binding.value.op, Op)  # type: ignore[attr-defined]
    (scope.op_call if is_op else scope.function_call)(binding, binding.value, cotangent)


def _item(scope: ReverseMode, binding: Binding, cotangent: Sum) -> None:
    value: Any = binding.value
    scope.cotangents.add(value.tuple_value, {value.index: cotangent})


_RULES: dict[type, Callable[[ReverseMode, Binding, Sum], None]] = {
    Call: _call,
    TupleGetItem: _item,
    If: lambda scope, binding, cotangent: scope.branch(binding, binding.value, cotangent),
}


def _mentions(value: Expr, active: set[Var]) -> bool:
    if isinstance(value, Var):
        return value in active
    if isinstance(value, Tuple):
        return any(_mentions(field, active) for field in value.fields)
    return isinstance(value, TupleGetItem) and _mentions(value.tuple_value, active)


def _read_inside(value: If | Function) -> list[Var]:
    """Returns the free variables of both branches of an `if`, or of a closure."""
    parts = (value.true_branch, value.false_branch) if isinstance(value, If) else (value,)
    return list(dict.fromkeys([var for part in parts for var in free_vars(part)]))


def _at_path(cotangent: Sum, path: Path) -> Any:
    for index in path:
        cotangent = None if cotangent is None else cotangent.get(index)
    return cotangent


def _info_at(info: Any, path: Path) -> Any:
    for index in path:
        info = info.fields[index]
    return info


def _as_same_dim(symbol: Any) -> Any:
    return as_dim(symbol) if isinstance(symbol, Sym) else symbol


def _pure_bindings(seq: SeqExpr) -> list[Binding]:
    """Returns the pure bindings, which can run a second time.

    Raises DiagnosticError where one of them depends on the result of an impure binding.
    """
    bindings = seq.bindings()
    variables = variables_in((seq.body, tuple([binding.value for binding in bindings])))
    for binding in bindings:
        if not is_pure_value(binding.value) and binding.var in variables:
            message = "cannot run an impure call again in the backward pass"
            hint = "move the call out of the branch, or inline the function that contains it"
            span, label = binding.value.span, "its side effects would run twice"
            raise DiagnosticError(Diagnostic(message, span, hint=hint, code="E0654", label=label))
    return [binding for binding in bindings if is_pure_value(binding.value)]


def _reason_without_pullback(callee: Expr, has_cotangent: bool) -> str:
    if not has_cotangent:
        return "its result has no known StructInfo"
    if isinstance(callee.struct_info, KernelStructInfo):
        return "kernels are opaque to differentiation"
    if isinstance(callee, Var):
        return "the called function is not known at compile time"
    return "it is an external function without a gradient rule"


UNKNOWN_FUNCTION = (
    "the called function is not known at compile time, or captures values; help: pass these as "
    "operands: `R.vmap(f, in_axes=(0, None))(x, w)`"
)


def _message_and_hint(error: StructInfoError) -> tuple[str, str | None]:
    first = error.diagnostics[0]
    return first.message, first.hint


def _not_differentiable(call: Call, reason: str, hint: str | None = None) -> DiagnosticError:
    text = f"not differentiable: {reason}"
    return DiagnosticError(Diagnostic(text, call.span, callee_name(call), hint=hint, code="E0653"))
