"""The parts of an expression: the axes that it depends on, and the factors beside a part."""

from __future__ import annotations

from collections.abc import Iterable

from structir.ir import dims
from structir.ir.dims import Dim, Sym
from structir.loops.program.expression import (
    Entry,
    Expression,
    Load,
    Operation,
    Position,
    Total,
    walk,
)


def matched(entries: Iterable[Entry], others: Iterable[Entry]) -> dict[Sym, Dim]:
    """Returns the axes of some indices, each with the index of the others at its position."""
    other_of: dict[Sym, Dim] = {}
    for entry, other in zip(entries, others, strict=True):
        if isinstance(entry, Expression) or isinstance(other, Expression):
            continue
        axis = dims.as_sym(entry)
        if axis is not None:
            other_of[axis] = other
    return other_of


def symbols(entry: Entry) -> frozenset[Sym]:
    """Returns the symbols in an index."""
    return axes_of(entry) if isinstance(entry, Expression) else dims.syms(entry)


def axes_of(expression: Expression) -> frozenset[Sym]:
    """Returns the symbols in the indices and positions of an expression."""
    syms: set[Sym] = set()
    for node in walk(expression):
        if isinstance(node, Load):
            syms.update(
                s for e in node.entries if not isinstance(e, Expression) for s in dims.syms(e)
            )
        elif isinstance(node, Position):
            syms |= dims.syms(node.dim)
    return frozenset(syms)


def factors_of(node: Expression, power: Expression) -> tuple[tuple[str, Expression], ...] | None:
    """Returns the factors and divisors that turn a power into this expression, or None if other
    operations are applied to it."""
    factors: list[tuple[str, Expression]] = []
    while node is not power:
        if not isinstance(node, Operation) or node.fn not in ("mul", "div"):
            return None
        inside = [part for part in node.args if power in walk(part)]
        if len(inside) != 1 or (node.fn == "div" and inside[0] is not node.args[0]):
            return None
        left, right = node.args
        factors.append((node.fn, right if left is inside[0] else left))
        (node,) = inside
    return tuple(reversed(factors))


def has_totals(node: Expression) -> bool:
    """Whether an expression reads the total of a reduction."""
    return any(isinstance(part, Total) for part in walk(node))
