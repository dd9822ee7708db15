"""Parses index signatures.

    lhs[~b, i, k], rhs[~b, k, j] -> out[~b, i, j] @ out_dtype or T

Each side of the arrow is a list of Python subscripts, parsed by Python's parser. Each axis becomes
two index expressions: `index` selects the element, and `size` is the size of the axis. Signatures
are parsed once; axis packs are expanded on the parsed form.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from enum import Enum
from functools import lru_cache, partial
from typing import Any, TypeVar

import attrs

from structir.errors import Diagnostic, DiagnosticError
from structir.opdef.index_expr import (
    AttributeRef,
    AxisPack,
    ElementRef,
    FlattenedIndex,
    IndexExpr,
    IndexExtent,
    IndexOp,
    IndexVar,
    IntLiteral,
)
from structir.opdef.window_sizes import window_overlap

Parsed = TypeVar("Parsed")


class Missing(Enum):
    """The marker of an absent value."""

    REQUIRED = "required"


REQUIRED = Missing.REQUIRED  # the default of a required operand


class NotationError(DiagnosticError):
    """An invalid op declaration.

    `column` and `end` are columns in `text`, the part of the declaration with the error.
    """

    code = "E0300"

    def __init__(self, error: str | Diagnostic, tree: ast.AST | None = None) -> None:
        super().__init__(
            error if isinstance(error, Diagnostic) else Diagnostic(error, code="E0301")
        )
        self.text: str | None = None
        self.column: int = getattr(tree, "col_offset", -1)
        self.end: int = getattr(tree, "end_col_offset", None) or 0

    def within(self, text: str, part: str, start: int) -> NotationError:
        """Sets the location: `part` was parsed in brackets and starts at `start` of `text`."""
        column = max(self.column, 0)
        self.text, self.column = text, start + _source_column(part, column)
        self.end = start + _source_column(part, max(self.end, column + 1))
        return self


def _source_column(part: str, column: int) -> int:
    """Maps a column of the parsed form to the source.

    The parsed form has brackets around `part`, and `[()]` in place of `[]`.
    """
    column -= 1
    for position in range(len(part)):
        if part.startswith("[]", position) and position + 1 < column:
            column -= 2
    return max(column, 0)


@attrs.frozen(cache_hash=True)
class AxisIndex:
    """One axis of an operand or result.

    `index` is None for an unnamed axis (`3`), an axis pack, a `join`, or an axis of run-time size
    (`_`, whose `size` is None too). Sizes contain extents, not loop indices.
    """

    index: IndexExpr | None
    size: IndexExpr | None
    pack: str | None = None  # *s, ~s: the name of an axis pack
    loose: bool = False  # ~i, ~s: broadcasts; an axis of size 1 is read at 0
    whole: bool = False  # [i]: the body operates on the whole axis
    join: tuple[str, ...] = ()  # join(a, b): the concatenated index variables
    starred: str | None = None  # join(*i): an index variable per list member
    listed: bool = False  # a join with an index variable per list member


@attrs.frozen(cache_hash=True)
class OperandAccess:
    """One operand or result of an index signature."""

    name: str
    entries: tuple[AxisIndex, ...]
    dtypes: tuple[str, ...] = ("T",)  # alternatives; the first bound one applies
    default: Any = REQUIRED  # the value of an omitted operand
    many: bool = False  # *xs[..]: a list operand, or a member of one
    text: str = ""  # source, for messages

    @property
    def shown(self) -> str:
        """Returns the name for messages: `x`, or `xs[0]` for a list member."""
        name, _, member = self.name.rpartition("_")
        return f"{name}[{member}]" if self.many and member.isdigit() else self.name

    @property
    def packs(self) -> tuple[str, ...]:
        """Returns the axis packs, in order."""
        return tuple(e.pack for e in self.entries if e.pack is not None)

    @property
    def fixed(self) -> int:
        """Returns the number of axes that are not in packs."""
        return sum(e.pack is None for e in self.entries)


@attrs.frozen(cache_hash=True)
class SideCondition:
    """A comparison of sizes (`where`) or indices (`on`); `op` is lt, le, gt, ge, eq or ne."""

    op: str
    left: IndexExpr
    right: IndexExpr
    text: str = ""


@attrs.frozen(cache_hash=True)
class IndexSignature:
    """A parsed index signature with its side conditions.

    `operands` are in parameter order; the members of a list operand `xs` are `xs_0`, `xs_1`, ...
    `where` constrains extents, `on` constrains indices.
    """

    operands: tuple[OperandAccess, ...]
    results: tuple[OperandAccess, ...]
    where: tuple[SideCondition, ...] = ()
    on: tuple[SideCondition, ...] = ()
    nouns: tuple[tuple[str, str], ...] = ()  # nouns for index variables in messages


@lru_cache(64)  # called for each access and condition of a signature
def pack_index_vars(pack: str, count: int) -> tuple[str, ...]:
    """Returns the index variables of an axis pack of rank `count`."""
    return tuple([f"{pack}_{k}" for k in range(count)])


@lru_cache(4096)
def parse_index_signature(
    text: str, where: str = "", on: str = "", attributes: frozenset[str] = frozenset()
) -> IndexSignature:
    """Parses an index signature; names not among `attributes` are index variables."""
    lhs, arrow, rhs = text.partition("->")
    if not arrow:
        hint = "write the operands, an arrow and the results: `x[i, j] -> out[j, i]`"
        raise NotationError(
            Diagnostic("expected `->`, found none", hint=hint, code="E0301")
        ).within(text, "", _end_of_operands(text))
    left_side, right_side = (
        _side(text, 0, lhs, attributes),
        _side(text, len(lhs) + len(arrow), rhs, attributes),
    )
    operands = frozenset(a.name for a in left_side.accesses())
    parser = _SignatureParser(attributes, operands)
    return IndexSignature(
        tuple([left_side.with_position(parser.access, a) for a in left_side.accesses()]),
        tuple([right_side.with_position(parser.access, a) for a in right_side.accesses()]),
        _conditions(where, _items, partial(parser.condition, size=True)),
        _conditions(on, _conjuncts, partial(parser.condition, size=False)),
    )


def _side(text: str, start: int, side: str, attributes: frozenset[str]) -> _Side:
    """Parses one side of the arrow."""
    start += len(side) - len(side.lstrip())
    return _Side(text, start, side.strip(), attributes)


def _conditions(
    text: str,
    split: Callable[[str], list[ast.expr]],
    translate: Callable[[ast.expr], SideCondition],
) -> tuple[SideCondition, ...]:
    return _with_position(lambda: tuple([translate(tree) for tree in split(text)]), text, text, 0)


def _with_position(parse: Callable[[], Parsed], text: str, part: str, start: int) -> Parsed:
    """Runs `parse` and sets the location of its error."""
    try:
        return parse()
    except SyntaxError as syntax_error:
        error = NotationError(f"syntax error: {syntax_error.msg}")
        error.column = (syntax_error.offset or 1) - 1
        raise error.within(text, part, start) from syntax_error
    except NotationError as notation_error:
        if notation_error.text is None:
            notation_error.within(text, part, start)
        raise


def _end_of_operands(text: str) -> int:
    """Returns the column at which the arrow is missing: after the first operands."""
    separators = [m.end() for m in re.finditer(r"\]", text) if text[m.end() :].lstrip()[:1] != ","]
    return separators[0] if separators and text[separators[0] :].strip() else 0


BRACKETS = {"[": "]", "(": ")"}


def _check_brackets(part: str) -> None:
    """Rejects unbalanced brackets; Python's parser reports them at another column."""
    open_brackets: list[tuple[int, str]] = []
    for column, char in enumerate(part):
        if char in BRACKETS:
            open_brackets.append((column, char))
        elif char in BRACKETS.values() and (
            not open_brackets or BRACKETS[open_brackets.pop()[1]] != char
        ):
            raise _at(f"expected an opening bracket before `{char}`, found none", part, column)
    if open_brackets:
        column, char = open_brackets[-1]
        raise _at(f"expected `{BRACKETS[char]}` for `{char}`, found the end", part, column)


def _at(message: str, part: str, column: int) -> NotationError:
    error = NotationError(message)
    error.column = 1 + column + 2 * part[: max(column - 1, 0)].count("[]")
    return error


def _items(text: str) -> list[ast.expr]:
    return _list_of(text).elts if text else []


def _conjuncts(text: str) -> list[ast.expr]:
    if not text:
        return []
    tree = ast.parse(f"({text})", mode="eval").body
    return tree.values if isinstance(tree, ast.BoolOp) else [tree]


def _list_of(text: str) -> ast.List:
    tree = ast.parse(f"[{text}]", mode="eval").body
    assert isinstance(tree, ast.List)
    return tree


@attrs.frozen
class _ParsedAccess:
    """The syntax of one access."""

    name: str
    many: bool
    entries: list[ast.expr]
    dtypes: tuple[str, ...]
    default: Any
    text: str


class _Side:
    """The accesses on one side of the arrow."""

    def __init__(self, signature: str, start: int, part: str, attributes: frozenset[str]) -> None:
        self.location = signature, part, start
        self.text = part.replace("[]", "[()]")
        self.attributes = attributes
        self.items = _with_position(self._parse_items, *self.location)

    def _parse_items(self) -> list[_ParsedAccess]:
        _check_brackets(self.location[1])
        return [self._parse_access(tree) for tree in _items(self.text)]

    def with_position(
        self, translate: Callable[[_ParsedAccess], OperandAccess], parsed: _ParsedAccess
    ) -> OperandAccess:
        """Translates an access and sets the location of an error."""
        return _with_position(lambda: translate(parsed), *self.location)

    def accesses(self) -> list[_ParsedAccess]:
        return self.items

    def _parse_access(self, tree: ast.expr) -> _ParsedAccess:
        dtypes: tuple[str, ...] = ()
        default, many = REQUIRED, False
        if isinstance(tree, ast.Starred):
            tree, many = tree.value, True
        alternatives: list[ast.expr] = []
        if isinstance(tree, ast.BoolOp):
            tree, *alternatives = tree.values
        if isinstance(tree, ast.BinOp) and isinstance(tree.op, ast.MatMult):
            dtypes, tree = (ast.unparse(tree.right),), tree.left
        for alternative in alternatives:
            if isinstance(alternative, ast.Name):
                dtypes = (*dtypes, alternative.id)
            else:
                default = _literal(alternative)
        if not isinstance(tree, ast.Subscript) or not isinstance(tree.value, ast.Name):
            expected = "expected an operand or a result such as `x[i, j]`"
            raise NotationError(f"{expected}, found {ast.unparse(tree)}", tree)
        indices = tree.slice
        entries = indices.elts if isinstance(indices, ast.Tuple) else [indices]
        shown = self.text[tree.col_offset - 1 : (tree.end_col_offset or 0) - 1]
        text = ("*" if many else "") + shown.replace("[()]", "[]")
        return _ParsedAccess(tree.value.id, many, entries, dtypes or ("T",), default, text)


def _literal(tree: ast.expr) -> Any:
    try:
        return ast.literal_eval(tree)
    except ValueError:
        raise NotationError(f"expected a number, found {ast.unparse(tree)}", tree) from None


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
class _SignatureParser:
    """A translator of Python syntax trees to index expressions."""

    attributes: frozenset[str]
    operands: frozenset[str]

    def access(self, parsed: _ParsedAccess) -> OperandAccess:
        return OperandAccess(
            parsed.name,
            tuple([self.entry(e) for e in parsed.entries]),
            parsed.dtypes,
            parsed.default,
            parsed.many,
            parsed.text,
        )

    def entry(self, tree: ast.expr) -> AxisIndex:
        match tree:
            case ast.Starred(value=ast.Name(id=name)):
                return AxisIndex(None, None, pack=name)
            case ast.UnaryOp(op=ast.Invert(), operand=ast.Name(id=name)):
                return AxisIndex(None, None, pack=name, loose=True)
            case ast.List(elts=[ast.Name(id=name)]):
                return AxisIndex(IndexVar(name), IndexExtent(name), whole=True)
            case ast.Name(id="_"):
                return AxisIndex(None, None)
            case ast.Constant(value=int(value)):
                return AxisIndex(None, IntLiteral(value))
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int())):
                message = "expected the size of an axis, at least 0"
                raise NotationError(f"{message}, found {ast.unparse(tree)}", tree)
            case ast.Slice(lower=ast.expr() as lower, upper=ast.expr() as upper, step=None):
                return self.sliced(lower, upper)
            case ast.Call(func=ast.Name(id="join"), args=[ast.Starred(value=ast.Name(id=name))]):
                return AxisIndex(None, None, starred=name)
            case ast.Call(func=ast.Name(id="join"), args=parts):
                names = tuple([p.id for p in parts if isinstance(p, ast.Name)])
                return concatenated_axis(names)
        size = self.expression(tree, size=True)
        overlap = window_overlap(tree, self.attributes, self.operands)
        if overlap is not None:
            size = IndexOp("sub", (size, self.expression(overlap, size=True)))
        return AxisIndex(self.expression(tree, size=False), size)

    def sliced(self, lower: ast.expr, upper: ast.expr) -> AxisIndex:
        loose = isinstance(lower, ast.UnaryOp) and isinstance(lower.op, ast.Invert)
        index = lower.operand if loose and isinstance(lower, ast.UnaryOp) else lower
        return AxisIndex(
            self.expression(index, size=False), self.expression(upper, size=True), loose=loose
        )

    def condition(self, tree: ast.expr, *, size: bool) -> SideCondition:
        is_single = isinstance(tree, ast.Compare) and len(tree.ops) == 1
        if not isinstance(tree, ast.Compare) or not is_single or type(tree.ops[0]) not in _COMPARE:
            expected = "expected a comparison such as `i == n`"
            raise NotationError(f"{expected}, found {ast.unparse(tree)}", tree)
        lhs, rhs = self.expression(tree.left, size), self.expression(tree.comparators[0], size)
        return SideCondition(_COMPARE[type(tree.ops[0])], lhs, rhs, ast.unparse(tree))

    def expression(self, tree: ast.expr, size: bool) -> IndexExpr:
        match tree:
            case ast.Constant(value=int(value)):
                return IntLiteral(value)
            case ast.Name(id=name):
                return self.name(name, size)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return IndexOp("neg", (self.expression(operand, size),))
            case ast.BinOp(left=lhs, op=op, right=rhs) if type(op) in _BINARY:
                args = (self.expression(lhs, size), self.expression(rhs, size))
                return IndexOp(_BINARY[type(op)], args)
            case ast.Compare(left=lhs, ops=[op], comparators=[rhs]) if type(op) in _COMPARE:
                args = (self.expression(lhs, size), self.expression(rhs, size))
                return IndexOp(_COMPARE[type(op)], args)
            case ast.IfExp(test=test, body=body, orelse=other):
                parts = (test, body, other)
                return IndexOp("select", tuple([self.expression(part, size) for part in parts]))
            case ast.Subscript(value=ast.Name(id=name), slice=inner) if name in self.operands:
                at = inner.elts if isinstance(inner, ast.Tuple) else [inner]
                return ElementRef(name, tuple([self.expression(part, size) for part in at]))
            case ast.Subscript():
                return self.item(tree)
            case ast.Call(func=ast.Name(), args=[_, *_]):
                return self.call(tree, size)
        expected = "expected an index expression such as `2 * i + 1`"
        raise NotationError(f"{expected}, found {ast.unparse(tree)}", tree)

    def name(self, name: str, size: bool) -> IndexExpr:
        if name in self.attributes:
            return AttributeRef(name)
        if name in self.operands:
            return ElementRef(name)
        return IndexExtent(name) if size else IndexVar(name)

    def item(self, tree: ast.Subscript) -> IndexExpr:
        path: list[int] = []
        node: ast.expr = tree
        while isinstance(node, ast.Subscript):
            path.insert(0, _literal(node.slice))
            node = node.value
        if not isinstance(node, ast.Name) or node.id not in self.attributes:
            expected = "expected an attribute or an operand"
            raise NotationError(f"{expected}, found {ast.unparse(tree)}", tree)
        return AttributeRef(node.id, tuple(path))

    def call(self, tree: ast.Call, size: bool) -> IndexExpr:
        function, parts = ast.unparse(tree.func), tree.args
        if function == "size":
            return self.expression(parts[0], size=True)
        if function == "flat":
            return FlattenedIndex(tuple([self.part(part, size) for part in parts]))
        if function in ("min", "max"):
            return IndexOp(function, tuple([self.expression(part, size) for part in parts]))
        raise NotationError(f"expected size, flat, min or max, found {function}", tree)

    def part(self, tree: ast.expr, size: bool) -> IndexExpr:
        """Translates a part of a flattened index: a variable, a pack, or a nested `flat`."""
        if isinstance(tree, ast.Starred) and isinstance(tree.value, ast.Name):
            return AxisPack(tree.value.id)
        return self.expression(tree, size)


def concatenated_axis(names: tuple[str, ...]) -> AxisIndex:
    """Returns one axis that concatenates the ranges of index variables."""
    sizes: list[IndexExpr] = [IndexExtent(name) for name in names]
    while len(sizes) > 1:  # a balanced tree: its depth is logarithmic
        pairs = zip(sizes[::2], sizes[1::2], strict=False)
        sizes = [IndexOp("add", pair) for pair in pairs] + sizes[len(sizes) & ~1 :]
    return AxisIndex(None, sizes[0], join=names)
