"""Bodies of functions for given operands: calls inlined, and each StructInfo inferred again.

A function of unknown ranks has known ones for the operands of one call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from structir.analysis.calls import Binder
from structir.analysis.lattice import PASS, base_check
from structir.analysis.substitution import Substitution
from structir.analysis.variables import names_in
from structir.build import BlockBuilder
from structir.errors import Diagnostic, DiagnosticError
from structir.ir.dims import Sym, as_dim
from structir.ir.expr import (
    Binding,
    Call,
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
from structir.ir.node import Node, replace
from structir.ir.struct_info import FuncStructInfo, StructInfo, TupleStructInfo

MAX_DEPTH = 32  # nested calls: deeper ones are recursive


def unchanged(variables: Iterable[Any]) -> dict[Any, Any]:
    """Returns the replacement of symbolic, row and dtype variables by themselves."""
    return {name: as_dim(name) if type(name) is Sym else name for name in variables}


class CallRule(Protocol):
    """A rule for calls that are not copied: returns the value of a call, or None."""

    def __call__(self, instance: BodyInstance, call: Call) -> Expr | None:
        """Returns the value of a call, or None."""
        ...


class BodyInstance:
    """One body: its values in a builder, and the closures in scope."""

    def __init__(
        self,
        builder: BlockBuilder,
        functions: dict[str, Node],
        rule: CallRule,
        outer: BodyInstance | None = None,
        depth: int = 0,
    ) -> None:
        self.builder, self.functions, self.rule = builder, functions, rule
        self.depth = depth
        self.copier = Substitution(fresh=True)
        self.closures: dict[Expr, tuple[Function, BodyInstance]] = {}
        if outer is not None:
            self.copier.variables.update(outer.copier.variables)
            self.copier.dims.update(outer.copier.dims)
            self.closures.update(outer.closures)

    @property
    def variables(self) -> dict[Any, Any]:
        """The symbolic, row and dtype variables in scope, each mapped to itself."""
        return unchanged(names_in(tuple(self.copier.dims.values())).symbols)

    def called(self, callee: Expr) -> tuple[Function, BodyInstance | None] | None:
        """Returns a function with a known body, and the scope of a closure."""
        if callee in self.closures:
            return self.closures[callee]
        function = self.functions.get(callee.name) if isinstance(callee, GlobalVar) else None
        return (function, None) if isinstance(function, Function) else None

    def apply(self, callee: Expr, args: Sequence[Expr], span: Any = None) -> Expr:
        """Emits the body of a function for arguments; returns its result."""
        called = self.called(callee)
        if called is None or self.depth >= MAX_DEPTH:
            reason = "the function is not known at compile time" if called is None else "recursive"
            raise DiagnosticError(Diagnostic(f"cannot instantiate: {reason}", span, code="E1111"))
        function, outer = called
        inner = BodyInstance(self.builder, self.functions, self.rule, outer, self.depth + 1)
        inner.closures.update({arg: self.closures[arg] for arg in args if arg in self.closures})
        inner.define(function, args)
        return inner.run(function.body)

    def define(self, function: Function, args: Sequence[Expr]) -> None:
        """Binds the parameters of a function to arguments, checked where they may differ."""
        binder = Binder(function.struct_info)
        for param, arg in zip(function.params, args, strict=True):
            if arg.struct_info is not None:
                binder.bind(param.struct_info, arg.struct_info)
        # the sizes of the scope of a closure are checked, not bound again
        in_scope = self.copier.dims.keys()
        own = {name: new for name, new in binder.bindings.items() if name not in in_scope}
        self.copier.dims.update(own)
        self.copier.new_dims([param.struct_info for param in function.params])
        for param, arg in zip(function.params, args, strict=True):
            info = self.copier.info(param.struct_info)
            is_function = isinstance(info, FuncStructInfo)
            known = arg.struct_info is not None and not is_function
            fits = is_function or (known and base_check(info, arg.struct_info) is PASS)
            self.copier.variables[param] = arg if fits else self._checked(arg, info)

    def _checked(self, arg: Expr, info: StructInfo) -> Expr:
        """Emits the check of an argument; returns it with its StructInfo of the two that has
        sizes: a row variable would hide the rank of the argument."""
        cast = self.builder.match_cast(arg, info)
        sizes = [getattr(each, "dims", None) for each in (arg.struct_info, cast.struct_info)]
        return arg if isinstance(sizes[0], tuple) and sizes[1] is None else cast

    def run(self, body: SeqExpr) -> Expr:
        """Emits the bindings of a sequence; returns its result."""
        for binding in body.bindings():
            self.bind(binding)
        result: Expr = self.copier.part(body.body)
        return result

    def bind(self, binding: Binding) -> None:
        """Emits one binding."""
        value = binding.value
        if isinstance(value, Function):
            in_scope = dict(self.copier.dims)
            copy = self.copier.binding(binding)
            self.copier.dims = in_scope  # without those that the closure binds
            self.copier.infos.clear()
            self.builder.take(copy)
            self.copier.variables[binding.var] = copy.var
            self.closures[copy.var] = value, self
            return
        self.copier.variables[binding.var] = (
            self._cast(binding) if isinstance(binding, MatchCast) else self.value(value)
        )

    def _cast(self, binding: MatchCast) -> Expr:
        value = self.copier.part(binding.value)
        self.copier.new_dims([binding.struct_info])
        return self.builder.match_cast(
            value, self.copier.info(binding.struct_info), span=binding.span
        )

    def value(self, value: Expr) -> Expr:
        """Emits the value of a binding, with its StructInfo inferred again."""
        if isinstance(value, If):
            sides = [self._side(branch) for branch in (value.true_branch, value.false_branch)]
            return self.builder.if_else(self.copier.part(value.cond), sides[0], sides[1])
        copy: Expr = self.copier.part(value)
        if isinstance(copy, Call):
            return self._call(replace(copy, struct_info=None))
        if isinstance(copy, TupleGetItem):
            whole = copy.tuple_value
            return whole.fields[copy.index] if isinstance(whole, Tuple) else self._item(whole, copy)
        return copy

    def _item(self, whole: Expr, item: TupleGetItem) -> Expr:
        info = whole.struct_info
        known = isinstance(info, TupleStructInfo)
        return self.builder.emit(whole[item.index] if known else item)

    def _call(self, call: Call) -> Expr:
        value = self.rule(self, call)
        if value is not None:
            return value
        is_known = isinstance(call.op, GlobalVar | Var) and self.called(call.op) is not None
        if is_known and self.depth < MAX_DEPTH:
            return self.apply(call.op, call.args, call.span)
        return self.builder.emit(call)

    def _side(self, branch: SeqExpr) -> Callable[[], Expr]:
        def emitted() -> Expr:
            inner = BodyInstance(self.builder, self.functions, self.rule, self, self.depth)
            return self.builder.atom(inner.run(branch))

        return emitted
