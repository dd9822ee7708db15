"""Going through the blocks of functions, those of branches and nested functions included."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
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
    VarBinding,
)
from structir.ir.module import IRModule
from structir.ir.node import replace

EachBlock = Callable[[BindingBlock], Iterable[BindingBlock]]
EachBinding = Callable[[Binding], Iterable[Binding]]


def with_blocks(function: Function, each: EachBlock) -> Function:
    """The function with every block exchanged for others; inner ones first."""
    body = sequence_with_blocks(function.body, each)
    return function if body is function.body else replace(function, body=body)


def sequence_with_blocks(seq: SeqExpr, each: EachBlock) -> SeqExpr:
    """The sequence with every block exchanged for others; inner ones first."""
    blocks: list[BindingBlock] = []
    for block in seq.blocks:
        bindings = tuple([_inside(binding, each) for binding in block.bindings])
        same = all(map(_is, bindings, block.bindings))
        blocks += each(block if same else replace(block, bindings=bindings))
    same = len(blocks) == len(seq.blocks) and all(map(_is, blocks, seq.blocks))
    return seq if same else replace(seq, blocks=tuple(blocks))


def with_bindings(function: Function, each: EachBinding) -> Function:
    """The function with every binding exchanged for others, in the same blocks; inner ones
    first."""

    def in_block(block: BindingBlock) -> list[BindingBlock]:
        bindings = [new for binding in block.bindings for new in each(binding)]
        same = len(bindings) == len(block.bindings) and all(map(_is, bindings, block.bindings))
        if same:
            return [block]
        return [replace(block, bindings=tuple(bindings))] if bindings else []

    return with_blocks(function, in_block)


def _inside(binding: Binding, each: EachBlock) -> Binding:
    value = binding.value
    kind = type(value)
    if kind is not Function and kind is not If:
        return binding
    new: Expr
    if isinstance(value, Function):
        new = with_blocks(value, each)
    else:
        assert isinstance(value, If)
        sides = [sequence_with_blocks(s, each) for s in (value.true_branch, value.false_branch)]
        same = sides[0] is value.true_branch and sides[1] is value.false_branch
        new = value if same else replace(value, true_branch=sides[0], false_branch=sides[1])
    return binding if new is value else VarBinding(binding.var, new, binding.span)


def bindings_of(function: Function) -> Iterator[Binding]:
    """Every binding, those of branches and nested functions too, in the order of the text."""
    todo: list[Any] = [function.body]
    while todo:
        item = todo.pop()
        if isinstance(item, SeqExpr):
            todo += item.bindings()[::-1]
            continue
        yield item
        value = item.value
        if isinstance(value, Function):
            todo.append(value.body)
        elif isinstance(value, If):
            todo += [value.false_branch, value.true_branch]


def calls_of(module: IRModule, name: str) -> Iterator[Call]:
    """Every call of a function of the module by its name."""
    for function in module.functions.values():
        if isinstance(function, Function):
            for binding in bindings_of(function):
                value = binding.value
                if isinstance(value, Call) and is_named(value.op, name):
                    yield value


def is_named(callee: Expr, name: str) -> bool:
    """Whether an expression is the function of the module of this name."""
    return isinstance(callee, GlobalVar) and callee.name == name


def _is(a: object, b: object) -> bool:
    return a is b
