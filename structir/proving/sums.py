"""The arithmetic of normal forms: sums of monomials with coefficients of a dtype."""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

from structir.ir.dims import Dim, Poly, Sym
from structir.ir.dtype import int_bits, int_limits, is_float, is_int
from structir.proving.terms import ApplyTerm, LiteralTerm, NormalForm, ScalarTerm, SizeTerm

Monomial = tuple[ScalarTerm, ...]
Monomials = dict[Monomial, Any]
MAX_TERMS = 400
MAX_ALTERNATIVES = 5  # of a disjunction
PRECISION = {"bfloat16": (8, 8), "float16": (11, 5), "float32": (24, 8), "float64": (53, 11)}
SIZE_BITS = {"int32": 28, "int64": 28}  # of a size or an index, by the dtype of its value


class TooLarge(Exception):
    """A normal form exceeds the limits of the kernel."""


def by_key(term: ScalarTerm) -> str:
    """Returns the key by which terms are sorted."""
    return term.key


def collect(total: Monomials, dtype: str, cancelled: bool = True) -> NormalForm:
    """Returns the sum of monomials; `cancelled` float monomials stay unless they are covered.

    A monomial with factor 0 is covered if the same values remain under no more conditions. Numbers
    that cancel leave a rounding error: 0 times an unknown number.
    """
    if not is_float(dtype):
        modulus = 2 if dtype == "bool" else 1 << int_bits(dtype)
        kept = {m: c % modulus for m, c in total.items() if c % modulus}
    else:
        kept = {m: c for m, c in total.items() if c}
        parts = [(conditions(m), values(m)) for m in kept]
        for m, c in total.items() if cancelled else ():
            if not c and not any([v == values(m) and g <= conditions(m) for g, v in parts]):
                rounded = () if values(m) else (unknown_number(dtype),)
                kept[tuple(sorted((*m, *rounded), key=by_key))] = c
    if len(kept) > MAX_TERMS:
        raise TooLarge
    return NormalForm(tuple(sorted(kept.items(), key=lambda item: [a.key for a in item[0]])), dtype)


def unknown_number(dtype: str) -> ScalarTerm:
    """Returns the number whose multiple 0 stands for digits that were rounded."""
    return ApplyTerm("rounded", (), dtype)


def add_to(total: Monomials, addend: Iterable[tuple[Monomial, Any]], factor: Any) -> None:
    """Adds a multiple of monomials to a total."""
    for monomial, coefficient in addend:
        total[monomial] = total.get(monomial, 0) + coefficient * factor


def total_of(addends: Iterable[NormalForm], dtype: str) -> NormalForm:
    """Returns the sum of normal forms."""
    total: Monomials = {}
    for addend in addends:
        add_to(total, addend.terms, 1)
    return collect(total, dtype)


def scaled(value: NormalForm, factor: Any) -> NormalForm:
    """Returns a multiple of a normal form."""
    return collect({m: c * factor for m, c in value.terms}, value.dtype)


def without_zeros(total: Monomials) -> Monomials:
    """Returns a product without zeros that come from a factor 0, not from numbers that cancel."""
    return {m: c for m, c in total.items() if c or values(m)}


def lone(atom: ScalarTerm) -> NormalForm:
    """Returns the normal form of an atom."""
    return NormalForm((((atom,), 1),), atom.dtype)


def literal(value: Any, dtype: str, exact: bool = False) -> NormalForm:
    """Returns the normal form of a number; in exact mode a float is an atom."""
    if not is_float(dtype):
        return collect({(): int(value)}, dtype)
    if exact or not (isinstance(value, Fraction | int) or math.isfinite(value)):
        sign = math.copysign(1, value)
        return NormalForm((((LiteralTerm(abs(float(value)), dtype),), int(sign)),), dtype)
    return collect({(): Fraction(value)} if value else {}, dtype)


def conditions(monomial: Monomial) -> frozenset[ScalarTerm]:
    """Returns the conditions in a monomial."""
    return frozenset([a for a in monomial if a.dtype == "bool"])


def values(monomial: Monomial) -> Monomial:
    """Returns the atoms of a monomial that may be NaN or infinite."""
    return tuple([a for a in monomial if a.dtype != "bool" and not isinstance(a, SizeTerm)])


def by_values(terms: Iterable[tuple[Monomial, Any]]) -> list[tuple[Monomial, list[Any]]]:
    """Returns monomials by their numbers: the conditions and the factor of each."""
    groups: dict[Monomial, list[Any]] = {}
    for monomial, factor in terms:
        numbers = tuple([a for a in monomial if a.dtype != "bool"])
        groups.setdefault(numbers, []).append(
            (tuple([a for a in monomial if a.dtype == "bool"]), factor)
        )
    return list(groups.items())


def atom_of(value: NormalForm) -> Any:
    """Returns the atom that a normal form is, or None."""
    if len(value.terms) == 1 and value.terms[0][1] == 1 and len(value.terms[0][0]) == 1:
        return value.terms[0][0][0]
    return None


def number_of(value: NormalForm) -> Any:
    """Returns the number that a normal form is, with its sign, or None."""
    if value.terms and (len(value.terms) > 1 or value.terms[0][0]):
        return None
    number = value.terms[0][1] if value.terms else 0
    if is_int(value.dtype) and number > int_limits(value.dtype)[1]:
        number -= 1 << int_bits(value.dtype)
    return number


def dim_of(value: NormalForm) -> Dim | None:
    """Returns an integer that is a polynomial of sizes and index variables as a dim, or None."""
    if value.dtype not in SIZE_BITS:
        return None
    dim: Dim = 0
    for atoms, factor in value.terms:
        if not all([isinstance(a, SizeTerm) for a in atoms]):
            return None
        product: Dim = number_of(NormalForm((((), factor),), value.dtype))
        for atom in atoms:
            product = product * atom.dim
        dim = dim + product
    return dim if fits(dim, value.dtype) else None


def fits(dim: Dim, dtype: str) -> bool:
    """Returns whether a dim without data does not overflow, at sizes that occur in practice."""
    return dtype in SIZE_BITS and _magnitude(dim, SIZE_BITS[dtype]) <= int_limits(dtype)[1]


def _magnitude(dim: Any, bits: int) -> float:
    """Returns a bound of the absolute value of a dim whose variables are less than 2**bits."""
    if isinstance(dim, int):
        return abs(dim)
    if not isinstance(dim, Poly):
        return math.inf
    total: float = abs(dim.constant)
    for monomial, factor in dim.terms.items():
        bounds = [_atom_bound(atom, bits) for atom in monomial]
        total += math.prod(bounds, start=abs(factor))
    return total


def _atom_bound(atom: Any, bits: int) -> float:
    if isinstance(atom, Sym):
        return 1 << bits
    bounded = atom.fn in ("floordiv", "floormod", "min", "max")
    return max([_magnitude(a, bits) for a in atom.args]) if bounded else math.inf


def alternatives(value: NormalForm) -> list[Monomial]:
    """Returns monomials of which a boolean is the disjunction; none if there are no such ones."""
    sets = [frozenset(monomial) for monomial, _ in value.terms]
    least = [m for m, _ in value.terms if not any([other < {*m} for other in sets])]
    if len(least) > MAX_ALTERNATIVES:
        return []
    total: dict[frozenset[ScalarTerm], int] = {}
    for member in map(frozenset, least):
        addend = {member: 1}
        for other, factor in total.items():
            addend[other | member] = addend.get(other | member, 0) + factor
        for monomial, factor in addend.items():
            total[monomial] = total.get(monomial, 0) + factor
    return least if {m for m, factor in total.items() if factor % 2} == {*sets} else []


def bracket(value: NormalForm) -> NormalForm:
    """Returns a boolean polynomial as one of numbers: `a xor b` is `a + b - 2*a*b`."""
    total: Monomials = {}
    for monomial, _ in value.terms:
        both: Monomials = {}
        for other, factor in total.items():
            atoms = tuple(sorted({*other, *monomial}, key=by_key))
            add_to(both, [(atoms, factor)], 1)
        add_to(total, [(monomial, 1)], 1)
        add_to(total, both.items(), -2)
    return NormalForm(tuple([(m, c) for m, c in total.items() if c]), "int64")
