"""Dropping bindings that nothing reads."""

from __future__ import annotations

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
from structir.passes.base import module_pass


@module_pass(aliases=("dce",))
def dead_code_elimination(module: IRModule, *, entries: str = "") -> IRModule:
    """Drop pure bindings that nothing reads, walking from the result back, and unused functions.

    A variable that a live StructInfo mentions is read. A match_cast stays: it checks, and binds
    dims. A private function that no other one mentions goes; with `entries`, so does every function
    that these do not reach.
    """
    functions = {
        name: _without_dead(function) if isinstance(function, Function) else function
        for name, function in module.functions.items()
    }
    kept = _reached(functions, entries.replace(",", " ").split())
    if len(kept) == len(functions) and all(map(_same, kept.values(), module.functions.values())):
        return module
    return module.with_functions(kept)


def _reached(functions: dict[str, Node], entries: list[str]) -> dict[str, Node]:
    """The functions that the entries call, directly or not."""
    todo = entries or [n for n, f in functions.items() if not getattr(f, "attrs", {}).get(PRIVATE)]
    if len(todo) == len(functions):
        return functions
    found = set[str]()
    while todo:
        name = todo.pop()
        if name in functions and name not in found:
            found.add(name)
            todo += [
                item.name for item in walk_values(functions[name]) if isinstance(item, GlobalVar)
            ]
    return {name: function for name, function in functions.items() if name in found}


def _without_dead(function: Function) -> Function:
    uses = _Uses()
    uses.of(function.ret_struct_info)
    body = uses.without_dead(function.body)
    return function if body is function.body else replace(function, body=body)


class _Uses:
    """The variables that the program after this point reads."""

    def __init__(self) -> None:
        self.variables: set[Var] = set()
        self.infos: set[StructInfo] = set()  # whose variables are among them already

    def of(self, part: object) -> None:
        self.variables.update(variables_in(part))

    def info(self, info: StructInfo) -> None:
        if info not in self.infos:
            self.infos.add(info)
            self.of(info)

    def call(self, call: Call) -> None:
        """What a call reads; its arguments are atoms."""
        for argument in call.args:
            if isinstance(argument, Var):
                self.variables.add(argument)
            elif type(argument) is not Constant:
                self.of(argument)
        if type(call.op) is not Op:
            self.of(call.op)
        for info in call.sinfo_args:
            self.info(info)

    def without_dead(self, seq: SeqExpr) -> SeqExpr:
        self.of(seq.body)
        blocks = [self.block(block) for block in reversed(seq.blocks)][::-1]
        kept = tuple([block for block in blocks if block.bindings])
        same = len(kept) == len(seq.blocks) and all(map(_same, kept, seq.blocks))
        return seq if same else replace(seq, blocks=kept)

    def block(self, block: BindingBlock) -> BindingBlock:
        bindings: list[Binding] = []
        for binding in reversed(block.bindings):
            if self.live(binding):
                bindings.append(self.visited(binding))
        bindings.reverse()
        same = len(bindings) == len(block.bindings) and all(map(_same, bindings, block.bindings))
        return block if same else replace(block, bindings=tuple(bindings))

    def live(self, binding: Binding) -> bool:
        if binding.var in self.variables or isinstance(binding, MatchCast):
            return True
        return not is_pure_value(binding.value)

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
            body = self.without_dead(value.body)
            return value if body is value.body else replace(value, body=body)
        if isinstance(value, If):
            branches = [self.without_dead(b) for b in (value.true_branch, value.false_branch)]
            self.of(value.cond)
            if branches[0] is value.true_branch and branches[1] is value.false_branch:
                return value
            return replace(value, true_branch=branches[0], false_branch=branches[1])
        self.of(value)
        return value


def _same(a: object, b: object) -> bool:
    return a is b
