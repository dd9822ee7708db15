"""Orders the bindings of dataflow blocks so that definitions precede uses."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal

from structir.analysis.variables import symbols_in, variables_in
from structir.errors import Diagnostic, WellFormedError
from structir.ir.binding_dims import standing_alone
from structir.ir.dims import Sym
from structir.ir.expr import (
    Binding,
    BindingBlock,
    Call,
    Constant,
    DataflowBlock,
    Expr,
    Function,
    If,
    MatchCast,
    SeqExpr,
    Var,
)
from structir.ir.node import replace
from structir.ir.op import Op
from structir.ir.struct_info import TensorStructInfo
from structir.passes.base import function_pass

Order = Literal["stable", "depth_first"]
Needs = Sequence[Sequence[int]]  # for each binding of a block, the bindings it must come after


@function_pass(aliases=("toposort",))
def topological_sort(function: Function, *, order: Order = "stable") -> Function:
    """Sorts the bindings of every dataflow block so that each follows its dependencies.

    A binding depends on the variables of its value and of its StructInfo, and on the match_casts
    that bind its symbolic dims. `stable` moves only bindings that are too early; `depth_first` puts
    dependencies directly before their use. Other blocks are unchanged.
    """
    sorter = _Sorter({"stable": _stable, "depth_first": _depth_first}[order])
    body = sorter.function_body(function, set())
    return function if body is function.body else replace(function, body=body)


class _Sorter:
    """The sorting of blocks, given the symbolic dims bound before each."""

    def __init__(self, arrange: Callable[[Needs], list[int]]) -> None:
        self.arrange = arrange

    def function_body(self, function: Function, bound_dims: set[Sym]) -> SeqExpr:
        bound = standing_alone([param.struct_info for param in function.params])
        return self.sequence(function.body, bound_dims | bound.keys())

    def sequence(self, seq: SeqExpr, bound_dims: set[Sym]) -> SeqExpr:
        bound_dims = set(bound_dims)
        blocks = tuple([self.block(block, bound_dims) for block in seq.blocks])
        same = all(a is b for a, b in zip(blocks, seq.blocks, strict=True))
        return seq if same else replace(seq, blocks=blocks)

    def block(self, block: BindingBlock, bound_dims: set[Sym]) -> BindingBlock:
        """Returns the sorted block, and records the dims that it binds."""
        bindings = block.bindings
        if isinstance(block, DataflowBlock):
            needs = list(_needs(bindings, bound_dims))
            order = self.arrange(needs)
            if len(order) < len(bindings):
                raise WellFormedError(_cycle(bindings, set(order)))
            bindings = tuple([bindings[index] for index in order])
        visited = []
        for binding in bindings:
            visited.append(self.binding(binding, bound_dims))
            bound_dims.update(_binds(binding))
        same = all(a is b for a, b in zip(visited, block.bindings, strict=True))
        return block if same else replace(block, bindings=tuple(visited))

    def binding(self, binding: Binding, bound_dims: set[Sym]) -> Binding:
        """Returns the binding with the blocks inside its value sorted."""
        value = binding.value
        if isinstance(value, Function):
            body = self.function_body(value, bound_dims)
            if body is value.body:
                return binding
            return replace(binding, value=replace(value, body=body))
        if isinstance(value, If):
            sides = value.true_branch, value.false_branch
            true, false = [self.sequence(side, bound_dims) for side in sides]
            if true is not sides[0] or false is not sides[1]:
                choice = replace(value, true_branch=true, false_branch=false)
                return replace(binding, value=choice)
        return binding


def _binds(binding: Binding) -> dict[Sym, None]:
    """Returns the symbolic dims that a binding defines."""
    return standing_alone([binding.struct_info]) if isinstance(binding, MatchCast) else {}


def _needs(bindings: Sequence[Binding], bound_dims: set[Sym]) -> Iterator[list[int]]:
    """Yields for each binding the indices of its dependencies."""
    definitions: dict[Var, int] = {binding.var: index for index, binding in enumerate(bindings)}
    dims: dict[Sym, int] = {}
    for index, binding in enumerate(bindings):
        for sym in _binds(binding):
            if sym not in bound_dims:
                dims.setdefault(sym, index)
    for index, binding in enumerate(bindings):
        needed = {definitions[var] for var in _variables(binding) if var in definitions}
        if dims:
            needed |= {dims[sym] for sym in symbols_in(_parts(binding)) if sym in dims}
        needed.discard(index)
        yield sorted(needed)


def _parts(binding: Binding) -> tuple[Any, ...]:
    return binding.value, binding.var.struct_info, getattr(binding, "struct_info", None)


def _variables(binding: Binding) -> Iterable[Var]:
    """Returns the variables in a binding; those of most calls are their operands."""
    value = binding.value
    is_call = type(value) is Call and type(value.op) is Op and not value.sinfo_args
    if is_call and _is_plain(binding.var) and all(map(_is_plain, value.args)):  # type: ignore[attr-defined]
        return [arg for arg in value.args if isinstance(arg, Var)]  # type: ignore[attr-defined]
    return variables_in(_parts(binding))


def _is_plain(operand: Expr) -> bool:
    """Whether an operand has no variables inside: a tensor whose sizes are known."""
    info = operand.struct_info
    is_tensor = type(info) is TensorStructInfo and type(info.dims) is tuple
    return is_tensor and isinstance(operand, Var | Constant)


def _stable(needs: Needs) -> list[int]:
    """Orders by the earliest binding that is ready; bindings on a cycle are omitted."""
    missing = [len(each) for each in needs]
    users: list[list[int]] = [[] for _ in needs]
    for index, each in enumerate(needs):
        for other in each:
            users[other].append(index)
    ready = [index for index, count in enumerate(missing) if not count]
    order = []
    while ready:
        index = heapq.heappop(ready)
        order.append(index)
        for user in users[index]:
            missing[user] -= 1
            if not missing[user]:
                heapq.heappush(ready, user)
    return order


def _depth_first(needs: Needs) -> list[int]:
    """Orders dependencies directly before their use, starting from bindings without users."""
    placed = dict.fromkeys(_stable(needs), False)
    needed = {other for each in needs for other in each}
    todo = [index for index in placed if index not in needed][::-1]
    order = []
    while todo:
        index = todo[-1]
        if not placed[index]:
            placed[index] = True
            todo += [other for other in needs[index] if not placed[other]][::-1]
            continue
        todo.pop()
        order.append(index)
    return list(dict.fromkeys(order))


def _cycle(bindings: Sequence[Binding], placed: set[int]) -> Diagnostic:
    names = [b.var.name for index, b in enumerate(bindings) if index not in placed]
    first = next(b for index, b in enumerate(bindings) if index not in placed)
    return Diagnostic(
        f"cyclic dependency between the bindings of {', '.join(names)}",
        first.span,
        code="E0615",
        hint="remove one of these uses, or define the value before the block",
    )
