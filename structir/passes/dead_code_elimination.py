"""Removes bindings and functions without uses."""

from __future__ import annotations

from collections.abc import Collection
from operator import is_

from structir.analysis.declared_checks import DeclaredChecks
from structir.analysis.derivative_rules import attribute_names
from structir.analysis.internal_functions import PRIVATE
from structir.analysis.purity import is_pure_value
from structir.analysis.variables import variables_in, walk_values
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
    Var,
)
from structir.ir.module import IRModule
from structir.ir.node import Node, replace
from structir.ir.op import Op
from structir.ir.struct_info import StructInfo
from structir.passes.base import module_pass, named_functions


@module_pass(aliases=("dce",))
def dead_code_elimination(module: IRModule, *, entries: str = "") -> IRModule:
    """Removes pure bindings without uses, traversing backward from the result, and unused
    functions.

    A variable that a live StructInfo mentions is used. A match_cast remains: it checks, and binds
    dims. A call or an `if` remains if it may fail a declared check. A private function that no
    public one reaches is removed; a module without a public function keeps all. With `entries`,
    every function that these do not reach is removed.
    """
    checks = DeclaredChecks(module.functions)
    functions = {
        name: without_unused(function, checks) if isinstance(function, Function) else function
        for name, function in module.functions.items()
    }
    live = _reachable(functions, named_functions(module, entries))
    if len(live) == len(functions) and all(map(is_, live.values(), module.functions.values())):
        return module
    return module.with_functions(live)


def _reachable(functions: dict[str, Node], entries: list[str]) -> dict[str, Node]:
    """Returns the functions that the entries call, directly or indirectly."""
    worklist = entries or [
        n for n, f in functions.items() if not getattr(f, "attrs", {}).get(PRIVATE)
    ]
    if len(worklist) == len(functions) or not worklist:  # without an entry, none is unused
        return functions
    names = set[str]()
    while worklist:
        name = worklist.pop()
        if name in functions and name not in names:
            names.add(name)
            worklist += [
                item.name for item in walk_values(functions[name]) if isinstance(item, GlobalVar)
            ]
            worklist += attribute_names(functions[name])
    return {name: function for name, function in functions.items() if name in names}


def without_unused(
    function: Function, checks: DeclaredChecks, kept: Collection[Var] = ()
) -> Function:
    """Returns a function without unused pure bindings, except the bindings in `kept`."""
    uses = _LiveVariables(checks, kept)
    uses.of(function.ret_struct_info)
    body = uses.eliminate(function.body)
    return function if body is function.body else replace(function, body=body)


class _LiveVariables:
    """The variables used after the current program point."""

    def __init__(self, checks: DeclaredChecks, kept: Collection[Var] = ()) -> None:
        self.checks, self.kept = checks, kept
        self.variables: set[Var] = set()
        self.infos: set[StructInfo] = set()  # whose variables are already among them

    def of(self, part: object) -> None:
        self.variables.update(variables_in(part))

    def info(self, info: StructInfo) -> None:
        if info not in self.infos:
            self.infos.add(info)
            self.of(info)

    def call(self, call: Call) -> None:
        """Records the variables that a call uses; its arguments are atoms."""
        for argument in call.args:
            if isinstance(argument, Var):
                self.variables.add(argument)
            elif type(argument) is not Constant:
                self.of(argument)
        if type(call.op) is not Op:
            self.of(call.op)
        for info in call.sinfo_args:
            self.info(info)

    def eliminate(self, seq: SeqExpr) -> SeqExpr:
        self.checks.note_functions(seq)
        self.of(seq.body)
        blocks = [self.block(block) for block in reversed(seq.blocks)][::-1]
        live = tuple([block for block in blocks if block.bindings])
        same = len(live) == len(seq.blocks) and all(map(is_, live, seq.blocks))
        return seq if same else replace(seq, blocks=live)

    def block(self, block: BindingBlock) -> BindingBlock:
        bindings: list[Binding] = []
        for binding in reversed(block.bindings):
            if self.live(binding):
                bindings.append(self.visited(binding))
        bindings.reverse()
        same = len(bindings) == len(block.bindings) and all(map(is_, bindings, block.bindings))
        return block if same else replace(block, bindings=tuple(bindings))

    def live(self, binding: Binding) -> bool:
        is_used = binding.var in self.variables or binding.var in self.kept
        if is_used or isinstance(binding, MatchCast):
            return True
        return not is_pure_value(binding.value) or self.checks.in_value(binding.value)

    def visited(self, binding: Binding) -> Binding:
        self.info(binding.var.struct_info)
        if isinstance(binding, MatchCast):
            self.info(binding.struct_info)
        value = self.value(binding.value)
        return binding if value is binding.value else replace(binding, value=value)

    def value(self, value: Expr) -> Expr:
        if type(value) is Call:
            self.call(value)
            return value
        if isinstance(value, Function):
            self.of((value.ret_struct_info, value.params))
            body = self.eliminate(value.body)
            return value if body is value.body else replace(value, body=body)
        if isinstance(value, If):
            branches = [self.eliminate(b) for b in (value.true_branch, value.false_branch)]
            self.of(value.cond)
            if branches[0] is value.true_branch and branches[1] is value.false_branch:
                return value
            return replace(value, true_branch=branches[0], false_branch=branches[1])
        self.of(value)
        return value
