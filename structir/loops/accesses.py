"""What statements read and write: elements of arrays, whole arrays, and scalars."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs

from structir.ir.dtype import is_int
from structir.ir.expr import Var
from structir.ir.kernel import (
    Apply,
    Assign,
    Element,
    For,
    KernelStatement,
    LibraryCall,
    Local,
    LoopVariable,
    Scalar,
    Scratch,
)
from structir.ir.node import parts

ANY_ORDER = frozenset({"add_to", "multiply_to", "maximum", "minimum"})
ANY_ORDER_OF_INTEGERS = frozenset({"add", "mul", "min", "max", "bitand", "bitor", "bitxor"})


@attrs.frozen(eq=False)
class Mention:
    """One read or write of memory by a statement: of an element, or of all of it.

    `order` is the function of an accumulation `x = f(x, ...)` whose terms may be taken in any
    order, which the mention belongs to.
    """

    memory: Var | Local
    is_write: bool
    element: Element | None = None
    order: str = ""
    creates: bool = False  # whether a local array begins its life here
    zeros: bool = False  # and is filled with zeros


@attrs.frozen(eq=False)
class Access:
    """A mention, its statement, and the loops around it, outermost first."""

    mention: Mention
    statement: KernelStatement
    loops: tuple[For, ...]

    @property
    def memory(self) -> Var | Local:
        """The array or scalar."""
        return self.mention.memory

    @property
    def is_write(self) -> bool:
        """Whether it writes."""
        return self.mention.is_write


def expressions(node: Any) -> Iterator[Scalar]:
    """Yields the expressions of a statement, or an expression and its parts; parents first."""
    todo = [node] if isinstance(node, Scalar) else _scalars_of(node)
    while todo:
        scalar = todo.pop()
        yield scalar
        todo += _scalars_of(scalar)


def _scalars_of(node: Any) -> list[Scalar]:
    return [part for part in parts(node) if isinstance(part, Scalar)][::-1]


def mentions_of(statement: KernelStatement) -> Iterator[Mention]:
    """Yields what a statement itself reads, then what it writes."""
    match statement:
        case Assign():
            yield from _of_assign(statement)
        case LibraryCall():
            yield from _of_library_call(statement)
        case Scratch(array):
            yield Mention(array, True, creates=True, zeros=statement.zeros)
        case For(_, start, stop):
            yield from _reads(start)
            yield from _reads(stop)
        case _:
            for scalar in _scalars_of(statement):
                yield from _reads(scalar)


def _reads(scalar: Scalar) -> Iterator[Mention]:
    for part in expressions(scalar):
        if isinstance(part, Element):
            yield Mention(part.array, False, part)
        elif isinstance(part, Local) and not isinstance(part, LoopVariable):
            yield Mention(part, False)


def _of_assign(assign: Assign) -> Iterator[Mention]:
    target, order = assign.target, accumulation(assign)
    memory = target.array if isinstance(target, Element) else target
    element = target if isinstance(target, Element) else None
    accumulated = False
    for index in element.indices if element else ():
        yield from _reads(index)
    for read in _reads(assign.value):
        own = order and not accumulated and read.memory is memory
        accumulated = accumulated or bool(own)
        yield attrs.evolve(read, order=order) if own else read
    if assign.symbol:
        yield Mention(memory, False, element, order)
    yield Mention(memory, True, element, order)


def accumulation(assign: Assign) -> str:
    """Returns the function of `x = f(x, value)` or `x += value` if its terms may come in any order,
    else an empty string."""
    target, value = assign.target, assign.value
    if assign.symbol:
        fn = {"+": "add", "*": "mul", "&": "bitand", "|": "bitor", "^": "bitxor"}.get(assign.symbol)
        terms: tuple[Scalar, ...] = (value,)
    elif isinstance(value, Apply) and len(value.args) == 2 and is_same(value.args[0], target):
        fn, terms = value.fn, value.args[1:]
    else:
        return ""
    integers = is_int(target.dtype) and fn in ANY_ORDER_OF_INTEGERS
    if fn is None or not (fn in ANY_ORDER or integers):
        return ""
    memory = target.array if isinstance(target, Element) else target
    again = any(
        part is memory or getattr(part, "array", None) is memory
        for term in terms
        for part in expressions(term)
    )
    return "" if again else fn


def is_same(first: Any, second: Any) -> bool:
    """Whether two expressions are the same, node by node."""
    if first is second:
        return True
    if type(first) is not type(second):
        return False
    match first:
        case Local():
            return False
        case Scalar():
            pairs = zip(parts(first), parts(second), strict=False)
            same_count = len(list(parts(first))) == len(list(parts(second)))
            return same_count and all(is_same(a, b) for a, b in pairs)
        case Var():
            return False
    return bool(first == second)


def _of_library_call(call: LibraryCall) -> Iterator[Mention]:
    for argument in call.args:
        if isinstance(argument, Element):
            for index in argument.indices:
                yield from _reads(index)
            if argument is not call.written:
                yield Mention(argument.array, False)
        else:
            yield from _reads(argument)
    yield Mention(call.written.array, True)
