"""Reads signatures such as `~s m k; ~s k n -> ~s m n` into schemes: op lines seen by size.

Same letters mean equal sizes, `*s` an equal run of axes, `~s` a run that broadcasts (to `*s`, where
an operand has that), an integer is itself, `_` is any size; an expression such as `h-r+1` is
computed, and in an operand solved. Facts follow `where`: `a % 4 == 0`, or of numbers of elements
`elements(*s) == elements(*t)`.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

from structir.errors import Diagnostic, ParseError
from structir.ir import dims
from structir.ir.polynomial import Dim
from structir.ir.requirements import condition
from structir.solver.constraints.assumptions import constraints_of_condition
from structir.solver.constraints.constraint import Constraint, Prod, RowJoin, RowLe
from structir.solver.constraints.scheme import Scheme
from structir.solver.domains.terms import Element, Row, RowVar, ragged
from structir.solver.propagation.arithmetic import fresh

_COMPARED: dict[type[ast.cmpop], str] = {
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
}
_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


def read_size(text: str, letter: Callable[[str], Dim]) -> Dim:
    """The size that an expression says, over the sizes that `letter` knows."""
    try:
        return _size(ast.parse(text.strip(), mode="eval").body, letter)
    except SyntaxError as error:
        raise _wrong(text) from error


def _size(tree: ast.expr, letter: Callable[[str], Dim]) -> Dim:
    match tree:
        case ast.Constant(value=int(value)):
            return value
        case ast.Name(id=name):
            return letter(name)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_size(operand, letter)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            return _BINARY[type(op)](_size(left, letter), _size(right, letter))  # type: ignore[no-any-return]
        case ast.Call(func=ast.Name(id="min" | "max" as name), args=args):
            parts = [_size(part, letter) for part in args]
            return dims.dim_min(*parts) if name == "min" else dims.dim_max(*parts)
    raise _wrong(ast.unparse(tree))


def _wrong(text: str) -> ParseError:
    return ParseError(Diagnostic(f"not a size: {text}"))


class SignatureVars:
    """The letters and rows of one signature."""

    def __init__(self) -> None:
        self.letters: dict[str, Dim] = {}
        self.rows: dict[str, RowVar] = {}
        self.broadcast: dict[str, list[RowVar]] = {}
        self.strict: set[str] = set()  # rows that an operand has as they are

    def letter(self, name: str) -> Dim:
        return self.letters[name] if name in self.letters else self._new_letter(name)

    def _new_letter(self, name: str) -> Dim:
        made = fresh(name)
        if name != "_":
            self.letters[name] = made
        return made

    def row_var(self, name: str) -> RowVar:
        return self.rows.setdefault(name, RowVar(name))

    def row(self, text: str, *, result: bool) -> Row:
        return tuple([self._element(token, result) for token in text.replace(",", " ").split()])

    def _element(self, token: str, result: bool) -> Element:
        if token == "*" or token.startswith("*:"):
            return ragged(token[2:])
        if token[0] == "*":
            if not result:
                self.strict.add(token[1:])
            return self.row_var(token[1:])
        if token[0] == "~":
            if result:
                return self.row_var(token[1:])
            part = RowVar(token[1:])
            self.broadcast.setdefault(token[1:], []).append(part)
            return part
        return read_size(token, self.letter)

    def joins(self) -> list[Constraint]:
        found: list[Constraint] = []
        for name, parts in self.broadcast.items():
            whole = (self.row_var(name),)
            if name in self.strict:
                found += [RowLe((part,), whole) for part in parts]
            else:
                found.append(RowJoin(whole, tuple([(part,) for part in parts])))
        return found

    def facts(self, text: str) -> Iterator[Constraint]:
        """What the text after `where` says."""
        try:
            trees = ast.parse(f"[{text}]", mode="eval").body.elts  # type: ignore[attr-defined]
        except SyntaxError as error:
            raise _wrong(text) from error
        for tree in trees:
            if not isinstance(tree, ast.Compare) or len(tree.ops) != 1:
                raise _wrong(ast.unparse(tree))
            yield from self._fact(type(tree.ops[0]), tree.left, tree.comparators[0], tree)

    def _fact(
        self, op: type[ast.cmpop], left: ast.expr, right: ast.expr, tree: ast.expr
    ) -> Iterator[Constraint]:
        if isinstance(left, ast.Call) and isinstance(right, ast.Call):
            if op is not ast.Eq:
                raise _wrong(ast.unparse(tree))
            yield Prod(self._product(left), self._product(right))
        elif op in _COMPARED:
            sides = _size(left, self.letter), _size(right, self.letter)
            yield from constraints_of_condition(condition(_COMPARED[op], *sides))
        else:
            raise _wrong(ast.unparse(tree))

    def _product(self, call: ast.Call) -> Row:
        """`elements(*s, a)`: the axes that are multiplied."""
        if not isinstance(call.func, ast.Name) or call.func.id != "elements":
            raise _wrong(ast.unparse(call))
        found: list[Element] = []
        for item in call.args:
            if isinstance(item, ast.Starred) and isinstance(item.value, ast.Name):
                found.append(self.row_var(item.value.id))
            else:
                found.append(_size(item, self.letter))
        return tuple(found)


Conditions = Callable[[SignatureVars], list[Constraint]]


def signature(text: str, conditions: Conditions | None = None) -> Scheme:
    """The scheme that a signature says, with further conditions on its letters."""
    left, arrow, rest = text.partition("->")
    right, _, facts = rest.partition(" where ")
    if not arrow:
        raise ParseError(Diagnostic(f"a signature needs an arrow: {text}"))
    letters = SignatureVars()
    operands = tuple([letters.row(part, result=False) for part in left.split(";")])
    results = tuple([letters.row(part, result=True) for part in right.split(";")])
    further = conditions(letters) if conditions is not None else []
    return Scheme(operands, results, (*letters.joins(), *letters.facts(facts), *further))


@lru_cache(1024)
def read_signature(text: str) -> Scheme:
    """The scheme that a signature says."""
    return signature(text)
