"""The small expressions that stand in an op line: frozen trees over letters, extents, attributes
and elements of operands.

An index speaks of a `Letter` (the position along a loop axis), a size speaks of its `Extent`; both
may use attributes. A tree is given a meaning by `evaluate`: the size view evaluates over `Dim`s,
the index view over `Dim`s or points of a body.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import attrs

from structir.ir import dims


@attrs.frozen(repr=False, cache_hash=True)
class Formula:
    """An expression in an op line."""

    def __repr__(self) -> str:
        return text_of(self)


@attrs.frozen(repr=False, cache_hash=True)
class Number(Formula):
    """An integer."""

    value: int


@attrs.frozen(repr=False, cache_hash=True)
class Letter(Formula):
    """The position along a loop axis."""

    name: str


@attrs.frozen(repr=False, cache_hash=True)
class Extent(Formula):
    """How long a letter's axis is; written `size(i)` in an index, and `i` in a size."""

    name: str


@attrs.frozen(repr=False, cache_hash=True)
class Attribute(Formula):
    """The value of an attribute, or an item of it: `padding[0]`."""

    name: str
    path: tuple[int, ...] = ()


@attrs.frozen(repr=False, cache_hash=True)
class Element(Formula):
    """An element of an operand: by the operand's own access, or at the indices that are given."""

    operand: str
    at: tuple[Formula, ...] | None = None


@attrs.frozen(repr=False, cache_hash=True)
class Apply(Formula):
    """A function of formulas: add sub mul floordiv mod neg min max select lt le gt ge eq ne."""

    fn: str
    args: tuple[Formula, ...]


@attrs.frozen(repr=False, cache_hash=True)
class Row(Formula):
    """All letters of a row; only inside `Flat`, and gone when the ranks are known."""

    name: str


@attrs.frozen(repr=False, cache_hash=True)
class Flat(Formula):
    """Several letters as one axis, row-major; gone when the ranks are known."""

    parts: tuple[Formula, ...]


SIGNS = {"add": "+", "sub": "-", "mul": "*", "floordiv": "//", "mod": "%"}
COMPARISONS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}


def text_of(formula: Formula) -> str:
    """The formula as an op line has it."""
    match formula:
        case Number(value):
            return str(value)
        case Letter(name) | Extent(name):
            return name
        case Row(name):
            return f"*{name}"
        case Attribute(name, path):
            return name + "".join(f"[{k}]" for k in path)
        case Element(operand, at):
            return operand if at is None else f"{operand}[{', '.join(map(text_of, at))}]"
        case Flat(parts):
            return f"flat({', '.join(map(text_of, parts))})"
        case Apply(fn, (left, right)) if fn in SIGNS or fn in COMPARISONS:
            return f"({text_of(left)} {SIGNS.get(fn) or COMPARISONS[fn]} {text_of(right)})"
        case Apply(fn, args):
            return f"{fn}({', '.join(map(text_of, args))})"
    raise TypeError(type(formula).__name__)


def leaves(formula: Formula) -> Iterator[Formula]:
    """Every part of a formula that is no function of others."""
    match formula:
        case Apply(_, args):
            for part in args:
                yield from leaves(part)
        case Flat(parts):
            for part in parts:
                yield from leaves(part)
        case Element(_, at):
            yield formula
            for part in at or ():
                yield from leaves(part)
        case _:
            yield formula


def replaced(formula: Formula, leaf: Callable[[Formula], Formula]) -> Formula:
    """The formula with other leaves."""
    match formula:
        case Apply(fn, args):
            return Apply(fn, tuple([replaced(part, leaf) for part in args]))
        case Flat(parts):
            return Flat(tuple([replaced(part, leaf) for part in parts]))
        case Element(operand, at) if at is not None:
            return Element(operand, tuple([replaced(part, leaf) for part in at]))
    return leaf(formula)


def product(parts: tuple[Formula, ...]) -> Formula:
    """All parts multiplied; 1 for none."""
    made = parts[0] if parts else Number(1)
    for part in parts[1:]:
        made = Apply("mul", (made, part))
    return made


def unfolded(formula: Formula, rows: Mapping[str, tuple[str, ...]]) -> Formula:
    """The formula without `Flat` and `Row`: rows as their letters, groups multiplied out."""
    match formula:
        case Flat(parts):
            return _grouped(_laid_open(parts, rows))
        case Apply(fn, args):
            return Apply(fn, tuple([unfolded(part, rows) for part in args]))
        case Element(operand, at) if at is not None:
            return Element(operand, tuple([unfolded(part, rows) for part in at]))
    return formula


def _laid_open(
    parts: tuple[Formula, ...], rows: Mapping[str, tuple[str, ...]]
) -> tuple[Formula, ...]:
    opened: list[Formula] = []
    for part in parts:
        if isinstance(part, Row):
            opened += [Letter(name) for name in rows[part.name]]
        elif isinstance(part, Flat):
            opened += _laid_open(part.parts, rows)
        else:
            opened.append(part)
    return tuple(opened)


def _grouped(parts: tuple[Formula, ...]) -> Formula:
    if all(isinstance(part, Extent) for part in parts) and parts:
        return product(parts)
    if not parts:
        return Number(0)
    made = parts[0]
    for part in parts[1:]:
        if not isinstance(part, Letter):
            raise ValueError(f"flat groups letters, not {part}")
        made = Apply("add", (Apply("mul", (made, Extent(part.name))), part))
    return made


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
    formula: Formula, leaf: Callable[[Formula], Any], functions: Functions = DIM_FUNCTIONS
) -> Any:
    """The value of a formula, from the values of its leaves."""
    if isinstance(formula, Apply):
        values = [evaluate(part, leaf, functions) for part in formula.args]
        return functions[formula.fn](*values)
    return formula.value if isinstance(formula, Number) else leaf(formula)
