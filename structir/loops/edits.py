"""Edits of kernels: replaced statements and expressions, and arithmetic of indices."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs

from structir.ir.dims import Dim
from structir.ir.expr import Var
from structir.ir.kernel import (
    Apply,
    For,
    Kernel,
    KernelStatement,
    Literal,
    Local,
    LoopVariable,
    Scalar,
    Scratch,
    Size,
)
from structir.ir.node import rebuild, replace
from structir.loops.loop_tree import Block, LoopTree, blocks_of, loop_tree
from structir.projections.kernels.affine_scalars import DIM_FUNCTIONS

Exchanges = Mapping[KernelStatement, Sequence[KernelStatement]]


def exchange(kernel: Kernel, old: KernelStatement, *new: KernelStatement) -> Kernel:
    """Returns the kernel with a statement replaced by others."""
    return exchange_all(kernel, {old: new})


def exchange_all(kernel: Kernel, exchanges: Exchanges) -> Kernel:
    """Returns the kernel with statements replaced by others; all else keeps its nodes.

    What replaces a statement is not searched.
    """
    ancestors = loop_tree(kernel).ancestors
    changed = {outer for statement in exchanges for outer in ancestors[statement]}
    return attrs.evolve(kernel, body=_exchanged(kernel.body, exchanges, changed))


def _exchanged(
    block: Sequence[KernelStatement], exchanges: Exchanges, changed: set[KernelStatement]
) -> tuple[KernelStatement, ...]:
    statements: list[KernelStatement] = []
    for statement in block:
        if statement in exchanges:
            statements += exchanges[statement]
        elif statement in changed:
            blocks = {id(b): _exchanged(b, exchanges, changed) for b in blocks_of(statement)}
            fields = {"body", "then", "otherwise"} & set(dir(statement))
            new = {name: blocks[id(getattr(statement, name))] for name in fields}
            statements.append(replace(statement, **new))
        else:
            statements.append(statement)
    return tuple(statements)


def substitute(node: Any, change: Callable[[Any], Any]) -> Any:
    """Returns a node with parts replaced by the results of `change` that are not None; a part that
    is replaced is not searched."""
    new = change(node)
    if new is not None:
        return new
    if isinstance(node, Scalar | KernelStatement):
        return rebuild(node, lambda part: substitute(part, change))
    return node


def with_values(node: Any, values: Mapping[Any, Any]) -> Any:
    """Returns a node, or a block, with expressions in place of scalars and loop variables."""
    if isinstance(node, tuple):
        return tuple([with_values(item, values) for item in node])
    return substitute(node, lambda part: values.get(part) if isinstance(part, Local) else None)


def copied(node: Any) -> Any:
    """Returns a copy of statements or expressions with nodes of their own; names are shared."""
    if isinstance(node, tuple):
        return tuple([copied(item) for item in node])
    if isinstance(node, Local) or not isinstance(node, Scalar | KernelStatement):
        return node
    return replace(rebuild(node, copied))


def duplicate(
    tree: LoopTree, block: Block, taken: set[str], values: Mapping[Any, Any] | None = None
) -> Block:
    """Returns a copy of statements, whose loops and local arrays have new variables and names.

    `values` are expressions or variables in place of others. Assigned scalars are shared.
    """
    renamed = dict(values or {})
    for statement in tree.within(block):
        if isinstance(statement, For):
            old = statement.variable
            renamed[old] = LoopVariable(tree.fresh(old.name, taken), old.dtype, old.span)
        elif isinstance(statement, Scratch):
            array = statement.array
            name = tree.fresh(array.name, taken)
            renamed[array] = Var(name, array.struct_info, array.span)

    def new(part: Any) -> Any:
        return renamed.get(part) if isinstance(part, Local | Var) else None

    copies: Block = tuple([substitute(copied(statement), new) for statement in block])
    return copies


def over(tree: LoopTree, loop: For, variable: LoopVariable, taken: set[str] | None = None) -> For:
    """Returns a copy of a loop over another variable; see `duplicate`."""
    taken = {variable.name} if taken is None else taken
    body = duplicate(tree, loop.body, taken, {loop.variable: variable})
    return replace(loop, variable=variable, body=body)


def integer(value: int) -> Literal:
    """Returns an integer as an index."""
    return Literal(value, "int64")


def size(dim: Dim) -> Scalar:
    """Returns a dim as an index."""
    return integer(dim) if isinstance(dim, int) else Size(dim)


def calculate(fn: str, first: Scalar, second: Scalar) -> Scalar:
    """Returns integer arithmetic, such as `add`, simplified where an operand is 0 or 1."""
    match fn, first, second:
        case "add" | "sub", _, Literal(0):
            return first
        case ("add", Literal(0), _) | ("mul", Literal(1), _):
            return second
        case ("mul" | "floordiv", _, Literal(1)) | ("mul", Literal(0), _):
            return first
        case _, Literal(left), Literal(right):
            return integer(DIM_FUNCTIONS[fn](left, right))
        case _, Literal(left), Size(right):
            return size(DIM_FUNCTIONS[fn](left, right))
        case _, Size(left), Literal(right):
            return size(DIM_FUNCTIONS[fn](left, right))
        case _, Size(left), Size(right):
            return size(DIM_FUNCTIONS[fn](left, right))
        case "sub", Apply("add", (base, offset)), _ if base is second:
            return offset
    return Apply(fn, (first, second), "int64")
