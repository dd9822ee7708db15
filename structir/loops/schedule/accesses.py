"""Memory accesses of statements: elements of arrays, whole arrays, and scalars."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs

from structir.ir.dtype import is_float, is_int
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
    assigned_value,
)
from structir.ir.node import parts

REASSOCIABLE = {"add": "add_to", "mul": "multiply_to"}
EXTREMA = {"max": "maximum", "min": "minimum"}
ANY_ORDER = frozenset({"add_to", "multiply_to", "maximum", "minimum"})
ANY_ORDER_OF_INTEGERS = frozenset({"add", "mul", "min", "max", "bitand", "bitor", "bitxor"})


@attrs.frozen(eq=False)
class Mention:
    """A read or write of an element, a whole array, or a scalar by a statement.

    If it is part of an accumulation `x = f(x, ...)` whose terms may be reordered, `order` is `f`,
    else an empty string.
    """

    memory: Var | Local
    is_write: bool
    element: Element | None = None
    order: str = ""
    creates: bool = False  # whether it allocates a local array
    zeros: bool = False  # and initialises it with zeros


@attrs.frozen(eq=False)
class Access:
    """A memory access with its statement and the enclosing loops, outermost first."""

    mention: Mention
    statement: KernelStatement
    loops: tuple[For, ...]

    @property
    def memory(self) -> Var | Local:
        """The array or scalar that is accessed."""
        return self.mention.memory

    @property
    def is_write(self) -> bool:
        """Whether the access is a write."""
        return self.mention.is_write


def expressions(node: Any) -> Iterator[Scalar]:
    """Yields all subexpressions of a statement or an expression, in pre-order."""
    todo = [node] if isinstance(node, Scalar) else _scalars_of(node)
    while todo:
        scalar = todo.pop()
        yield scalar
        todo += _scalars_of(scalar)


def _scalars_of(node: Any) -> list[Scalar]:
    return [part for part in parts(node) if isinstance(part, Scalar)][::-1]


def mentions_of(statement: KernelStatement) -> Iterator[Mention]:
    """Yields the reads, then the writes of a statement, without those of nested statements."""
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
    """Returns the function of `x = f(x, value)` or `x += value` if its terms may be reordered, else
    an empty string."""
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
    """Whether two expressions are structurally equal."""
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


def is_same_element(first: Element | None, second: Element | None) -> bool:
    """Whether two accesses of one array are of the same element."""
    if first is None or second is None or first.flat != second.flat:
        return False
    pairs = zip(first.indices, second.indices, strict=True)
    return bool(first.indices) and all(is_same(a, b) for a, b in pairs)


def _of_library_call(call: LibraryCall) -> Iterator[Mention]:
    for argument in call.args:
        if isinstance(argument, Element):
            for index in argument.indices:
                yield from _reads(index)
            if argument is not call.written or call.accumulates:
                yield Mention(argument.array, False)
        else:
            yield from _reads(argument)
    yield Mention(call.written.array, True)


def reassociable(assign: Assign) -> Scalar | None:
    """Returns the reassociable value of an accumulation; None for other assignments."""
    target, value = assign.target, assigned_value(assign)
    if not isinstance(value, Apply) or not is_float(value.dtype):
        return None
    fn, terms = REASSOCIABLE.get(value.fn), value.args
    if value.fn == "select":
        fn, terms = _extremum(value, target)
    if fn is None or len(terms) != 2:
        return None
    other = [term for term in terms if not is_same(term, target)]
    if len(other) != 1 or any(is_same(part, target) for part in expressions(other[0])):
        return None
    return Apply(fn, (target, other[0]), value.dtype, value.span)


def _extremum(value: Apply, target: Scalar) -> tuple[str | None, tuple[Scalar, ...]]:
    """Returns the function and the terms of `x if x != x else max(t, x)`."""
    match value.args:
        case Apply("ne", (first, second)), third, Apply(fn, (total, term)) if fn in EXTREMA:
            same = is_same(total, target) and all(is_same(s, term) for s in (first, second, third))
            return (EXTREMA[fn], (total, term)) if same else (None, ())
    return None, ()
