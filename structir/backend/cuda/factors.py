"""The parts of an expression: the axes that it depends on, and the factors beside a part."""

from __future__ import annotations

from collections.abc import Iterable

from structir.backend.loops.expression import (
    Entry,
    Expression,
    Load,
    Operation,
    Position,
    Total,
    walk,
)
from structir.ir import dims
from structir.ir.dims import Dim, Sym


def matched(entries: Iterable[Entry], others: Iterable[Entry]) -> dict[Sym, Dim]:
    """Returns the axes of some indices, each with the index of the others at its position."""
    found: dict[Sym, Dim] = {}
    for entry, other in zip(entries, others, strict=True):
        if isinstance(entry, Expression) or isinstance(other, Expression):
            continue
        axis = dims.as_sym(entry)
        if axis is not None:
            found[axis] = other
    return found


def symbols(entry: Entry) -> frozenset[Sym]:
    """Returns the symbols in an index."""
    return axes_of(entry) if isinstance(entry, Expression) else dims.syms(entry)


def axes_of(expression: Expression) -> frozenset[Sym]:
    """Returns the symbols in the indices and positions of an expression."""
    found: set[Sym] = set()
    for node in walk(expression):
        if isinstance(node, Load):
            found.update(
                s for e in node.entries if not isinstance(e, Expression) for s in dims.syms(e)
            )
        elif isinstance(node, Position):
            found |= dims.syms(node.dim)
    return frozenset(found)


def factors_of(node: Expression, power: Expression) -> tuple[tuple[str, Expression], ...] | None:
    """Returns the factors and divisors that turn a power into this expression, or None if other
    operations are applied to it."""
    found: list[tuple[str, Expression]] = []
    while node is not power:
        if not isinstance(node, Operation) or node.fn not in ("mul", "div"):
            return None
        inside = [part for part in node.args if power in walk(part)]
        if len(inside) != 1 or (node.fn == "div" and inside[0] is not node.args[0]):
            return None
        left, right = node.args
        found.append((node.fn, right if left is inside[0] else left))
        (node,) = inside
    return tuple(reversed(found))


def has_totals(node: Expression) -> bool:
    """Whether an expression reads the total of a reduction."""
    return any(isinstance(part, Total) for part in walk(node))
