"""Parses size signatures such as `~s m k; ~s k n -> ~s m n` into schemes.

Equal names are equal sizes, `*s` is a row variable, `~s` a row variable that broadcasts (to `*s`,
if an operand has that), an integer is a fixed size, `_` is any size. An expression such as `h-r+1`
is computed; in an operand it is solved. Conditions follow `where`: `a % 4 == 0`, or on numbers of
elements `elements(*s) == elements(*t)`, `elements(*s, a) == 12`.
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
from structir.solver.constraints.scheme import Scheme, free_rows
from structir.solver.domains.terms import Element, Row, RowVar, ragged
from structir.solver.propagation.arithmetic import fresh

_COMPARISONS: dict[type[ast.cmpop], str] = {
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


def read_size(text: str, size_of: Callable[[str], Dim]) -> Dim:
    """Parses a size expression over the sizes that `size_of` returns for names."""
    try:
        return _size(ast.parse(text.strip(), mode="eval").body, size_of)
    except SyntaxError as error:
        raise _invalid(text) from error


def _size(tree: ast.expr, size_of: Callable[[str], Dim]) -> Dim:
    match tree:
        case ast.Constant(value=int(value)):
            return value
        case ast.Name(id=name):
            return size_of(name)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_size(operand, size_of)
        case ast.BinOp(left=lhs, op=op, right=rhs) if type(op) in _BINARY:
            return _BINARY[type(op)](_size(lhs, size_of), _size(rhs, size_of))  # type: ignore[no-any-return]
        case ast.Call(func=ast.Name(id="min" | "max" as name), args=args):
            parts = [_size(part, size_of) for part in args]
            return dims.dim_min(*parts) if name == "min" else dims.dim_max(*parts)
    raise _invalid(ast.unparse(tree))


def _invalid(text: str) -> ParseError:
    return ParseError(Diagnostic(f"invalid size expression in a signature: {text}", code="E0400"))


class SignatureVars:
    """The size and row variables of one signature."""

    def __init__(self) -> None:
        self.sizes: dict[str, Dim] = {}
        self.rows: dict[str, RowVar] = {}
        self.broadcast: dict[str, list[RowVar]] = {}
        self.strict: set[str] = set()  # row variables that an operand has without broadcasting

    def size(self, name: str) -> Dim:
        """Returns the size of a name."""
        return self.sizes[name] if name in self.sizes else self._new_size(name)

    def _new_size(self, name: str) -> Dim:
        new = fresh(name)
        if name != "_":
            self.sizes[name] = new
        return new

    def row_var(self, name: str) -> RowVar:
        """Returns the row variable of a name."""
        return self.rows.setdefault(name, RowVar(name))

    def row(self, text: str, *, result: bool) -> Row:
        """Parses the axes of an operand or a result."""
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
            variable = RowVar(token[1:])
            self.broadcast.setdefault(token[1:], []).append(variable)
            return variable
        return read_size(token, self.size)

    def joins(self) -> list[Constraint]:
        """Returns the broadcast constraints of `~` row variables."""
        constraints: list[Constraint] = []
        for name, variables in self.broadcast.items():
            joined = (self.row_var(name),)
            if name in self.strict:
                constraints += [RowLe((part,), joined) for part in variables]
            else:
                constraints.append(RowJoin(joined, tuple([(part,) for part in variables])))
        return constraints

    def conditions(self, text: str) -> Iterator[Constraint]:
        """Yields the constraints after `where`."""
        try:
            trees = ast.parse(f"[{text}]", mode="eval").body.elts  # type: ignore[attr-defined]
        except SyntaxError as error:
            raise _invalid(text) from error
        for tree in trees:
            if not isinstance(tree, ast.Compare) or len(tree.ops) != 1:
                raise _invalid(ast.unparse(tree))
            yield from self._condition(type(tree.ops[0]), tree.left, tree.comparators[0], tree)

    def _condition(
        self, op: type[ast.cmpop], lhs: ast.expr, rhs: ast.expr, tree: ast.expr
    ) -> Iterator[Constraint]:
        if _counts_elements(lhs) or _counts_elements(rhs):
            if op is not ast.Eq:
                raise _invalid(ast.unparse(tree))
            yield Prod(self._product(lhs), self._product(rhs))
        elif op in _COMPARISONS:
            sides = _size(lhs, self.size), _size(rhs, self.size)
            yield from constraints_of_condition(condition(_COMPARISONS[op], *sides))
        else:
            raise _invalid(ast.unparse(tree))

    def _product(self, tree: ast.expr) -> Row:
        """Parses `elements(*s, a)` or a size: the axes whose sizes are multiplied."""
        if not isinstance(tree, ast.Call) or not _counts_elements(tree):
            return (_size(tree, self.size),)
        elements: list[Element] = []
        for item in tree.args:
            if isinstance(item, ast.Starred) and isinstance(item.value, ast.Name):
                elements.append(self.row_var(item.value.id))
            else:
                elements.append(_size(item, self.size))
        return tuple(elements)


def _counts_elements(tree: ast.expr) -> bool:
    """Returns whether an expression is `elements(...)`."""
    match tree:
        case ast.Call(func=ast.Name(id="elements")):
            return True
    return False


FurtherConstraints = Callable[[SignatureVars], list[Constraint]]


def signature(text: str, further: FurtherConstraints | None = None) -> Scheme:
    """Parses a signature, with further constraints on its variables, into a scheme."""
    operand_text, arrow, rest = text.partition("->")
    result_text, _, conditions = rest.partition(" where ")
    if not arrow:
        hint = 'separate operands and results: "~s m k; ~s k n -> ~s m n"'
        message = f"invalid signature: expected `operands -> results`, found {text!r}"
        raise ParseError(Diagnostic(message, hint=hint, code="E0400"))
    names = SignatureVars()
    operands = tuple([names.row(part, result=False) for part in operand_text.split(";")])
    results = tuple([names.row(part, result=True) for part in result_text.split(";")])
    declared = further(names) if further is not None else []
    constraints = (*names.joins(), *names.conditions(conditions), *declared)
    return Scheme(operands, results, constraints, splits=free_rows(operands, constraints))


@lru_cache(1024)
def read_signature(text: str) -> Scheme:
    """Parses a signature into a scheme. Raises ParseError if it is malformed."""
    return signature(text)
