"""Saturates the blocks of functions with rules, keeps the cheapest result, and records why."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import attrs

from structir.analysis.declared_checks import DeclaredChecks
from structir.analysis.variables import symbols_in, variables_in
from structir.errors import Diagnostic, PassError, StructIRError
from structir.ir.dims import Sym
from structir.ir.expr import Binding, BindingBlock, Function, If, SeqExpr, Var
from structir.ir.module import IRModule
from structir.ir.node import ShownAsText, replace
from structir.planning.kernel_costs import BlockCost, block_costs, call_seconds
from structir.rewriting.egraph.block import BlockGraph
from structir.rewriting.egraph.explanation import EqualityExplanation
from structir.rewriting.egraph.graph import EGraph
from structir.rewriting.egraph.saturation import Budget, Saturation
from structir.rewriting.egraph.selection import BlockCandidate, Selector, not_worse
from structir.rewriting.rule import Rule

DEFAULT_SIZE = 128  # of dims without a size
OTHER_SIZES = (1, 1024)  # at which the result must not be worse, either
MOST_DIMS = 4  # dims that are varied one at a time
MEASURED = 6  # alternatives that a measurement compares

Measure = Callable[[Function], float]


class SizeMap(dict[Sym, int]):
    """Sizes by symbol, with a default for others."""

    def __init__(self, sizes: Mapping[Sym, int], default: int = DEFAULT_SIZE) -> None:
        super().__init__(sizes)
        self.default = default

    def __missing__(self, symbol: Sym) -> int:
        return self.default


@attrs.frozen(eq=False)
class BlockReport:
    """What saturation did to one block."""

    saturation: Saturation
    before: BlockCost
    after: BlockCost
    changed: bool
    ends: Mapping[str, tuple[int, int]]  # by variable: its term, and the term that computes it now
    names: Mapping[int, str]

    def explain(self, name: str) -> EqualityExplanation:
        """Returns why the value of a variable is equal to what computes it now."""
        start, end = self.ends[name]
        return EqualityExplanation(self.saturation.graph, start, end, self.names)


@attrs.define(eq=False, repr=False)
class SaturationReport(ShownAsText):
    """What `saturate` did, by function: pass one as the option `report`."""

    blocks: dict[str, list[BlockReport]] = attrs.field(factory=dict, init=False)
    rules: dict[str, Rule] = attrs.field(factory=dict, init=False)

    def explain(self, var: str | Var, function: str | None = None) -> EqualityExplanation:
        """Returns why the new value of a variable equals its old one, as applications of rules.

        Raises PassError for a variable that no block defines.
        """
        name = var if isinstance(var, str) else var.name
        for owner, reports in self.blocks.items():
            if function in (None, owner):
                for report in reports:
                    if name in report.ends:
                        return report.explain(name)
        names = [n for blocks in self.blocks.values() for each in blocks for n in each.ends]
        message = f"saturate: no variable `{name}` to explain"
        hint = f"available: {', '.join(names[:8]) or 'none; run the pass first'}"
        raise PassError(Diagnostic(message, hint=hint, code="E0532"))

    def replay(self) -> int:
        """Applies all recorded rules again, and returns the number of variables explained.

        Raises PassError if a result does not follow.
        """
        explanations = [
            block.explain(name)
            for blocks in self.blocks.values()
            for block in blocks
            for name in block.ends
        ]
        for explanation in explanations:
            explanation.replay(self.rules)
        return len(explanations)

    def __str__(self) -> str:
        return "\n".join(
            f"{name}: {summary_of(block)}"
            for name, blocks in self.blocks.items()
            for block in blocks
        )


def summary_of(block: BlockReport) -> str:
    """Returns the sizes of an e-graph, the rules and the costs as one line."""
    run = block.saturation
    graph: EGraph = run.graph
    counts = ", ".join(f"{name} {count}" for name, count in sorted(run.applications.items()))
    before, after = block.before, block.after
    return (
        f"{len(graph.members)} terms in {len(graph.classes)} classes, {run.iterations} iterations "
        f"({run.stop}); {counts or 'no rule applied'}; estimated "
        f"{before.seconds * 1e6:.3g} us in {before.kernels} kernels, "
        f"now {after.seconds * 1e6:.3g} us in {after.kernels}"
    )


@attrs.frozen(eq=False)
class Options:
    """The options of one run of the pass."""

    rules: Sequence[Rule]
    cost: str | Measure
    sizes: Mapping[str, int]
    budget: Budget
    exact: bool
    report: SaturationReport


COSTS: dict[str, Callable[[BlockCost], float]] = {
    "seconds": lambda cost: cost.seconds,
    "bytes": lambda cost: cost.bytes + 1e-6 * cost.seconds,
    "operations": lambda cost: cost.operations + 1e-3 * cost.seconds,
    "kernels": lambda cost: cost.kernels + cost.seconds,
}


def saturated(module: IRModule, options: Options) -> IRModule:
    """Returns the module with each block replaced by the cheapest equal one."""
    checks = DeclaredChecks(module.functions)
    functions = dict(module.functions)
    for name, function in module.functions.items():
        if isinstance(function, Function):
            functions[name] = _FunctionSaturation(name, function, checks, options).run()
    if all(functions[name] is value for name, value in module.functions.items()):
        return module
    return module.with_functions(functions)


class _FunctionSaturation:
    """The saturation of all blocks of one function."""

    def __init__(
        self, name: str, function: Function, checks: DeclaredChecks, options: Options
    ) -> None:
        self.name, self.function, self.checks, self.options = name, function, checks, options
        self.sizes = list(_size_maps(function, options.sizes))

    def run(self) -> Function:
        self.checks.note_functions(self.function.body)
        body = self.sequence(self.function.body, self.function.ret_struct_info)
        return self.function if body is self.function.body else replace(self.function, body=body)

    def sequence(self, seq: SeqExpr, result: Any) -> SeqExpr:
        """Saturates the blocks of a sequence, the last one first."""
        live = set(variables_in((seq.body, result)))
        blocks: list[BindingBlock] = []
        for index in reversed(range(len(seq.blocks))):
            block = self.nested(seq.blocks[index])
            rewritten = self.block(block, live, seq, index)
            live |= variables_in(rewritten).keys()
            blocks.insert(0, rewritten)
            seq = _with_block(seq, index, rewritten)
        return seq

    def nested(self, block: BindingBlock) -> BindingBlock:
        """Saturates the bodies of branches and local functions in a block."""
        bindings = tuple([self.binding(binding) for binding in block.bindings])
        if all(a is b for a, b in zip(bindings, block.bindings, strict=True)):
            return block
        return replace(block, bindings=bindings)

    def binding(self, binding: Binding) -> Binding:
        value: Any = binding.value
        if isinstance(value, Function):
            body = self.sequence(value.body, value.ret_struct_info)
            return (
                binding if body is value.body else replace(binding, value=replace(value, body=body))
            )
        if isinstance(value, If):
            sides = [self.sequence(side, None) for side in (value.true_branch, value.false_branch)]
            if sides[0] is not value.true_branch or sides[1] is not value.false_branch:
                branches = replace(value, true_branch=sides[0], false_branch=sides[1])
                return replace(binding, value=branches)
        return binding

    def block(self, block: BindingBlock, live: set[Var], seq: SeqExpr, index: int) -> BindingBlock:
        """Returns the cheapest block that computes the same."""
        source = BlockGraph(block, live, self.checks.in_value)
        run = Saturation(source.graph, self.options.rules, self.options.budget).run()
        selector = Selector(source, self.costs, self.term_cost, run.groups)
        limits = self.costs(source.used_bindings(), source.live)
        own = BlockCandidate(source.original(), tuple(limits), block)
        candidates = selector.candidates(self.options.exact) if run.applications else []
        candidates = [
            each
            for each in candidates
            if not_worse(each.costs[1:], limits[1:]) and each.costs[0] < limits[0] * (1 - 1e-9)
        ]
        best = self.best([*candidates, own], seq, index)
        self.record(source, run, own, best)
        return best.block

    def best(self, candidates: list[BlockCandidate], seq: SeqExpr, index: int) -> BlockCandidate:
        """Returns the first candidate, or the one that a measurement prefers."""
        measure = self.options.cost
        if isinstance(measure, str) or len(candidates) < 2:
            return candidates[0]
        measured = [*candidates[:-1][: MEASURED - 1], candidates[-1]]
        times = [
            _number(measure(self.with_sequence(seq, _with_block(seq, index, each.block))))
            for each in measured
        ]
        return measured[min(range(len(times)), key=times.__getitem__)]

    def with_sequence(self, seq: SeqExpr, new: SeqExpr) -> Function:
        """Returns the function with a sequence of its body replaced."""
        return replace(self.function, body=new if seq.body is self.function.body.body else seq)

    def costs(
        self, bindings: Sequence[Binding], live: Sequence[Var], count: int | None = None
    ) -> list[float]:
        """Returns the costs of bindings at the sizes that are compared, or at the first `count`."""
        name = self.options.cost if isinstance(self.options.cost, str) else "seconds"
        kept = [var for var in live if isinstance(var, Var)]
        return [COSTS[name](each) for each in block_costs(bindings, kept, self.sizes[:count])]

    def term_cost(self, value: Any) -> float:
        return call_seconds(value, self.sizes[0])

    def record(
        self, source: BlockGraph, run: Saturation, own: BlockCandidate, best: BlockCandidate
    ) -> None:
        """Adds what was done to the report."""
        computed = _Computed(source.graph, best.selection)
        live = set(source.live)
        ends = {
            var.name: (number, computed.number(number) if best is not own else number)
            for var, number in source.numbers.items()
            if var in live
        }
        names = {number: var.name for var, number in reversed(source.numbers.items())}
        before, after = [
            block_costs(bindings, source.live, self.sizes[:1])[0]
            for bindings in (
                source.used_bindings(),
                source.used_bindings() if best is own else best.block.bindings,
            )
        ]
        report = BlockReport(run, before, after, best is not own, ends, names)
        self.options.report.blocks.setdefault(self.name, []).append(report)


class _Computed:
    """The terms that a selection computes, over the terms that it selects for the operands."""

    def __init__(self, graph: EGraph, selection: Mapping[int, int]) -> None:
        self.graph, self.selection = graph, selection
        self.numbers: dict[int, int] = {}

    def number(self, of: int) -> int:
        """Returns the term that computes the class of a term."""
        todo = [self.graph.find(of)]
        while todo:
            number = todo[-1]
            chosen = self.selection[number]
            term = self.graph.terms[chosen]
            operands = (
                [] if term.is_variable or term.is_atom else map(self.graph.find, term.children)
            )
            missing = [child for child in operands if child not in self.numbers]
            if missing:
                todo += missing
                continue
            todo.pop()
            if number not in self.numbers:
                self.numbers[number] = self._add(chosen)
        return self.numbers[self.graph.find(of)]

    def _add(self, chosen: int) -> int:
        term = self.graph.terms[chosen]
        if term.is_variable or term.is_atom:
            return chosen
        operands = [self.numbers[self.graph.find(child)] for child in term.children]
        return self.graph.add(term.value, tuple(operands))


def _with_block(seq: SeqExpr, index: int, block: BindingBlock) -> SeqExpr:
    if seq.blocks[index] is block:
        return seq
    return replace(seq, blocks=(*seq.blocks[:index], block, *seq.blocks[index + 1 :]))


def _size_maps(function: Function, sizes: Mapping[str, int]) -> Iterator[SizeMap]:
    """Yields sizes of the dims of a function: the given or default ones, then others."""
    symbols = list(symbols_in(function))
    fixed = {symbol: sizes[symbol.name] for symbol in symbols if symbol.name in sizes}
    free = [symbol for symbol in symbols if symbol not in fixed]
    yield SizeMap(fixed)
    for size in OTHER_SIZES if free else ():
        yield SizeMap(fixed, size)
        for symbol in free[:MOST_DIMS] if len(free) > 1 else ():
            yield SizeMap({**fixed, symbol: size})


def _number(value: Any) -> float:
    if isinstance(value, int | float):
        return float(value)
    message = f"saturate: cost: expected a number, found {type(value).__name__}"
    raise StructIRError(message, code="E0533")
