"""Prints dims as source of programs (`T.max(n, 4)`) and of generated code (`max(n, 4)`).

Programs that Python code builds may use two dims named `n`. Program text names them `n` and `n_1`;
a message within `one_message` does the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import chain, count
from typing import Any

from structir.ir.polynomial import Atom, Dim, Monomial, Opaque, Poly, Sym

NameOf = Callable[[Sym], str]
SYMBOLS = {"floordiv": "//", "floormod": "%", "lt": "<", "le": "<=", "eq": "==", "ne": "!="}
MIRRORED = {"<": ">", "<=": ">=", "==": "==", "!=": "!="}  # with exchanged operands
CALLED = COMMUTATIVE = ("min", "max")
SUM, PRODUCT, ATOM, COMPARISON = 1, 2, 3, 0  # binding strengths


class _MessageNames(dict[Any, str]):
    """The names in one message, assigned when a dim or row variable is first displayed."""

    def __missing__(self, symbol: Any) -> str:
        """Assigns the name of the symbol, or with a number if another symbol displays it."""
        taken = {(type(other), name) for other, name in self.items()}
        numbered = (f"{symbol.name}_{k}" for k in count(1))
        candidates = chain((symbol.name,), numbered)
        self[symbol] = next(name for name in candidates if (type(symbol), name) not in taken)
        return self[symbol]


_NAMES: ContextVar[_MessageNames | None] = ContextVar("display_names", default=None)


def display_name(symbol: Any) -> str:
    """Returns the name of a dim or row variable in the current message."""
    names = _NAMES.get()
    name: str = symbol.name
    return name if names is None or not name else names[symbol]


@contextmanager
def one_message(*first: object) -> Iterator[None]:
    """Displays different dims and row variables of one name under distinct names.

    Everything that is printed inside belongs to one message. An inner scope extends the outer one.
    The dims in `first` are displayed under their own names.
    """
    if _NAMES.get() is not None:
        yield
        return
    token = _NAMES.set(_MessageNames())
    try:
        for item in first:
            str(item)  # assigns the names
        yield
    finally:
        _NAMES.reset(token)


def text(dim: Dim, name_of: NameOf = display_name) -> str:
    """Prints a dim in a program: terms by falling degree and variable age, then the constant."""
    return str(dim) if type(dim) is not Poly else _sum(dim, name_of, _program_call)[0]


def python_text(dim: Dim, name_of: NameOf = display_name) -> str:
    """Prints a dim in generated code: plain Python that also compiles to a kernel."""
    return str(dim) if type(dim) is not Poly else _sum(dim, name_of, _python_call)[0]


Call = Callable[[str, list[tuple[str, int]]], tuple[str, int]]


def _program_call(fn: str, args: list[tuple[str, int]]) -> tuple[str, int]:
    name = "if_then_else" if fn == "select" else fn
    return f"T.{name}({', '.join([text for text, _ in args])})", ATOM


def _python_call(fn: str, args: list[tuple[str, int]]) -> tuple[str, int]:
    arguments = [text for text, _ in args]
    if fn == "select":
        return f"({arguments[1]} if {arguments[0]} else {arguments[2]})", ATOM
    if fn not in CALLED:  # generated code has no other functions
        raise ValueError(f"no function of sizes: {fn!r}")
    return f"{fn}({', '.join(arguments)})", ATOM


def _dim(dim: Dim, name_of: NameOf, call: Call) -> tuple[str, int]:
    if type(dim) is not Poly:
        return str(dim), ATOM if dim >= 0 else PRODUCT
    return _sum(dim, name_of, call)


def _sum(dim: Poly, name_of: NameOf, call: Call) -> tuple[str, int]:
    terms = list(dim.terms.items())
    if len(terms) == 1 and not dim.constant:
        return _term(*terms[0], name_of, call)
    if len(terms) > 1:
        terms.sort(key=_term_key)
    parts = [_wrapped(_term(*terms[0], name_of, call), SUM)]
    for monomial, coefficient in terms[1:]:
        parts.append(" - " if coefficient < 0 else " + ")
        parts.append(_wrapped(_term(monomial, abs(coefficient), name_of, call), SUM))
    if dim.constant:
        parts.append(f" - {-dim.constant}" if dim.constant < 0 else f" + {dim.constant}")
    return "".join(parts), SUM


def _term(monomial: Monomial, coefficient: int, name_of: NameOf, call: Call) -> tuple[str, int]:
    if len(monomial) == 1:
        atom = _atom(monomial[0], name_of, call)
        if coefficient == 1:
            return atom
        factors = [_wrapped(atom, ATOM)]
    else:
        atoms = monomial
        if any([type(atom) is Opaque for atom in monomial]):
            atoms = tuple(sorted(monomial, key=_atom_key))
        factors = [_wrapped(_atom(atom, name_of, call), ATOM) for atom in atoms]
    product = " * ".join(factors)
    if coefficient in (1, -1):
        return product if coefficient == 1 else f"-{product}", PRODUCT
    return f"{coefficient} * {product}", PRODUCT


def _atom(atom: Atom, name_of: NameOf, call: Call) -> tuple[str, int]:
    if type(atom) is Sym:
        return name_of(atom), ATOM
    args = [_dim(argument, name_of, call) for argument in _ordered(atom)]
    symbol = SYMBOLS.get(atom.fn)
    if symbol is None:
        return call(atom.fn, args)
    if symbol in ("//", "%"):
        return f"{_wrapped(args[0], PRODUCT)} {symbol} {_wrapped(args[1], ATOM)}", PRODUCT
    left, right = [_wrapped(argument, SUM) for argument in args]
    if type(atom.args[0]) is not Poly:  # a constant is on the right, as people write it
        left, right, symbol = right, left, MIRRORED[symbol]
    return f"{left} {symbol} {right}", COMPARISON


def _ordered(atom: Opaque) -> list[Dim]:
    """Returns the arguments of a function; those of a commutative one are sorted."""
    return sorted(atom.args, key=_dim_key) if atom.fn in COMMUTATIVE else list(atom.args)


def _wrapped(operand: tuple[str, int], strength: int) -> str:
    return operand[0] if operand[1] >= strength else f"({operand[0]})"


def _term_key(term: tuple[Monomial, int]) -> Any:
    return -len(term[0]), sorted(map(_atom_key, term[0]))


def _atom_key(atom: Atom) -> Any:
    """Returns the sort key of an atom, determined by its contents, not by creation order."""
    if type(atom) is Sym:
        return 0, atom.order
    keys = list(map(_dim_key, atom.args))
    return 1, atom.fn, tuple(sorted(keys) if atom.fn in COMMUTATIVE else keys)


def _dim_key(dim: Dim) -> Any:
    if type(dim) is not Poly:
        return 1, (), dim
    return 0, tuple(sorted([(_term_key(t), t[1]) for t in dim.terms.items()])), dim.constant
