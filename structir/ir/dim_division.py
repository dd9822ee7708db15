"""Floor division and remainder of dims: exact where polynomials divide, else an opaque atom."""

from __future__ import annotations

from math import gcd

from structir.errors import Diagnostic, DiagnosticError
from structir.ir.polynomial import (
    Atom,
    Dim,
    Interval,
    Monomial,
    Opaque,
    Poly,
    Sym,
    Terms,
    bounds,
    builds,
    of_terms,
    opaque,
    syms,
)


@builds("floordiv")
def floordiv(dividend: Dim, divisor: Dim) -> Dim:
    """Returns the quotient rounded down. A symbolic divisor that is zero fails at run time."""
    if type(divisor) is Poly:
        return _floordiv_poly(dividend, divisor)
    if divisor == 0:
        raise _division_by_zero(dividend)
    if type(dividend) is not Poly:
        return dividend // divisor
    if divisor < 0:
        return floordiv(-dividend, -divisor)
    return dividend if divisor == 1 else _floordiv_int(dividend, divisor)


@builds("floormod")
def floormod(dividend: Dim, divisor: Dim) -> Dim:
    """Returns the remainder of `floordiv`, which has the sign of the divisor."""
    if type(divisor) is Poly:
        return _floormod_poly(dividend, divisor)
    if divisor == 0:
        raise _division_by_zero(dividend)
    if type(dividend) is not Poly:
        return dividend % divisor
    if divisor < 0:
        return -floormod(-dividend, -divisor)
    return 0 if divisor == 1 else _floormod_int(dividend, divisor)


def _division_by_zero(dividend: Dim) -> DiagnosticError:
    message = f"division by zero: expected a nonzero divisor of {dividend}, found 0"
    hint = f"divide by a positive size: `({dividend}) // 2`"
    return DiagnosticError(Diagnostic(message, hint=hint, code="E0121"))


def ceildiv(dividend: Dim, divisor: Dim) -> Dim:
    """Returns the quotient by a positive divisor rounded up."""
    if type(divisor) is not Poly and divisor <= 0:
        return -floordiv(dividend, -divisor)
    return floordiv(dividend + divisor - 1, divisor)


def exact_quotient(dividend: Dim, divisor: Dim) -> Dim | None:
    """Divides by a non-zero divisor; returns None if the division leaves a remainder."""
    if type(divisor) is not Poly:
        return _quotient_by_int(dividend, divisor) if divisor else None
    quotient: Dim = 0
    lead, lead_coefficient = _leading(divisor)
    previous: tuple[int, list[int]] | None = None
    while type(dividend) is Poly:
        monomial, coefficient = term = _leading(dividend)
        rest, grade = _without(monomial, lead), _grade(term)
        # A product without redundant factors may have a leading term that is not smaller.
        if rest is None or coefficient % lead_coefficient or (previous and grade >= previous):
            return None
        previous = grade
        ratio = coefficient // lead_coefficient
        step: Dim = Poly({rest: ratio}, 0) if rest else ratio
        quotient = quotient + step
        dividend = dividend - step * divisor
    return quotient if dividend == 0 else None


def _quotient_by_int(dividend: Dim, divisor: int) -> Dim | None:
    if type(dividend) is not Poly:
        return None if dividend % divisor else dividend // divisor
    if dividend.constant % divisor or any(c % divisor for c in dividend.terms.values()):
        return None
    return Poly({m: c // divisor for m, c in dividend.terms.items()}, dividend.constant // divisor)


def _leading(dim: Poly) -> tuple[Monomial, int]:
    """Returns the leading term in the graded order of monomials, which products preserve."""
    if len(dim.terms) == 1:
        return next(iter(dim.terms.items()))
    return max(dim.terms.items(), key=_grade)


def _grade(term: tuple[Monomial, int]) -> tuple[int, list[int]]:
    return len(term[0]), [-atom.order for atom in term[0]]


def _without(monomial: Monomial, factor: Monomial) -> Monomial | None:
    """Divides a monomial by another; returns None if it is not divisible."""
    if monomial == factor:
        return ()
    rest = list(monomial)
    for atom in factor:
        if atom not in rest:
            return None
        rest.remove(atom)
    return tuple(rest)


def _floordiv_int(dividend: Poly, divisor: int) -> Dim:
    """Divides divisible terms exactly, and cancels common factors of the remaining ones."""
    whole: Terms = {}
    rest: Terms = {}
    common = divisor
    for monomial, coefficient in dividend.terms.items():
        if coefficient % divisor:
            rest[monomial] = coefficient
            common = gcd(common, coefficient)
        else:
            whole[monomial] = coefficient // divisor
    carry, constant = divmod(dividend.constant, divisor)
    if not rest:
        return of_terms(whole, carry)
    if common > 1:
        rest = {m: c // common for m, c in rest.items()}
        constant //= common  # rounding here is sound: the other terms are whole multiples
        divisor //= common
    quotient = _opaque_quotient(Poly(rest, constant), divisor)
    return quotient + of_terms(whole, carry) if whole or carry else quotient


def _opaque_quotient(dividend: Poly, divisor: int) -> Dim:
    low, high = bounds(dividend)
    interval = _divided(low, divisor), _divided(high, divisor)
    if interval[0] is not None and interval[0] == interval[1]:
        return interval[0]
    inner = _lone_atom(dividend)
    if inner is not None and inner.fn == "floordiv":
        numerator, denominator = inner.args
        return floordiv(numerator + denominator * dividend.constant, denominator * divisor)
    return opaque("floordiv", (dividend, divisor), interval)


def _divided(bound: int | None, divisor: int) -> int | None:
    return None if bound is None else bound // divisor


def _lone_atom(dim: Poly) -> Opaque | None:
    """Returns the atom if the dim is an opaque atom plus a constant, else None."""
    if len(dim.terms) != 1:
        return None
    ((monomial, coefficient),) = dim.terms.items()
    atom: Atom = monomial[0]
    return atom if coefficient == 1 and len(monomial) == 1 and type(atom) is Opaque else None


def _floormod_int(dividend: Poly, divisor: int) -> Dim:
    """Drops multiples of the divisor, and cancels common factors of the remaining terms."""
    rest: Terms = {}
    common = divisor
    for monomial, coefficient in dividend.terms.items():
        if coefficient % divisor:
            reduced = coefficient % divisor if abs(coefficient) > divisor else coefficient
            rest[monomial] = reduced
            common = gcd(common, reduced)
    constant = dividend.constant % divisor
    if not rest:
        return constant
    offset = constant % common
    if common > 1:
        rest = {m: c // common for m, c in rest.items()}
        constant //= common
        divisor //= common
    remainder = _opaque_remainder(Poly(rest, constant), divisor)
    return remainder * common + offset


def _opaque_remainder(dividend: Poly, divisor: int) -> Dim:
    low, high = bounds(dividend)
    if low is not None and high is not None and low // divisor == high // divisor:
        return dividend - low // divisor * divisor
    opened = _open_remainders(dividend, divisor)
    if opened is not dividend:
        return floormod(opened, divisor)
    top = divisor - 1 if low is None or low < 0 or high is None else min(divisor - 1, high)
    return opaque("floormod", (dividend, divisor), (0, top))


def _open_remainders(dividend: Poly, divisor: int) -> Dim:
    """Replaces `x % c` by `x` wherever the difference is a multiple of the divisor."""
    opened: Dim = dividend
    for monomial, coefficient in dividend.terms.items():
        atom = monomial[0]
        if len(monomial) > 1 or type(atom) is not Opaque or atom.fn != "floormod":
            continue
        argument, modulus = atom.args
        if type(modulus) is not Poly and coefficient * modulus % divisor == 0:
            opened = opened + (argument - Poly({monomial: 1}, 0)) * coefficient
    return opened


def _floordiv_poly(dividend: Dim, divisor: Poly) -> Dim:
    if type(dividend) is not Poly:
        return 0 if dividend == 0 else _quotient_by_poly(dividend, divisor)
    exact = exact_quotient(dividend, divisor)
    if exact is not None:
        return exact
    quotient, dividend = _split(dividend, divisor)
    if quotient != 0:
        return quotient + floordiv(dividend, divisor)
    dividend, reduced, _ = _cancelled(dividend, divisor)
    if reduced is not divisor:
        return floordiv(dividend, reduced)
    return _quotient_by_poly(dividend, divisor)


def _floormod_poly(dividend: Dim, divisor: Poly) -> Dim:
    if type(dividend) is not Poly:
        return 0 if dividend == 0 else _remainder_by_poly(dividend, divisor)
    if exact_quotient(dividend, divisor) is not None:
        return 0
    quotient, dividend = _split(dividend, divisor)
    if quotient != 0:
        return floormod(dividend, divisor)
    dividend, reduced, common = _cancelled(dividend, divisor)
    if reduced is not divisor:
        return floormod(dividend, reduced) * common
    return _remainder_by_poly(dividend, divisor)


def _split(dividend: Poly, divisor: Poly) -> tuple[Dim, Dim]:
    """Divides by a divisor of one term: returns the exact quotient and the remaining dividend."""
    if divisor.constant or len(divisor.terms) > 1:
        return 0, dividend
    ((factor, scale),) = divisor.terms.items()
    quotient: Dim = 0
    remaining: Terms = {}
    for monomial, coefficient in dividend.terms.items():
        rest = None if coefficient % scale else _without(monomial, factor)
        if rest is None:
            remaining[monomial] = coefficient
        else:
            ratio = coefficient // scale
            quotient = quotient + (Poly({rest: ratio}, 0) if rest else ratio)
    return quotient, of_terms(remaining, dividend.constant)


def _cancelled(dividend: Dim, divisor: Poly) -> tuple[Dim, Dim, Dim]:
    """Cancels the common factor of all terms; returns dividend, divisor and factor."""
    if type(dividend) is not Poly:
        return dividend, divisor, 1
    monomials = [*dividend.terms, *divisor.terms]
    numbers = [*dividend.terms.values(), *divisor.terms.values()]
    shared = [] if dividend.constant or divisor.constant else _shared(monomials)
    common: Dim = gcd(dividend.constant, divisor.constant, *numbers)
    for atom in shared:
        common = common * Poly({(atom,): 1}, 0)
    if common == 1:
        return dividend, divisor, 1
    reduced_dividend, reduced_divisor = (
        exact_quotient(dividend, common),
        exact_quotient(divisor, common),
    )
    return (
        (dividend, divisor, 1)
        if reduced_dividend is None or reduced_divisor is None
        else (reduced_dividend, reduced_divisor, common)
    )


def _shared(monomials: list[Monomial]) -> list[Atom]:
    shared = list(monomials[0])
    for monomial in monomials[1:]:
        unmatched = list(monomial)
        shared = [atom for atom in shared if atom in unmatched and not unmatched.remove(atom)]  # type: ignore[func-returns-value]
    return shared


def _quotient_by_poly(dividend: Dim, divisor: Poly) -> Dim:
    if _fits(dividend, divisor):
        return 0
    interval = _quotient_bounds(bounds(dividend), bounds(divisor))
    return opaque("floordiv", (dividend, divisor), interval)


def _remainder_by_poly(dividend: Dim, divisor: Poly) -> Dim:
    if _fits(dividend, divisor):
        return dividend
    low, high = bounds(divisor)
    if low is None or low < 0:
        return opaque("floormod", (dividend, divisor), (None, None))
    least, greatest = bounds(dividend)
    tops = [top for top in (high and high - 1, greatest) if top is not None]
    top = min(tops) if least is not None and least >= 0 and tops else high and high - 1
    return opaque("floormod", (dividend, divisor), (0, top))


def _fits(dividend: Dim, divisor: Poly) -> bool:
    """Whether bounds prove 0 <= dividend < divisor."""
    least = bounds(dividend)[0]
    if least is None or least < 0:
        return False
    difference = bounds(divisor - dividend)[0]
    return difference is not None and difference > 0


def _quotient_bounds(dividend: Interval, divisor: Interval) -> Interval:
    (low, high), smallest = dividend, divisor[0]
    if smallest is None or smallest < 0:
        return None, None
    smallest, largest = max(smallest, 1), divisor[1]
    least = low
    if low is not None:
        least = low // smallest if low < 0 else low // largest if largest else 0
    if high is None:
        return least, None
    return least, high // smallest if high >= 0 else -1


def linear(dim: Dim, variable: Sym) -> tuple[Dim, Dim] | None:
    """Returns `(a, b)` with `dim == a * variable + b`, or None if the dim is not linear in it."""
    if type(dim) is not Poly:
        return 0, dim
    coefficient: Dim = 0
    rest: dict[Monomial, int] = {}
    for monomial, factor in dim.terms.items():
        if variable not in monomial:
            rest[monomial] = factor
            continue
        factors = list(monomial)
        factors.remove(variable)
        coefficient = coefficient + (Poly({tuple(factors): factor}, 0) if factors else factor)
    remainder = of_terms(rest, dim.constant)
    is_linear = variable not in syms(coefficient) and variable not in syms(remainder)
    return (coefficient, remainder) if is_linear else None
