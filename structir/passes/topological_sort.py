"""Putting the bindings of dataflow blocks in an order of definition before use."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from typing import Literal

from structir.analysis.variables import symbols_in, variables_in
from structir.errors import Diagnostic, WellFormedError
from structir.ir.binding_dims import standing_alone
from structir.ir.dims import Sym
from structir.ir.expr import (
    Binding,
    BindingBlock,
    DataflowBlock,
    Function,
    If,
    MatchCast,
    SeqExpr,
    Var,
)
from structir.ir.node import replace
from structir.passes.base import function_pass

Order = Literal["stable", "depth_first"]
Needs = Sequence[Sequence[int]]  # for each binding of a block, the bindings it must come after


@function_pass(aliases=("toposort",))
def topological_sort(function: Function, *, order: Order = "stable") -> Function:
    """Sort the bindings of every dataflow block so that each stands after all that it needs.

    A binding needs the variables that its value reads or that its StructInfo mentions, and the
    match_casts that bind its symbolic dims. `stable` moves only what stands too early;
    `depth_first` computes what a binding needs right before it. Other blocks stay as they are.
    """
    sorter = _Sorter({"stable": _stable, "depth_first": _depth_first}[order])
    body = sorter.function_body(function, set())
    return function if body is function.body else replace(function, body=body)


class _Sorter:
    """Sorts blocks, knowing which symbolic dims are bound before each."""

    def __init__(self, arrange: Callable[[Needs], list[int]]) -> None:
        self.arrange = arrange

    def function_body(self, function: Function, known: set[Sym]) -> SeqExpr:
        bound = standing_alone([param.struct_info for param in function.params])
        return self.sequence(function.body, known | bound.keys())

    def sequence(self, seq: SeqExpr, known: set[Sym]) -> SeqExpr:
        known = set(known)
        blocks = tuple([self.block(block, known) for block in seq.blocks])
        same = all(a is b for a, b in zip(blocks, seq.blocks, strict=True))
        return seq if same else replace(seq, blocks=blocks)

    def block(self, block: BindingBlock, known: set[Sym]) -> BindingBlock:
        """The sorted block; what it binds is known afterwards."""
        bindings = block.bindings
        if isinstance(block, DataflowBlock):
            needs = list(_needs(bindings, known))
            places = self.arrange(needs)
            if len(places) < len(bindings):
                raise WellFormedError(_circle(bindings, set(places)))
            bindings = tuple([bindings[place] for place in places])
        visited = []
        for binding in bindings:
            visited.append(self.binding(binding, known))
            known.update(_binds(binding))
        same = all(a is b for a, b in zip(visited, block.bindings, strict=True))
        return block if same else replace(block, bindings=tuple(visited))

    def binding(self, binding: Binding, known: set[Sym]) -> Binding:
        """The binding with the blocks inside its value sorted."""
        value = binding.value
        if isinstance(value, Function):
            body = self.function_body(value, known)
            if body is value.body:
                return binding
            return replace(binding, value=replace(value, body=body))
        if isinstance(value, If):
            sides = value.true_branch, value.false_branch
            true, false = [self.sequence(side, known) for side in sides]
            if true is not sides[0] or false is not sides[1]:
                choice = replace(value, true_branch=true, false_branch=false)
                return replace(binding, value=choice)
        return binding


def _binds(binding: Binding) -> dict[Sym, None]:
    """The symbolic dims that a binding brings into scope."""
    return standing_alone([binding.struct_info]) if isinstance(binding, MatchCast) else {}


def _needs(bindings: Sequence[Binding], known: set[Sym]) -> Iterator[list[int]]:
    """For each binding, the places of those it needs."""
    homes: dict[Var, int] = {binding.var: place for place, binding in enumerate(bindings)}
    dims: dict[Sym, int] = {}
    for place, binding in enumerate(bindings):
        for sym in _binds(binding):
            if sym not in known:
                dims.setdefault(sym, place)
    for place, binding in enumerate(bindings):
        parts = (binding.value, binding.var.struct_info, getattr(binding, "struct_info", None))
        needed = [homes[var] for var in variables_in(parts) if var in homes]
        needed += [dims[sym] for sym in symbols_in(parts) if sym in dims]
        yield sorted({other for other in needed if other != place})


def _stable(needs: Needs) -> list[int]:
    """Always the earliest binding that is ready; on a circle, only those outside of it."""
    waiting = [len(each) for each in needs]
    users: list[list[int]] = [[] for _ in needs]
    for place, each in enumerate(needs):
        for other in each:
            users[other].append(place)
    ready = [place for place, count in enumerate(waiting) if not count]
    places = []
    while ready:
        place = heapq.heappop(ready)
        places.append(place)
        for user in users[place]:
            waiting[user] -= 1
            if not waiting[user]:
                heapq.heappush(ready, user)
    return places


def _depth_first(needs: Needs) -> list[int]:
    """What a binding needs right before it, starting from the bindings that no other one needs."""
    placed = dict.fromkeys(_stable(needs), False)
    needed = {other for each in needs for other in each}
    todo = [place for place in placed if place not in needed][::-1]
    places = []
    while todo:
        place = todo[-1]
        if not placed[place]:
            placed[place] = True
            todo += [other for other in needs[place] if not placed[other]][::-1]
            continue
        todo.pop()
        places.append(place)
    return list(dict.fromkeys(places))


def _circle(bindings: Sequence[Binding], placed: set[int]) -> Diagnostic:
    names = [b.var.name for place, b in enumerate(bindings) if place not in placed]
    first = next(b for place, b in enumerate(bindings) if place not in placed)
    return Diagnostic(
        f"the bindings of {', '.join(names)} need one another, or need one that does",
        first.span,
        hint="a dataflow block has to have an order in which each value is computed before its use",
    )
