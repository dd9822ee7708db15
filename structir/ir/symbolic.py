"""Conversion between dims and sympy expressions, and SymVar, the symbol class of users."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, reduce
from operator import add, mul
from typing import Any

import sympy

from structir.errors import Diagnostic, DiagnosticError
from structir.ir import dims
from structir.ir.dims import Dim, Opaque, Poly, Sym

MEMO_SIZE = 4096  # entries of each memo of conversions and proofs
PROOF_NODES = 40  # larger expressions are not passed to sympy.simplify


class SymVar(sympy.Dummy):  # type: ignore[misc]
    """A symbolic variable for users: a non-negative integer that equals only itself."""

    __slots__ = ("sym",)
    sym: Sym

    def __new__(cls, name: str, sym: Sym | None = None) -> SymVar:
        """Returns a new symbol, or the symbol of an existing variable."""
        if sym is not None and sym.face is not None:
            face: SymVar = sym.face
            return face
        symbol: SymVar = super().__new__(cls, name, integer=True, nonnegative=True)
        symbol.sym = Sym(name) if sym is None else sym
        symbol.sym.face = symbol
        return symbol

    def __reduce_ex__(self, protocol: object) -> tuple[Any, ...]:
        return SymVar, (self.name, self.sym)

    def __copy__(self) -> SymVar:
        return self

    def __deepcopy__(self, memo: object) -> SymVar:
        return self

    def _bare_name(self, printer: object) -> str:
        return str(self.name)

    _sympystr = _sympyrepr = _latex = _pythoncode = _bare_name


def to_sympy_shape(sizes: tuple[Dim, ...]) -> tuple[int | sympy.Expr, ...]:
    """Converts sizes to integers and sympy expressions."""
    return tuple([to_sympy(size) for size in sizes])


def to_sympy(dim: Dim) -> int | sympy.Expr:
    """Converts a dim to a sympy expression; an integer is returned unchanged."""
    return _expression(dim) if type(dim) is Poly else dim


@lru_cache(MEMO_SIZE)
def _expression(dim: Poly) -> sympy.Expr:
    terms = [
        sympy.Mul(coefficient, *[_symbol(atom) for atom in monomial])
        for monomial, coefficient in dim.terms.items()
    ]
    return sympy.Add(*terms, dim.constant)


def _symbol(atom: Sym | Opaque) -> sympy.Expr:
    if type(atom) is Sym:
        return atom.face if atom.face is not None else SymVar(atom.name, atom)
    return FROM_ATOM[atom.fn](*[sympy.sympify(to_sympy(argument)) for argument in atom.args])


def _number(relation: Any) -> sympy.Expr:
    """Converts a relation to an expression that is 1 or 0."""
    return sympy.Piecewise((1, relation), (0, True))


def _condition(number: sympy.Expr) -> Any:
    """Converts a number to a relation; the inverse of `_number`."""
    if isinstance(number, sympy.Piecewise) and [a.expr for a in number.args] == [1, 0]:
        return number.args[0].cond
    return sympy.Ne(number, 0)


FROM_ATOM: dict[str, Callable[..., sympy.Expr]] = {
    "floordiv": lambda a, b: sympy.floor(a / b),
    "floormod": sympy.Mod,
    "min": sympy.Min,
    "max": sympy.Max,
    "lt": lambda a, b: _number(sympy.Lt(a, b)),
    "le": lambda a, b: _number(sympy.Le(a, b)),
    "eq": lambda a, b: _number(sympy.Eq(a, b)),
    "ne": lambda a, b: _number(sympy.Ne(a, b)),
    "select": lambda c, a, b: sympy.Piecewise((a, _condition(c)), (b, True)),
}


def from_sympy(expression: Any) -> Dim:
    """Converts a sympy integer expression to a dim; raises DiagnosticError for another one."""
    if isinstance(expression, int):
        return int(expression)
    if not isinstance(expression, sympy.Basic):
        raise _not_a_size(expression, f"{type(expression).__name__} is not an expression")
    return _dim(expression)


@lru_cache(MEMO_SIZE)
def _dim(expression: sympy.Basic) -> Dim:
    for kind in type(expression).__mro__:
        converter = TO_DIM.get(kind)
        if converter is not None:
            return converter(expression)
    raise _not_a_size(expression, f"{type(expression).__name__} is not supported in sizes")


def _not_a_size(expression: Any, reason: str) -> DiagnosticError:
    hint = "write an integer or an expression over SymVars: `2 * n`, `n // 2`, `sympy.Min(n, 4)`"
    return DiagnosticError(Diagnostic(f"expected a size, found {expression}: {reason}", hint=hint))


FOREIGN: dict[sympy.Symbol, Sym] = {}  # plain sympy symbols and their variables


def _variable(symbol: sympy.Symbol) -> Dim:
    if isinstance(symbol, SymVar):
        return dims.as_dim(symbol.sym)
    if symbol not in FOREIGN:
        if symbol.is_integer is False or symbol.is_nonnegative is False:
            raise _not_a_size(symbol, "its assumptions exclude non-negative integers")
        variable = Sym(symbol.name)
        variable.face = symbol
        FOREIGN[symbol] = variable
    return dims.as_dim(FOREIGN[symbol])


def _rational(expression: sympy.Expr) -> tuple[Dim, Dim]:
    """Returns the numerator and the denominator of an expression with fractions."""
    numerator, denominator = sympy.fraction(sympy.together(expression))
    return _fraction_free(numerator), _fraction_free(denominator)


def _fraction_free(expression: sympy.Expr) -> Dim:
    """Converts a sum, product or power without fractions to a dim."""
    match expression:
        case sympy.Add():
            return reduce(add, map(_fraction_free, expression.args))
        case sympy.Mul():
            return reduce(mul, map(_fraction_free, expression.args))
        case sympy.Pow() if expression.exp.is_Integer and expression.exp > 0:
            return reduce(mul, [_fraction_free(expression.base)] * int(expression.exp))
        case sympy.Pow() | sympy.Float() | sympy.Rational() if not expression.is_Integer:
            raise _not_a_size(expression, "it is not an integer for every value of its variables")
    return _dim(expression)


def _polynomial(expression: sympy.Expr) -> Dim:
    numerator, denominator = _rational(expression)
    quotient = dims.exact_quotient(numerator, denominator)
    if quotient is None:
        raise _not_a_size(expression, "it is not an integer for every value of its variables")
    return quotient


def _floor(expression: sympy.Expr) -> Dim:
    return dims.floordiv(*_rational(expression.args[0]))


def _ceiling(expression: sympy.Expr) -> Dim:
    numerator, denominator = _rational(expression.args[0])
    if isinstance(denominator, int):
        return dims.ceildiv(numerator, denominator)
    return -dims.floordiv(-numerator, denominator)


def _chosen(choose: Callable[..., Dim]) -> Callable[[sympy.Expr], Dim]:
    return lambda expression: choose(
        *map(_dim, sorted(expression.args, key=sympy.default_sort_key))
    )


def _compared(op: str) -> Callable[[sympy.Expr], Dim]:
    return lambda relation: dims.compare(op, _dim(relation.lhs), _dim(relation.rhs))


def _piecewise(expression: sympy.Piecewise) -> Dim:
    branches = list(expression.args)
    if branches[-1].cond != sympy.true:
        raise _not_a_size(expression, "expected a last branch with the condition True")
    value = _dim(branches.pop().expr)
    for branch in reversed(branches):
        value = dims.select(_dim(branch.cond), _dim(branch.expr), value)
    return value


TO_DIM: dict[type, Callable[[Any], Dim]] = {
    sympy.Integer: int,
    sympy.Symbol: _variable,
    sympy.Add: _polynomial,
    sympy.Mul: _polynomial,
    sympy.Pow: _polynomial,
    sympy.Rational: _polynomial,
    sympy.Float: _polynomial,
    sympy.floor: _floor,
    sympy.ceiling: _ceiling,
    sympy.Mod: lambda expression: dims.floormod(*map(_dim, expression.args)),
    sympy.Min: _chosen(dims.dim_min),
    sympy.Max: _chosen(dims.dim_max),
    sympy.Lt: _compared("<"),
    sympy.Le: _compared("<="),
    sympy.Gt: _compared(">"),
    sympy.Ge: _compared(">="),
    sympy.Eq: _compared("=="),
    sympy.Ne: _compared("!="),
    sympy.And: _chosen(dims.dim_min),  # conditions are 0 or 1
    sympy.Or: _chosen(dims.dim_max),
    sympy.Not: lambda expression: 1 - _dim(expression.args[0]),
    type(sympy.true): lambda expression: 1,
    type(sympy.false): lambda expression: 0,
    sympy.Piecewise: _piecewise,
}


@lru_cache(MEMO_SIZE)
def is_zero(dim: Poly) -> bool:
    """Whether sympy proves that a dim is zero wherever it is defined."""
    expression = _expression(dim)
    if sum(1 for _ in sympy.preorder_traversal(expression)) > PROOF_NODES:
        return False
    try:
        return bool(sympy.simplify(expression) == 0)
    except (ZeroDivisionError, ValueError):  # sympy substitutes numbers that make a divisor 0
        return False
