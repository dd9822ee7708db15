"""Declared checks: whether evaluating a value may fail a check that the program declares.

These are match_casts, conditions, and the StructInfos of parameters and results. A value with such
a check is evaluated even if it has no uses.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from structir.analysis.calls import Binder
from structir.analysis.declaration import analysis
from structir.analysis.erasure import AllVars
from structir.analysis.lattice import PASS, base_check
from structir.analysis.variables import free_symbols_in
from structir.ir.expr import Call, Expr, Function, GlobalVar, If, MatchCast, SeqExpr, Var
from structir.ir.node import Node
from structir.ir.op import Op
from structir.ir.struct_info import FuncStructInfo, StructInfo


class DeclaredChecks:
    """The functions of a module and its local functions, whose checks calls perform."""

    def __init__(self, functions: Mapping[str, Node]) -> None:
        self.functions = functions
        self.local: dict[Var, Function] = {}
        self.checking: dict[Function, bool] = {}  # memoized
        self.pending: set[Function] = set()  # being examined

    def in_value(self, value: Expr) -> bool:
        """Returns whether a check may fail in the evaluation of a value."""
        if isinstance(value, If):
            return self.in_body(value.true_branch) or self.in_body(value.false_branch)
        if not isinstance(value, Call):
            return False
        if isinstance(value.op, Op) and value.op.definition.hooks.get("rejects_values"):  # type: ignore[attr-defined]
            return True
        if self._is_function(value.op) and not checks_proven(value):
            return True
        return any(self.in_callee(each) for each in (value.op, *value.args))

    def _is_function(self, callee: Expr) -> bool:
        if isinstance(callee, GlobalVar):
            return isinstance(self.functions.get(callee.name), Function)  # rather than a kernel
        return isinstance(callee, Var | Function)

    def in_body(self, body: SeqExpr) -> bool:
        """Returns whether a check may fail in the evaluation of a body."""
        bindings = list(body.bindings())
        self.note_functions(body)
        return any(isinstance(b, MatchCast) or self.in_value(b.value) for b in bindings)

    def in_callee(self, callee: Expr) -> bool:
        """Returns whether a check may fail in the body of a function, if it is known."""
        function: Node | None = callee
        if isinstance(callee, Var):
            function = self.local.get(callee)
        elif isinstance(callee, GlobalVar):
            function = self.functions.get(callee.name)
        if not isinstance(function, Function):
            return isinstance(callee, Var) and isinstance(callee.struct_info, FuncStructInfo)
        if function in self.checking or function in self.pending:
            return self.checking.get(function, False)  # a recursive call adds no further checks
        self.pending.add(function)
        checks = not result_proven(function) or self.in_body(function.body)
        self.pending.remove(function)
        if checks or not self.pending:  # without checks in what called it
            self.checking[function] = checks
        return checks

    def note_functions(self, body: SeqExpr) -> None:
        """Records the local functions of a body, before calls of them are examined."""
        for binding in body.bindings():
            if isinstance(binding.value, Function):
                self.local[binding.var] = binding.value


@analysis
def result_proven(function: Function) -> bool:
    """Returns whether the result of a function has its declared StructInfo in every run."""
    result = function.body.body.struct_info
    declared = function.ret_struct_info
    return declared is None or (result is not None and base_check(declared, result) is PASS)


@analysis
def checks_proven(call: Call) -> bool:
    """Returns whether the arguments of a call have the StructInfos of the parameters in every
    run."""
    info = call.op.struct_info
    if not isinstance(info, FuncStructInfo) or info.params is None:
        return False
    return all(proven_params(info, [each.struct_info for each in call.args]))


def proven_params(function: FuncStructInfo, args: list[StructInfo | None]) -> Iterator[bool]:
    """Yields for each parameter whether its argument has its StructInfo in every run."""
    binder = Binder(function)
    pairs = list(zip(function.params or (), args, strict=True))
    for param, info in pairs:
        if info is not None:
            binder.bind(param, info)
    unbound = binder.own_dims - binder.bindings.keys()
    for param, info in pairs:
        resolved = binder.resolve(param, AllVars())
        decided = not unbound & free_symbols_in(param)
        yield decided and info is not None and base_check(resolved, info) is PASS
