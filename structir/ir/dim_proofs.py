"""Proofs about dims: whether one equals, or is at least, another, whatever the variables are."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from math import gcd

from structir.errors import DiagnosticError
from structir.ir.dim_division import floormod
from structir.ir.polynomial import (
    Dim,
    Monomial,
    Opaque,
    Poly,
    Sym,
    bounds,
    evaluate,
    opaque_atom,
    rewritten,
    sym,
    symbolic,
    syms,
)

# What is known of a dim is the set of signs that it may have; a question is the set that means yes.
NEGATIVE, ZERO, POSITIVE = 1, 2, 4
CASES = 128  # a proof by cases looks at no more
MODULUS = 32  # remainders by more are not gone through
STEPS = (0, 1, 2, 3, 5, 8, 13, 1_000_003)  # the last is past limits that programs put on sizes

Substitution = dict[Sym | Opaque, Dim]


def equal(first: Dim, second: Dim) -> bool | None:
    """True: equal for all values of the variables. False: for none. None: cannot tell."""
    if first is second or first == second:
        return True
    difference = first - second
    known = _answer(_signs(difference), ZERO)
    if known is not None or not _has_opaque(difference):
        return known
    return _deep_equal(difference)


def at_least(first: Dim, second: Dim) -> bool | None:
    """True: the first is never less than the second. False: always less. None: cannot tell."""
    difference = first - second
    known = _answer(_signs(difference), ZERO | POSITIVE)
    if known is not None or not _has_opaque(difference):
        return known
    return _by_cases(difference, ZERO | POSITIVE)


def quickly_at_least(first: Dim, second: Dim) -> bool:
    """Whether bounds alone show that the first is never less: for simplifying."""
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
    known = _by_cases(difference, ZERO)
    if known is None and _sampled(difference) == ZERO and symbolic.is_zero(difference):
        return True
    return known


@lru_cache(4096)
def _by_cases(dim: Poly, yes: int) -> bool | None:
    return None if _answer(_sampled(dim), yes) is None else _proof(dim, yes, CASES)


def _answer(signs: int, yes: int) -> bool | None:
    if not signs & yes:
        return False
    return None if signs & ~yes else True


def _signs(dim: Dim) -> int:
    low, high = bounds(dim)
    signs = NEGATIVE if low is None or low < 0 else 0
    signs |= POSITIVE if high is None or high > 0 else 0
    if (low is None or low <= 0) and (high is None or high >= 0) and _may_vanish(dim):
        signs |= ZERO
    return signs


def _may_vanish(dim: Dim) -> bool:
    """Not when a common factor of all the terms does not divide the constant."""
    if type(dim) is not Poly:
        return dim == 0
    return dim.constant % gcd(*dim.terms.values()) == 0


def _has_opaque(dim: Dim) -> bool:
    return type(dim) is Poly and any([type(atom) is Opaque for term in dim.terms for atom in term])


def _sampled(dim: Poly) -> int:
    """The signs that a dim takes at a few points."""
    variables = sorted(syms(dim), key=lambda variable: variable.order)
    signs = 0
    for shift in range(len(STEPS)):
        spread = shift % 3 + 1
        point = {v: STEPS[(shift + spread * i) % len(STEPS)] for i, v in enumerate(variables)}
        try:
            value = evaluate(dim, point)
        except DiagnosticError:  # a division by zero: there is no value here
            continue
        signs |= ZERO if value == 0 else POSITIVE if value > 0 else NEGATIVE
    return signs


def _proof(dim: Dim, yes: int, cases: int) -> bool | None:
    """The answer that all cases agree on."""
    known = _answer(_signs(dim), yes)
    if known is None and _has_opaque(dim):
        known = _answer(_signs(_without_quotients(dim)), yes)
        split = _split(dim) if known is None else []
        if 0 < len(split) <= cases:
            known = _agreed(dim, split, yes, cases // max(len(split), 2))
    return known


def _agreed(dim: Dim, split: list[Substitution], yes: int, cases: int) -> bool | None:
    answers: set[bool | None] = set()
    for case in split:
        try:
            answers.add(_proof(rewritten(dim, case), yes, cases))
        except DiagnosticError:  # a division by zero: the case does not arise, unless it is guarded
            if any([atom.fn == "select" for atom in _opaques(dim)]):
                return None
            continue
        if answers == {True, False} or None in answers:
            return None
    return answers.pop() if answers else None


def _without_quotients(dim: Dim) -> Dim:
    """A dim of the same sign with `(x - x % c) / c` for `x // c`, times a positive number."""
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
    """The dim with a fraction for an atom, times the denominator as often as makes it whole."""
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
    """Substitutions that together cover every point; none when there is nothing to split."""
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
    """The opaque atoms that occur in a dim, the inner ones first."""
    if type(dim) is Poly:
        for monomial in dim.terms:
            for atom in monomial:
                if type(atom) is Opaque:
                    for argument in atom.args:
                        yield from _opaques(argument)
                    yield atom


def _residues(atom: Opaque) -> list[Substitution]:
    """A variable of a division by a number, as a multiple of that number and each remainder."""
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
    """Substitutions that cover the points where a dim is not negative; None if not known."""
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
    """A variable that a dim has once, with this coefficient, and where on it the dim vanishes."""
    for monomial, coefficient in dim.terms.items():
        variable = monomial[0]
        if coefficient == sign and len(monomial) == 1 and type(variable) is Sym:
            rest = dim - Poly({monomial: sign}, 0)
            if variable not in syms(rest):
                return variable, rest * -sign
    return None
