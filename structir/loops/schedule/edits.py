"""Edits of kernels: statement replacement, substitution, and index arithmetic with folding."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs

from structir.ir.dtype import is_float
from structir.ir.expr import Var
from structir.ir.kernel import (
    Apply,
    Branch,
    Element,
    For,
    Kernel,
    KernelStatement,
    Literal,
    Local,
    LoopVariable,
    Prefetch,
    Scalar,
    Scratch,
)
from structir.ir.module import numbered_name
from structir.ir.node import rebuild, replace
from structir.loops.schedule.loop_tree import LoopTree, blocks_of, loop_tree

# Source has no operators of two literals: the parser takes their dtypes from other operands.
OF_LITERALS: dict[str, Callable[[Any, Any], Any]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "floordiv": operator.floordiv,
    "mod": operator.mod,
    "min": min,
    "max": max,
    "bitand": operator.and_,
    "bitor": operator.or_,
    "bitxor": operator.xor,
}
Exchanges = Mapping[KernelStatement, Sequence[KernelStatement]]


def exchange(kernel: Kernel, old: KernelStatement, *new: KernelStatement) -> Kernel:
    """Returns the kernel with a statement replaced by others."""
    return exchange_all(kernel, {old: new})


def exchange_all(kernel: Kernel, exchanges: Exchanges) -> Kernel:
    """Returns the kernel with statements replaced; unchanged statements keep their nodes.

    Replacements are not searched.
    """
    ancestors = loop_tree(kernel).ancestors
    changed = {outer for statement in exchanges for outer in ancestors[statement]}
    return attrs.evolve(kernel, body=_exchange_in(kernel.body, exchanges, changed))


def _exchange_in(
    block: Sequence[KernelStatement], exchanges: Exchanges, changed: set[KernelStatement]
) -> tuple[KernelStatement, ...]:
    statements: list[KernelStatement] = []
    for statement in block:
        if statement in exchanges:
            statements += exchanges[statement]
        elif statement in changed:
            new = [_exchange_in(b, exchanges, changed) for b in blocks_of(statement)]
            fields = ("then", "otherwise") if isinstance(statement, Branch) else ("body",)
            statements.append(replace(statement, **dict(zip(fields, new, strict=True))))
        else:
            statements.append(statement)
    return tuple(statements)


def substitute(node: Any, change: Callable[[Any], Any]) -> Any:
    """Returns a node with parts replaced by the results of `change`; None keeps a part.

    Replacements are not searched.
    """
    new = change(node)
    if new is not None:
        return new
    if isinstance(node, Scalar | KernelStatement):
        return _printable(rebuild(node, lambda part: substitute(part, change)))
    return node


def _printable(node: Any) -> Any:
    """Returns an access with indices that its text can state: a number below 0, which only a branch
    that never runs may have, as a difference."""
    if not isinstance(node, Element | Prefetch):
        return node
    if not any(isinstance(index, Literal) and index.value < 0 for index in node.indices):
        return node
    return replace(node, indices=tuple(map(_difference, node.indices)))


def _difference(index: Scalar) -> Scalar:
    if not (isinstance(index, Literal) and index.value < 0):
        return index
    return Apply("sub", (integer(0), integer(int(-index.value))), "int64")


def with_values(node: Any, values: Mapping[Any, Any]) -> Any:
    """Returns a node with scalars and loop variables replaced by expressions."""
    return substitute(node, lambda part: values.get(part) if isinstance(part, Local) else None)


class Names:
    """A generator of unused names for a kernel."""

    def __init__(self, tree: LoopTree) -> None:
        self.used = set(tree.names)

    def fresh(self, stem: str) -> str:
        """Returns an unused name that begins with `stem`."""
        name = numbered_name(stem, self.used)
        self.used.add(name)
        return name


def fresh_copy(names: Names | None, node: Any, values: dict[Any, Any] | None = None) -> Any:
    """Returns a copy of a statement with new nodes, and with new variables for its loops and local
    arrays unless `names` is None.

    `values` maps scalars and variables to their replacements. The new variables and arrays are
    added to it, for copies of later statements of the same block.
    """
    new_values = {} if values is None else values

    def copy(part: Any) -> Any:
        if isinstance(part, Local | Var):
            return new_values.get(part, part)
        if isinstance(part, Scratch) and names is not None:
            array = part.array
            new_values[array] = Var(names.fresh(array.name), array.struct_info, array.span)
        if isinstance(part, For) and names is not None:
            old = part.variable
            new_values[old] = LoopVariable(names.fresh(old.name), old.dtype, old.span)
        if isinstance(part, Apply):
            return fold_apply(rebuild(part, copy))
        if isinstance(part, Scalar):
            return _printable(rebuild(part, copy))
        return (
            _printable(replace(rebuild(part, copy))) if isinstance(part, KernelStatement) else part
        )

    return copy(node)


def fold_apply(apply: Apply) -> Scalar:
    """Folds index arithmetic, and normalises a cast of a literal to its parsed form."""
    match apply:
        case Apply("cast", (Literal(value, "int64"),), dtype) if dtype != "bool":
            literal = Literal(value, dtype if is_float(dtype) or abs(value) < 128 else "int64")
            return Apply("cast", (literal,), dtype, apply.span)
    is_index = apply.dtype == "int64" and len(apply.args) == 2
    folded = _fold(apply.fn, *apply.args) if is_index else None
    return apply if folded is None else folded


def integer(value: int) -> Literal:
    """Returns an int64 literal."""
    return Literal(value, "int64")


def calculate(fn: str, first: Scalar, second: Scalar) -> Scalar:
    """Returns an operation on indices, such as `add`, folded."""
    folded = _fold(fn, first, second)
    return Apply(fn, (first, second), "int64") if folded is None else folded


def _fold(fn: str, first: Scalar, second: Scalar) -> Scalar | None:
    """Folds operations on 0, 1 and literals; None if nothing can be folded."""
    match fn, first, second:
        case ("add" | "sub", _, Literal(0)) | ("mul" | "floordiv", _, Literal(1)):
            return first
        case ("add", Literal(0), _) | ("mul", Literal(1), _):
            return second
        case ("mul", _, Literal(0)) | ("mul", Literal(0), _):
            return integer(0)
        case "floordiv" | "mod", _, Literal(divisor) if divisor <= 0:
            return None
        case _, Literal(left), Literal(right) if fn in OF_LITERALS:
            value = OF_LITERALS[fn](left, right)
            return integer(value) if abs(value) < 2**63 else None
    return None
