"""Traversal and rewriting of blocks and bindings, with those of branches and local functions."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator
from operator import is_
from typing import Any

from structir.ir.expr import (
    Binding,
    BindingBlock,
    Call,
    Expr,
    Function,
    GlobalVar,
    If,
    SeqExpr,
    Var,
    VarBinding,
)
from structir.ir.module import IRModule
from structir.ir.node import replace

EachBlock = Callable[[BindingBlock], Iterable[BindingBlock]]
EachBinding = Callable[[Binding], Iterable[Binding]]


def with_blocks(function: Function, each: EachBlock, opaque: Container[Var] = ()) -> Function:
    """Replaces every block of a function, inner ones first; `each` returns the replacement.

    Blocks in the values of `opaque` variables are not visited.
    """
    body = sequence_with_blocks(function.body, each, opaque)
    return function if body is function.body else replace(function, body=body)


def sequence_with_blocks(seq: SeqExpr, each: EachBlock, opaque: Container[Var] = ()) -> SeqExpr:
    """Replaces every block of a sequence, inner ones first; `each` returns the replacement."""
    blocks: list[BindingBlock] = []
    for block in seq.blocks:
        bindings = tuple([_inside(binding, each, opaque) for binding in block.bindings])
        same = all(map(is_, bindings, block.bindings))
        blocks += each(block if same else replace(block, bindings=bindings))
    same = len(blocks) == len(seq.blocks) and all(map(is_, blocks, seq.blocks))
    return seq if same else replace(seq, blocks=tuple(blocks))


def with_bindings(function: Function, each: EachBinding, opaque: Container[Var] = ()) -> Function:
    """Replaces every binding of a function in its block, inner ones first.

    Bindings in the values of `opaque` variables are not visited.
    """

    def in_block(block: BindingBlock) -> list[BindingBlock]:
        bindings = [new for binding in block.bindings for new in each(binding)]
        same = len(bindings) == len(block.bindings) and all(map(is_, bindings, block.bindings))
        if same:
            return [block]
        return [type(block)(tuple(bindings), block.span)] if bindings else []

    return with_blocks(function, in_block, opaque)


def _inside(binding: Binding, each: EachBlock, opaque: Container[Var]) -> Binding:
    value = binding.value
    kind = type(value)
    if (kind is not Function and kind is not If) or binding.var in opaque:
        return binding
    rewritten: Expr
    if isinstance(value, Function):
        rewritten = with_blocks(value, each, opaque)
    else:
        assert isinstance(value, If)
        branches = [
            sequence_with_blocks(seq, each, opaque)
            for seq in (value.true_branch, value.false_branch)
        ]
        same = branches[0] is value.true_branch and branches[1] is value.false_branch
        rewritten = (
            value if same else replace(value, true_branch=branches[0], false_branch=branches[1])
        )
    return binding if rewritten is value else VarBinding(binding.var, rewritten, binding.span)


def bindings_of(function: Function) -> Iterator[Binding]:
    """Yields the bindings of a function, its branches and its local functions in source order."""
    remaining = [iter(function.body.bindings())]  # of the sequences around a binding, inner last
    while remaining:
        for binding in remaining[-1]:
            yield binding
            value: Any = binding.value
            kind = type(value)
            if kind is Function:
                remaining.append(iter(value.body.bindings()))
                break
            if kind is If:
                branches = (value.false_branch, value.true_branch)
                remaining += [iter(branch.bindings()) for branch in branches]
                break
        else:
            remaining.pop()


def calls_of(module: IRModule, name: str) -> Iterator[Call]:
    """Yields the calls of a function of the module."""
    for function in module.functions.values():
        if isinstance(function, Function):
            for binding in bindings_of(function):
                value = binding.value
                if isinstance(value, Call) and is_named(value.op, name):
                    yield value


def is_named(callee: Expr, name: str) -> bool:
    """Whether an expression refers to the function of the module with this name."""
    return isinstance(callee, GlobalVar) and callee.name == name
