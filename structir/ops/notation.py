"""Reads an op line, once, into accesses and entries.

    lhs[~b, i, k], rhs[~b, k, j] -> out[~b, i, j] @ out_dtype or T

Each side of the arrow is a list of Python subscripts, so Python's parser reads it. What an entry
says is kept as two formulas: `index`, where it is read (the index view), and `size`, how long the
axis is (the size view). Nothing is ever read from text again: rows become letters on the compiled
entries.
"""

from __future__ import annotations

import ast
from enum import Enum
from functools import lru_cache
from typing import Any

import attrs

from structir.errors import StructIRError
from structir.ops.formula import (
    Apply,
    Attribute,
    Element,
    Extent,
    Flat,
    Formula,
    Letter,
    Number,
    Row,
)


class Missing(Enum):
    """Stands for a value that is not there."""

    REQUIRED = "required"


REQUIRED = Missing.REQUIRED  # the default of an operand that must be given


class NotationError(StructIRError):
    """An op line is not written in the notation: a mistake of the op's author."""


@attrs.frozen(cache_hash=True)
class Entry:
    """One axis of one operand or result.

    `index` is None where it has none of its own: an unnamed axis (`3`), a row, a `join`, or a size
    known only at run time (`_`, whose `size` is None too). `Letter` in an index is the position,
    `Extent` the length; sizes hold extents only.
    """

    index: Formula | None
    size: Formula | None
    row: str | None = None  # *s and ~s: stands for as many axes as the row has
    loose: bool = False  # ~i, ~s: the axis may also be 1, and is then read at 0
    whole: bool = False  # [i]: the body sees the axis at once; `index` is the letter
    join: tuple[str, ...] = ()  # join(a, b): the letters whose ranges follow each other
    starred: str | None = None  # join(*i): one letter for each member of the list

    @property
    def letter(self) -> str | None:
        """The letter of an entry that is just a letter, of its own extent; None for any other."""
        plain = isinstance(self.index, Letter) and self.size == Extent(self.index.name)
        return self.index.name if plain and isinstance(self.index, Letter) else None


@attrs.frozen(cache_hash=True)
class Access:
    """One operand or result of a line, entry by entry."""

    name: str
    entries: tuple[Entry, ...]
    dtypes: tuple[str, ...] = ("T",)  # alternatives, the first that is given counts
    default: Any = REQUIRED  # what an operand that is left out counts as
    many: bool = False  # *xs[..]: a list, or a member of one
    text: str = ""  # as it is written, for messages

    @property
    def shown(self) -> str:
        """Its name for a reader: a member of a list by its place."""
        name, _, member = self.name.rpartition("_")
        return f"{name}[{member}]" if self.many and member.isdigit() else self.name

    @property
    def rows(self) -> tuple[str, ...]:
        """The rows in it, in order."""
        return tuple(e.row for e in self.entries if e.row is not None)

    @property
    def fixed(self) -> int:
        """How many axes it has beside its rows."""
        return sum(e.row is None for e in self.entries)


@attrs.frozen(cache_hash=True)
class Relation:
    """A comparison: of sizes in `where`, of indices in `on`. `op` is lt le gt ge eq ne."""

    op: str
    left: Formula
    right: Formula
    text: str = ""


@attrs.frozen(cache_hash=True)
class Line:
    """An op line with its side conditions.

    `operands` stand in the order of the signature; a member of a list operand `xs` is called
    `xs_0`, `xs_1`, ... `where` speaks of extents, `on` of indices.
    """

    operands: tuple[Access, ...]
    results: tuple[Access, ...]
    where: tuple[Relation, ...] = ()
    on: tuple[Relation, ...] = ()


def row_letters(row: str, count: int) -> tuple[str, ...]:
    """The letters that a row of this many axes stands for."""
    return tuple([f"{row}_{k}" for k in range(count)])


@lru_cache(4096)
def read_line(
    text: str, where: str = "", on: str = "", attributes: frozenset[str] = frozenset()
) -> Line:
    """The line that a text says; a name is an attribute if it is among `attributes`, otherwise a
    letter."""
    left, arrow, right = text.partition("->")
    if not arrow:
        raise NotationError(f"an op line needs an arrow: {text}")
    try:
        sides = [_Side(side.strip().replace("[]", "[()]"), attributes) for side in (left, right)]
        operands = frozenset(a.name for a in sides[0].accesses())
        reader = _Reader(attributes, operands)
        return Line(
            tuple([reader.access(a) for a in sides[0].accesses()]),
            tuple([reader.access(a) for a in sides[1].accesses()]),
            tuple([reader.relation(c, size=True) for c in _items(where)]),
            tuple([reader.relation(c, size=False) for c in _conjuncts(on)]),
        )
    except SyntaxError as error:
        raise NotationError(f"not an op line: {text}: {error.msg}") from error


def _items(text: str) -> list[ast.expr]:
    return _list_of(text).elts if text else []


def _conjuncts(text: str) -> list[ast.expr]:
    if not text:
        return []
    tree = ast.parse(text, mode="eval").body
    return tree.values if isinstance(tree, ast.BoolOp) else [tree]


def _list_of(text: str) -> ast.List:
    tree = ast.parse(f"[{text}]", mode="eval").body
    assert isinstance(tree, ast.List)
    return tree


@attrs.frozen
class _Written:
    """An access as it stands in the text."""

    name: str
    many: bool
    entries: list[ast.expr]
    dtypes: tuple[str, ...]
    default: Any
    text: str


class _Side:
    """The accesses on one side of the arrow."""

    def __init__(self, text: str, attributes: frozenset[str]) -> None:
        self.text = text
        self.attributes = attributes
        self.items = [self._written(tree) for tree in _items(text)]

    def accesses(self) -> list[_Written]:
        return self.items

    def _written(self, tree: ast.expr) -> _Written:
        dtypes: tuple[str, ...] = ()
        default, many = REQUIRED, False
        if isinstance(tree, ast.Starred):
            tree, many = tree.value, True
        others: list[ast.expr] = []
        if isinstance(tree, ast.BoolOp):
            tree, *others = tree.values
        if isinstance(tree, ast.BinOp) and isinstance(tree.op, ast.MatMult):
            dtypes, tree = (ast.unparse(tree.right),), tree.left
        for other in others:
            if isinstance(other, ast.Name):
                dtypes = (*dtypes, other.id)
            else:
                default = ast.literal_eval(other)
        if not isinstance(tree, ast.Subscript) or not isinstance(tree.value, ast.Name):
            raise NotationError(f"not an access in an op line: {ast.unparse(tree)}")
        inner = tree.slice
        entries = inner.elts if isinstance(inner, ast.Tuple) else [inner]
        shown = self.text[tree.col_offset - 1 : (tree.end_col_offset or 0) - 1]
        text = ("*" if many else "") + shown.replace("[()]", "[]")
        return _Written(tree.value.id, many, entries, dtypes or ("T",), default, text)


_BINARY = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.FloorDiv: "floordiv",
    ast.Mod: "mod",
}
_COMPARE = {
    ast.Lt: "lt",
    ast.LtE: "le",
    ast.Gt: "gt",
    ast.GtE: "ge",
    ast.Eq: "eq",
    ast.NotEq: "ne",
}


@attrs.frozen
class _Reader:
    """Turns syntax into entries and formulas, knowing which names are attributes and which
    operands."""

    attributes: frozenset[str]
    operands: frozenset[str]

    def access(self, written: _Written) -> Access:
        return Access(
            written.name,
            tuple([self.entry(e) for e in written.entries]),
            written.dtypes,
            written.default,
            written.many,
            written.text,
        )

    def entry(self, tree: ast.expr) -> Entry:
        match tree:
            case ast.Starred(value=ast.Name(id=name)):
                return Entry(None, None, row=name)
            case ast.UnaryOp(op=ast.Invert(), operand=ast.Name(id=name)):
                return Entry(None, None, row=name, loose=True)
            case ast.List(elts=[ast.Name(id=name)]):
                return Entry(Letter(name), Extent(name), whole=True)
            case ast.Name(id="_"):
                return Entry(None, None)
            case ast.Constant(value=int(value)):
                return Entry(None, Number(value))
            case ast.Slice(lower=ast.expr() as lower, upper=ast.expr() as upper):
                return self.sliced(lower, upper)
            case ast.Call(func=ast.Name(id="join"), args=[ast.Starred(value=ast.Name(id=name))]):
                return Entry(None, None, starred=name)
            case ast.Call(func=ast.Name(id="join"), args=parts):
                names = tuple([p.id for p in parts if isinstance(p, ast.Name)])
                return joined(names)
        return Entry(self.formula(tree, size=False), self.formula(tree, size=True))

    def sliced(self, lower: ast.expr, upper: ast.expr) -> Entry:
        loose = isinstance(lower, ast.UnaryOp) and isinstance(lower.op, ast.Invert)
        index = lower.operand if loose and isinstance(lower, ast.UnaryOp) else lower
        return Entry(self.formula(index, size=False), self.formula(upper, size=True), loose=loose)

    def relation(self, tree: ast.expr, *, size: bool) -> Relation:
        if not isinstance(tree, ast.Compare) or len(tree.ops) != 1:
            raise NotationError(f"not a comparison: {ast.unparse(tree)}")
        left, right = self.formula(tree.left, size), self.formula(tree.comparators[0], size)
        return Relation(_COMPARE[type(tree.ops[0])], left, right, ast.unparse(tree))

    def formula(self, tree: ast.expr, size: bool) -> Formula:
        match tree:
            case ast.Constant(value=int(value)):
                return Number(value)
            case ast.Name(id=name):
                return self.name(name, size)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return Apply("neg", (self.formula(operand, size),))
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
                args = (self.formula(left, size), self.formula(right, size))
                return Apply(_BINARY[type(op)], args)
            case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _COMPARE:
                args = (self.formula(left, size), self.formula(right, size))
                return Apply(_COMPARE[type(op)], args)
            case ast.IfExp(test=test, body=body, orelse=other):
                parts = (test, body, other)
                return Apply("select", tuple([self.formula(part, size) for part in parts]))
            case ast.Subscript(value=ast.Name(id=name), slice=inner) if name in self.operands:
                at = inner.elts if isinstance(inner, ast.Tuple) else [inner]
                return Element(name, tuple([self.formula(part, size) for part in at]))
            case ast.Subscript():
                return self.item(tree)
            case ast.Call(func=ast.Name(id=function), args=parts):
                return self.call(function, parts, size)
        raise NotationError(f"not in the notation: {ast.unparse(tree)}")

    def name(self, name: str, size: bool) -> Formula:
        if name in self.attributes:
            return Attribute(name)
        if name in self.operands:
            return Element(name)
        return Extent(name) if size else Letter(name)

    def item(self, tree: ast.Subscript) -> Formula:
        path: list[int] = []
        node: ast.expr = tree
        while isinstance(node, ast.Subscript):
            path.insert(0, ast.literal_eval(node.slice))
            node = node.value
        if not isinstance(node, ast.Name) or node.id not in self.attributes:
            raise NotationError(f"neither an attribute nor an operand: {ast.unparse(tree)}")
        return Attribute(node.id, tuple(path))

    def call(self, function: str, parts: list[ast.expr], size: bool) -> Formula:
        if function == "size":
            return self.formula(parts[0], size=True)
        if function == "flat":
            return Flat(tuple([self.part(part, size) for part in parts]))
        if function in ("min", "max"):
            return Apply(function, tuple([self.formula(part, size) for part in parts]))
        raise NotationError(f"not a function of the notation: {function}")

    def part(self, tree: ast.expr, size: bool) -> Formula:
        """One part of a group: a letter, a row, or a further group."""
        if isinstance(tree, ast.Starred) and isinstance(tree.value, ast.Name):
            return Row(tree.value.id)
        return self.formula(tree, size)


def joined(names: tuple[str, ...]) -> Entry:
    """One axis that is the range of one letter after the other's."""
    sizes: list[Formula] = [Extent(name) for name in names]
    while len(sizes) > 1:  # by halves: a thousand pieces are no thousand sums within one another
        pairs = zip(sizes[::2], sizes[1::2], strict=False)
        sizes = [Apply("add", pair) for pair in pairs] + sizes[len(sizes) & ~1 :]
    return Entry(None, sizes[0], join=names)
