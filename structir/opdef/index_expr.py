"""Index expressions: frozen trees over index variables, extents, attributes and elements.

Indices contain `IndexVar` leaves (loop indices), sizes contain `IndexExtent` leaves (extents of
loops). Both may contain attributes. `evaluate` evaluates sizes over dims, and indices over dims or
scalar expressions.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import attrs

from structir.ir import dims


@attrs.frozen(repr=False, cache_hash=True)
class IndexExpr:
    """An index expression."""

    def __repr__(self) -> str:
        return text_of(self)


@attrs.frozen(repr=False, cache_hash=True)
class IntLiteral(IndexExpr):
    """An integer."""

    value: int


@attrs.frozen(repr=False, cache_hash=True)
class IndexVar(IndexExpr):
    """A loop index."""

    name: str


@attrs.frozen(repr=False, cache_hash=True)
class IndexExtent(IndexExpr):
    """The extent of an index variable: `size(i)` in an index, `i` in a size."""

    name: str


def plain_variable(index: IndexExpr | None, size: IndexExpr | None) -> str | None:
    """Returns the index variable of an axis whose index is a single variable, else None."""
    is_plain = isinstance(index, IndexVar) and size == IndexExtent(index.name)
    return index.name if is_plain and isinstance(index, IndexVar) else None


@attrs.frozen(repr=False, cache_hash=True)
class AttributeRef(IndexExpr):
    """The value of an attribute, or an item of it: `padding[0]`."""

    name: str
    path: tuple[int, ...] = ()


@attrs.frozen(repr=False, cache_hash=True)
class ElementRef(IndexExpr):
    """An element of an operand, at the indices of its access or at `at`."""

    operand: str
    at: tuple[IndexExpr, ...] | None = None


@attrs.frozen(repr=False, cache_hash=True)
class IndexOp(IndexExpr):
    """An application of add, sub, mul, floordiv, mod, neg, min, max, select or a comparison."""

    fn: str
    args: tuple[IndexExpr, ...]


@attrs.frozen(repr=False, cache_hash=True)
class AxisPack(IndexExpr):
    """The index variables of an axis pack, in a `FlattenedIndex` before desugaring."""

    name: str


@attrs.frozen(repr=False, cache_hash=True)
class FlattenedIndex(IndexExpr):
    """A row-major axis over several index variables, before desugaring."""

    parts: tuple[IndexExpr, ...]


SIGNS = {"add": "+", "sub": "-", "mul": "*", "floordiv": "//", "mod": "%"}
COMPARISONS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}


def text_of(expr: IndexExpr) -> str:
    """Returns an index expression as source."""
    match expr:
        case IntLiteral(value):
            return str(value)
        case IndexVar(name) | IndexExtent(name):
            return name
        case AxisPack(name):
            return f"*{name}"
        case AttributeRef(name, path):
            return name + "".join(f"[{k}]" for k in path)
        case ElementRef(operand, at):
            return operand if at is None else f"{operand}[{', '.join(map(text_of, at))}]"
        case FlattenedIndex(parts):
            return f"flat({', '.join(map(text_of, parts))})"
        case IndexOp(fn, (lhs, rhs)) if fn in SIGNS or fn in COMPARISONS:
            return f"({text_of(lhs)} {SIGNS.get(fn) or COMPARISONS[fn]} {text_of(rhs)})"
        case IndexOp(fn, args):
            return f"{fn}({', '.join(map(text_of, args))})"
    raise TypeError(type(expr).__name__)


def leaves(expr: IndexExpr) -> Iterator[IndexExpr]:
    """Yields the leaves of an index expression."""
    match expr:
        case IndexOp(_, args):
            for part in args:
                yield from leaves(part)
        case FlattenedIndex(parts):
            for part in parts:
                yield from leaves(part)
        case ElementRef(_, at):
            yield expr
            for part in at or ():
                yield from leaves(part)
        case _:
            yield expr


def replace_leaves(expr: IndexExpr, leaf: Callable[[IndexExpr], IndexExpr]) -> IndexExpr:
    """Returns an index expression with each leaf replaced by `leaf` of it."""
    match expr:
        case IndexOp(fn, args):
            return IndexOp(fn, tuple([replace_leaves(part, leaf) for part in args]))
        case FlattenedIndex(parts):
            return FlattenedIndex(tuple([replace_leaves(part, leaf) for part in parts]))
        case ElementRef(operand, at) if at is not None:
            return ElementRef(operand, tuple([replace_leaves(part, leaf) for part in at]))
    return leaf(expr)


def product(parts: tuple[IndexExpr, ...]) -> IndexExpr:
    """Returns the product of index expressions; 1 for none."""
    total = parts[0] if parts else IntLiteral(1)
    for part in parts[1:]:
        total = IndexOp("mul", (total, part))
    return total


def unfold(expr: IndexExpr, packs: Mapping[str, tuple[str, ...]]) -> IndexExpr:
    """Expands axis packs and flattened indices."""
    match expr:
        case FlattenedIndex(parts):
            return _linearize(_flatten(parts, packs))
        case IndexOp(fn, args):
            return IndexOp(fn, tuple([unfold(part, packs) for part in args]))
        case ElementRef(operand, at) if at is not None:
            return ElementRef(operand, tuple([unfold(part, packs) for part in at]))
    return expr


def _flatten(
    parts: tuple[IndexExpr, ...], packs: Mapping[str, tuple[str, ...]]
) -> tuple[IndexExpr, ...]:
    flattened: list[IndexExpr] = []
    for part in parts:
        if isinstance(part, AxisPack):
            flattened += [IndexVar(name) for name in packs[part.name]]
        elif isinstance(part, FlattenedIndex):
            flattened += _flatten(part.parts, packs)
        else:
            flattened.append(part)
    return tuple(flattened)


def _linearize(parts: tuple[IndexExpr, ...]) -> IndexExpr:
    if all(isinstance(part, IndexExtent) for part in parts) and parts:
        return product(parts)
    if not parts:
        return IntLiteral(0)
    offset = parts[0]
    for part in parts[1:]:
        if not isinstance(part, IndexVar):
            raise ValueError(f"flat: expected index variables, found {part}")
        offset = IndexOp("add", (IndexOp("mul", (offset, IndexExtent(part.name))), part))
    return offset


Functions = Mapping[str, Callable[..., Any]]

DIM_FUNCTIONS: Functions = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "neg": operator.neg,
    "floordiv": dims.floordiv,
    "mod": dims.floormod,
    "min": dims.dim_min,
    "max": dims.dim_max,
    "select": dims.select,
    **{name: (lambda a, b, name=name: dims.compare(name, a, b)) for name in COMPARISONS},
}


def evaluate(
    expr: IndexExpr, leaf: Callable[[IndexExpr], Any], functions: Functions = DIM_FUNCTIONS
) -> Any:
    """Evaluates an index expression; `leaf` returns the value of a leaf."""
    if isinstance(expr, IndexOp):
        values = [evaluate(part, leaf, functions) for part in expr.args]
        return functions[expr.fn](*values)
    return expr.value if isinstance(expr, IntLiteral) else leaf(expr)
