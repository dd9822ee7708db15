"""Extracts the matches of a pattern into separate functions."""

from __future__ import annotations

from typing import Any

from structir.analysis.closures import params_for
from structir.analysis.substitution import Substitution
from structir.analysis.variables import symbols_in, variables_in
from structir.ir.binding_dims import bound_dims
from structir.ir.expr import (
    Binding,
    BindingBlock,
    Call,
    DataflowBlock,
    Expr,
    Function,
    GlobalVar,
    SeqExpr,
    Var,
    VarBinding,
)
from structir.ir.module import IRModule
from structir.ir.node import replace
from structir.ir.struct_info import FuncStructInfo
from structir.rewriting.matching import Match, UseDefGraph
from structir.rewriting.replacement import replacement_of
from structir.rewriting.rule import Rule

COMPOSITE = "composite"  # function attribute: the name of the extracted rule


def extract_matches(module: IRModule, rule: Rule) -> IRModule:
    """Replaces every match of the pattern of a rule by a call of a new function.

    The function is named after the rule and marked by the attribute `composite`.

    A match is skipped if its guard rejects it, if an inner value has other users, or if it uses a
    symbolic dim that no operand binds. Only bindings of the outermost sequence of each function are
    matched. The replacement of the rule is ignored.
    """
    functions = dict(module.functions)
    for name, function in module.functions.items():
        if isinstance(function, Function) and COMPOSITE not in function.attrs:
            functions[name] = _Extraction(functions, rule, function).run()
    return module.with_functions(functions)


class _Extraction:
    """The extraction of the matches of one rule from one function."""

    def __init__(self, functions: dict[str, Any], rule: Rule, function: Function) -> None:
        self.functions = functions
        self.rule = rule
        self.count = 0
        self.function = function
        self.graph = UseDefGraph(function)
        self.order: dict[Var, int] = {}  # program order
        self.calls: dict[Var, Call] = {}
        self.inner: set[Var] = set()

    def run(self) -> Function:
        for block in self.function.body.blocks:
            for binding in block.bindings:
                self.order[binding.var] = len(self.order)
                self.graph.values[binding.var] = binding.value
                self.graph.dataflow_vars.add(binding.var)
            for binding in reversed(block.bindings):  # the last binding has the largest match
                if binding.var not in self.inner and isinstance(binding, VarBinding):
                    self.extract(binding)
            self.graph.dataflow_vars.clear()
        if not self.calls:
            return self.function
        blocks = tuple([self.block(block) for block in self.function.body.blocks])
        return replace(self.function, body=replace(self.function.body, blocks=blocks))

    def block(self, block: BindingBlock) -> BindingBlock:
        bindings: list[Binding] = [
            replace(b, value=self.calls[b.var]) if b.var in self.calls else b
            for b in block.bindings
            if b.var not in self.inner
        ]
        return replace(block, bindings=tuple(bindings))

    def extract(self, binding: VarBinding) -> None:
        """Extracts the match at a binding, if there is a valid one."""
        match = Match(self.graph)
        if not match.at(self.rule.pattern_calls[0], binding.var) or not self.is_accepted(match):
            return
        matched = [match.graph.name(var) for var in match.matched.values() if isinstance(var, Var)]
        inner = list(dict.fromkeys(var for var in matched if var is not binding.var))[::-1]
        if any(self.graph.uses(var) != 1 or var in self.inner for var in inner):
            return
        order = sorted(inner, key=self.order.__getitem__)
        outline = self.outline(binding, order)
        if outline is None:
            return
        function, arguments = outline
        name = self.fresh_name()
        self.functions[name] = function
        info: FuncStructInfo = function.struct_info
        call = Call(GlobalVar(name, info), arguments, struct_info=binding.var.struct_info)
        self.calls[binding.var] = call
        self.inner |= set(inner)

    def is_accepted(self, match: Match) -> bool:
        """Returns whether the guard of the rule accepts the match."""
        return replacement_of(self.rule, match.bound, match.matched, self.graph) is not None

    def outline(
        self, last: VarBinding, inner: list[Var]
    ) -> tuple[Function, tuple[Expr, ...]] | None:
        """Returns a function of these bindings and its arguments; None if a dim is unbound."""
        bindings = [VarBinding(var, self.graph.values[var], var.span) for var in inner]
        bindings.append(last)
        bound_vars = {binding.var for binding in bindings}
        variables = [
            var for b in bindings for var in variables_in(b.value) if var not in bound_vars
        ]
        operands = tuple(dict.fromkeys(variables))
        params = params_for(operands)
        bound_symbols = bound_dims([var.struct_info for var in operands])
        if not set(symbols_in(tuple(bindings))) <= bound_symbols:
            return None
        copier = Substitution(dict(params))
        copies = [copier.binding(binding) for binding in bindings[:-1]]
        result = Var(last.var.name, last.var.struct_info, last.span)
        copies.append(VarBinding(result, copier.part(last.value), last.span))
        body = SeqExpr((DataflowBlock(tuple(copies)),), result)
        attrs = {COMPOSITE: self.rule.name}
        function = Function(tuple(params.values()), body, result.struct_info, True, attrs)
        renamed = Substitution(fresh=True).function(function)
        return renamed, operands

    def fresh_name(self) -> str:
        name = self.rule.name if not self.count else f"{self.rule.name}_{self.count}"
        self.count += 1
        return self.fresh_name() if name in self.functions else name
