"""Values of dims for values of their variables; proofs of equalities and inequalities between dims
for all values of their variables."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from math import gcd

from structir.errors import Diagnostic, DiagnosticError
from structir.ir.dim_division import floormod
from structir.ir.dim_text import display_name, one_message
from structir.ir.polynomial import (
    Dim,
    Monomial,
    Opaque,
    Poly,
    Sym,
    bounds,
    opaque_atom,
    rewritten,
    sym,
    symbolic,
    syms,
)

# Bit sets of signs: those that a dim may have, and those for which a property holds (`accepted`).
NEGATIVE, ZERO, POSITIVE = 1, 2, 4
CASES = 128  # limit on the cases of one proof
MODULUS = 32  # largest divisor whose remainders are enumerated
STEPS = (0, 1, 2, 3, 5, 8, 13, 1_000_003)  # the last exceeds the size limits that programs state
LARGE = (8, 21, 64, 1_000_003, 30)  # quotients of all variables at once are not 0

Substitution = dict[Sym | Opaque, Dim]


def equal(first: Dim, second: Dim) -> bool | None:
    """Returns True if equal for all values of variables, False if for none, None if undecided."""
    if first is second or first == second:
        return True
    difference = first - second
    answer = _answer(_signs(difference), ZERO)
    if answer is not None or not _has_opaque(difference):
        return answer
    return _deep_equal(difference)


def at_least(first: Dim, second: Dim) -> bool | None:
    """Returns True if first >= second for all values of the variables, False if for none.

    Returns None if undecided.
    """
    difference = first - second
    answer = _answer(_signs(difference), ZERO | POSITIVE)
    if answer is not None or not _has_opaque(difference):
        return answer
    return _by_cases(difference, ZERO | POSITIVE)


def quickly_at_least(first: Dim, second: Dim) -> bool:
    """Whether bounds alone prove first >= second; used by simplification."""
    difference = first - second
    low = bounds(difference)[0]
    if low is not None and low >= 0:
        return True
    return _has_opaque(difference) and not _signs(_without_quotients(difference)) & NEGATIVE


def quickly_equal(first: Dim, second: Dim) -> bool | None:
    """Decides equality by bounds and common factors only; None if undecided."""
    return _answer(_signs(first - second), ZERO)


@lru_cache(4096)
def _deep_equal(difference: Poly) -> bool | None:
    answer = _by_cases(difference, ZERO)
    if answer is None and _sampled(difference) == ZERO:
        atoms = [atom for term in difference.terms for atom in term]
        if any([isinstance(atom, Opaque) and atom.fn in DECISIONS for atom in atoms]):
            return True if _is_decided(difference) else None
        if symbolic.is_zero(difference):
            return True
    return answer


def _is_decided(difference: Poly) -> bool:
    """Whether a difference is that of a comparison and its only value. Comparisons of symbols are
    not passed to sympy, which takes long and proves none."""
    monomials = [*difference.terms.items()]
    if len(monomials) > 1 or len(monomials[0][0]) > 1 or abs(monomials[0][1]) != 1:
        return False
    ((atom,), sign) = monomials[0]
    value = -difference.constant * sign
    if not isinstance(atom, Opaque) or atom.fn not in DECISIONS or value not in (0, 1):
        return False
    return DECISIONS[atom.fn](*atom.args) is bool(value)


_NEGATION: dict[bool | None, bool | None] = {True: False, False: True, None: None}
DECISIONS: dict[str, Callable[[Dim, Dim], bool | None]] = {  # by the names of comparisons
    "lt": lambda a, b: at_least(b, a + 1),
    "le": lambda a, b: at_least(b, a),
    "eq": equal,
    "ne": lambda a, b: _NEGATION[equal(a, b)],
}


@lru_cache(4096)
def _by_cases(dim: Poly, accepted: int) -> bool | None:
    return None if _answer(_sampled(dim), accepted) is None else _proof(dim, accepted, CASES)


def _answer(signs: int, accepted: int) -> bool | None:
    if not signs & accepted:
        return False
    return None if signs & ~accepted else True


def _signs(dim: Dim) -> int:
    low, high = bounds(dim)
    signs = NEGATIVE if low is None or low < 0 else 0
    signs |= POSITIVE if high is None or high > 0 else 0
    if (low is None or low <= 0) and (high is None or high >= 0) and _may_vanish(dim):
        signs |= ZERO
    return signs


def _may_vanish(dim: Dim) -> bool:
    """Whether a dim can be zero: the gcd of its coefficients must divide its constant."""
    if type(dim) is not Poly:
        return dim == 0
    return dim.constant % gcd(*dim.terms.values()) == 0


def _has_opaque(dim: Dim) -> bool:
    return type(dim) is Poly and any([type(atom) is Opaque for term in dim.terms for atom in term])


def _sampled(dim: Poly) -> int:
    """Returns the signs of a dim at a few sample points."""
    signs = 0
    for point in _points(sorted(syms(dim), key=lambda variable: variable.order)):
        try:
            value = evaluate(dim, point)
        except DiagnosticError:  # division by zero at this point
            continue
        signs |= ZERO if value == 0 else POSITIVE if value > 0 else NEGATIVE
    return signs


def _points(variables: list[Sym]) -> Iterator[dict[Sym, int]]:
    """Yields the sample points."""
    for steps in (STEPS, LARGE):
        for shift in range(len(steps)):
            spread = shift % 3 + 1
            yield {v: steps[(shift + spread * i) % len(steps)] for i, v in enumerate(variables)}


def _proof(dim: Dim, accepted: int, cases: int) -> bool | None:
    """Returns the answer that is the same in all cases, or None."""
    answer = _answer(_signs(dim), accepted)
    if answer is None and _has_opaque(dim):
        answer = _answer(_signs(_without_quotients(dim)), accepted)
        split = _split(dim) if answer is None else []
        if 0 < len(split) <= cases:
            answer = _agreed(dim, split, accepted, cases // max(len(split), 2))
    return answer


def _agreed(dim: Dim, split: list[Substitution], accepted: int, cases: int) -> bool | None:
    answers: set[bool | None] = set()
    for case in split:
        try:
            answers.add(_proof(rewritten(dim, case), accepted, cases))
        except DiagnosticError:  # division by zero: an impossible case, unless a `select` guards it
            if any([atom.fn == "select" for atom in _opaques(dim)]):
                return None
            continue
        if answers == {True, False} or None in answers:
            return None
    return answers.pop() if answers else None


def _without_quotients(dim: Dim) -> Dim:
    """Replaces `x // c` by `(x - x % c) / c`, and multiplies by positive denominators.

    The result has the sign of the dim.
    """
    for _ in range(8):
        atom = _quotient_in(dim)
        if atom is None or type(dim) is not Poly:
            break
        numerator, denominator = atom.args
        dim = _with_fraction(dim, atom, numerator - floormod(numerator, denominator), denominator)
    return dim


def _quotient_in(dim: Dim) -> Opaque | None:
    if type(dim) is Poly:
        for monomial in dim.terms:
            for atom in monomial:
                if type(atom) is Opaque and atom.fn == "floordiv":
                    low = bounds(atom.args[1])[0]
                    if low is not None and low >= 0:
                        return atom
    return None


def _with_fraction(dim: Poly, atom: Opaque, numerator: Dim, denominator: Dim) -> Dim:
    """Substitutes a fraction for an atom, and multiplies by a power of the denominator.

    The power is the least one that leaves no fraction.
    """
    degree = max([monomial.count(atom) for monomial in dim.terms])
    total: Dim = _power(denominator, degree) * dim.constant
    for monomial, coefficient in dim.terms.items():
        others: Monomial = tuple([a for a in monomial if a is not atom])
        count = len(monomial) - len(others)
        factor = _power(numerator, count) * _power(denominator, degree - count) * coefficient
        total = total + (factor * Poly({others: 1}, 0) if others else factor)
    return total


def _power(dim: Dim, exponent: int) -> Dim:
    power: Dim = 1
    for _ in range(exponent):
        power = power * dim
    return power


def _split(dim: Dim) -> list[Substitution]:
    """Returns substitutions that together cover every point; none if there is nothing to split."""
    for atom in _opaques(dim):
        if atom.fn in ("floordiv", "floormod"):
            cases = _residues(atom)
        elif atom.fn == "select":
            cases = [{atom: atom.args[1]}, {atom: atom.args[2]}]
        else:
            cases = _orders(atom)
        if cases:
            return cases
    return []


def _opaques(dim: Dim) -> Iterator[Opaque]:
    """Yields the opaque atoms of a dim, inner ones first."""
    if type(dim) is Poly:
        for monomial in dim.terms:
            for atom in monomial:
                if type(atom) is Opaque:
                    for argument in atom.args:
                        yield from _opaques(argument)
                    yield atom


def _residues(atom: Opaque) -> list[Substitution]:
    """Returns case splits by the remainder of a variable: `n = k * divisor + remainder`."""
    dividend, divisor = atom.args
    if type(divisor) is Poly or divisor > MODULUS:
        return []
    variables = sorted(syms(dividend), key=lambda variable: variable.order)
    if not variables:
        return []
    multiple = sym(variables[0].name) * divisor
    return [{variables[0]: multiple + remainder} for remainder in range(divisor)]


def _orders(atom: Opaque) -> list[Substitution]:
    """Returns case splits by the order of the first two arguments of a choice or comparison."""
    difference = atom.args[0] - atom.args[1]
    parts = [_where_nonnegative(difference), _where_nonnegative(-difference - 1)]
    if atom.fn in ("eq", "ne"):
        parts = [_where_nonnegative(difference - 1), parts[1], _where_zero(difference)]
    cases = [case for part in parts if part is not None for case in part]
    if None not in parts:
        return cases
    if atom.fn not in ("min", "max"):
        return [{atom: 0}, {atom: 1}]
    if len(atom.args) > 2:
        return [{atom: argument} for argument in atom.args]
    twin = opaque_atom("max" if atom.fn == "min" else "min", atom.args, (None, None))
    first, second = atom.args
    return [{atom: first, twin: second}, {atom: second, twin: first}]


def _where_nonnegative(dim: Dim) -> list[Substitution] | None:
    """Returns substitutions that cover the points with dim >= 0; None if undecided."""
    if type(dim) is not Poly:
        return [{}] if dim >= 0 else []
    solved = _solved(dim, 1)
    if solved is not None:
        return [{solved[0]: solved[1] + sym("slack")}]
    solved = _solved(dim, -1)
    if solved is None:
        return None
    variable, limit = solved
    if type(limit) is not Poly and limit < MODULUS:
        return [{variable: value} for value in range(limit + 1)]
    return [{variable: limit - sym("slack")}]


def _where_zero(dim: Dim) -> list[Substitution] | None:
    if type(dim) is not Poly:
        return [] if dim else [{}]
    solved = _solved(dim, 1) or _solved(dim, -1)
    return None if solved is None else [{solved[0]: solved[1]}]


def _solved(dim: Poly, sign: int) -> tuple[Sym, Dim] | None:
    """Solves dim = 0 for a variable that occurs once, with coefficient `sign`.

    Returns the variable and its value at zero, or None if no variable qualifies.
    """
    for monomial, coefficient in dim.terms.items():
        variable = monomial[0]
        if coefficient == sign and len(monomial) == 1 and type(variable) is Sym:
            rest = dim - Poly({monomial: sign}, 0)
            if variable not in syms(rest):
                return variable, rest * -sign
    return None


FUNCTIONS: dict[str, Callable[..., int]] = {  # by the names of opaque functions
    "floordiv": operator.floordiv,
    "floormod": operator.mod,
    "min": min,
    "max": max,
    "lt": operator.lt,
    "le": operator.le,
    "eq": operator.eq,
    "ne": operator.ne,
}


def evaluate(dim: Dim, values: Mapping[Sym, int]) -> int:
    """Returns the value of a dim for these values of its variables."""
    if type(dim) is not Poly:
        return dim
    total = dim.constant
    for monomial, coefficient in dim.terms.items():
        for atom in monomial:
            coefficient *= values[atom] if type(atom) is Sym else _atom_value(atom, values)
        total += coefficient
    return total


def _atom_value(atom: Opaque, values: Mapping[Sym, int]) -> int:
    if atom.fn == "select":
        condition, chosen, other = atom.args
        return evaluate(chosen if evaluate(condition, values) else other, values)
    args = [evaluate(argument, values) for argument in atom.args]
    if 0 in args[1:] and atom.fn in ("floordiv", "floormod"):
        raise _zero_divisor(Poly({(atom,): 1}, 0), values)
    return int(FUNCTIONS[atom.fn](*args))


def _zero_divisor(quotient: Poly, values: Mapping[Sym, int]) -> DiagnosticError:
    names = sorted(syms(quotient), key=lambda s: s.order)
    with one_message():
        assignment = ", ".join([f"{display_name(s)} = {values[s]}" for s in names])
        message = f"division by zero in the size {quotient}, with {assignment}"
    return DiagnosticError(Diagnostic(message))
