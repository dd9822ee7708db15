"""Solves equations and inequalities of sizes: isolates variables and tightens their bounds."""

from __future__ import annotations

from collections import Counter
from math import gcd

from structir.ir.polynomial import Dim, Monomial, Opaque, Poly, Sym, of_terms
from structir.solver.constraints.constraint import DimEq, Ge
from structir.solver.domains.intervals import interval, monomial_interval, primitive
from structir.solver.domains.terms import RAGGED_SYMS, is_ragged, symbol_of, variables
from structir.solver.propagation.store import ConstraintStore, rule

MAX_BOUND = 1 << 40  # greater bounds are ignored


def fresh(name: str = "") -> Poly:
    """Returns a new size variable of the solver."""
    return Poly({(Sym(name),): 1}, 0)


def equate(store: ConstraintStore, lhs: Dim, rhs: Dim) -> None:
    """Equates two sizes: propagates, and posts a constraint if the equation is not settled."""
    if lhs is not rhs and not solve_equation(store, lhs, rhs):
        store.post(DimEq(lhs, rhs))


@rule(DimEq)
def _(store: ConstraintStore, constraint: DimEq) -> bool:
    return solve_equation(store, constraint.left, constraint.right)


def solve_equation(store: ConstraintStore, lhs: Dim, rhs: Dim) -> bool:
    """Propagates an equation of sizes; returns whether it is settled."""
    lhs, rhs = store.dim(lhs), store.dim(rhs)
    if type(lhs) is int and type(rhs) is int:
        if lhs != rhs:
            raise store.conflict(f"one dim must be both {lhs} and {rhs}")
        return True
    if lhs is rhs or lhs == rhs:
        return True
    lhs_symbol, rhs_symbol = symbol_of(lhs), symbol_of(rhs)
    if lhs_symbol in RAGGED_SYMS or rhs_symbol in RAGGED_SYMS:
        return _equate_ragged(store, lhs, rhs)
    if lhs_symbol is not None and type(rhs) is int:
        assign(store, lhs_symbol, rhs)
        return True
    if rhs_symbol is not None and type(lhs) is int:
        assign(store, rhs_symbol, lhs)
        return True
    if lhs_symbol is not None and rhs_symbol is not None:
        solved = _variable_to_solve(store, lhs_symbol, rhs_symbol)
        assign(store, solved, rhs if solved is lhs_symbol else lhs)
        return True
    return _solve_polynomial(store, lhs - rhs)


def _equate_ragged(store: ConstraintStore, lhs: Dim, rhs: Dim) -> bool:
    if is_ragged(lhs) and is_ragged(rhs):  # of different names, or one unnamed
        store.assumed.append((lhs, rhs, store.reason()))
        return True
    size, ragged_size = (rhs, lhs) if is_ragged(lhs) else (lhs, rhs)
    symbol = symbol_of(size)
    if symbol is None or any(store.dim(Poly({(dense,): 1}, 0)) == size for dense in store.dense):
        raise store.conflict(f"expected a size, found a ragged axis: {size}", "E0405")
    store.bind(symbol, ragged_size)
    return True


def _variable_to_solve(store: ConstraintStore, first: Sym, second: Sym) -> Sym:
    """Returns the variable to solve for: the lower preference first, then the younger one."""
    keys = [(store.preference.get(s, 0), -s.order) for s in (first, second)]
    return first if keys[0] < keys[1] else second


def assign(store: ConstraintStore, symbol: Sym, value: Dim) -> None:
    """Binds a variable to a size, to which its bounds carry over."""
    if type(value) is int:
        _check_bounds(store, symbol, value)
        store.bind(symbol, value)
        return
    low, high, ceiling = store.low(symbol), store.high(symbol), store.ceilings.get(symbol)
    store.bind(symbol, value)
    least, _ = interval(store, value)
    if least is None or least < low:
        require_at_least(store, value, low)
    if high is not None:
        require_at_least(store, -value + high, 0)
    if ceiling is not None:
        store.used.append(store.bound_reasons["ceiling", symbol])
        cap(store, value, ceiling)


def _check_bounds(store: ConstraintStore, symbol: Sym, value: int) -> None:
    low, high, ceiling = store.low(symbol), store.high(symbol), store.ceilings.get(symbol)
    if value < low:
        raise store.conflict(f"expected a size of at least {low}, found {value}", "E0403")
    if high is not None and value > high:
        raise store.conflict(f"expected a size of at most {high}, found {value}", "E0403")
    if ceiling is not None and value not in (1, ceiling):
        store.used.append(store.bound_reasons["ceiling", symbol])
        raise store.conflict(f"expected a size that broadcasts to {ceiling}, found {value}")


def cap(store: ConstraintStore, dim: Dim, ceiling: int) -> None:
    """Requires a size to be 1 or this constant, because it broadcasts to it."""
    symbol = symbol_of(dim)
    if symbol is None or symbol in RAGGED_SYMS:
        return
    existing = store.ceilings.get(symbol)
    if existing is None:
        store.set(store.bound_reasons, ("ceiling", symbol), store.reason())
        store.set(store.ceilings, symbol, ceiling)
        tighten_upper_bound(store, symbol, max(ceiling, 1))
        store.wake(symbol)
    elif existing != ceiling:
        store.used.append(store.bound_reasons["ceiling", symbol])
        assign(store, symbol, 1)


def _solve_polynomial(store: ConstraintStore, form: Dim) -> bool:
    form = primitive(store, form) if type(form) is Poly else form
    if type(form) is int:
        if form:
            raise store.conflict("the two sizes differ by a constant other than 0")
        return True
    terms, constant = form.terms, form.constant  # type: ignore[union-attr]
    if any(atom in RAGGED_SYMS for monomial in terms for atom in monomial):
        raise store.conflict("a ragged axis cannot occur in size arithmetic", "E0405")
    common = gcd(*terms.values())
    if constant % common:
        raise store.conflict("the equation of sizes has no integer solution", "E0404")
    if common > 1:
        form = Poly({m: c // common for m, c in terms.items()}, constant // common)
    if _assign_extremes(store, form) or _isolate(store, form):  # type: ignore[arg-type]
        return True
    _record_product(store, form)  # type: ignore[arg-type]
    return _tighten_bounds(store, form)  # type: ignore[arg-type]


def _record_product(store: ConstraintStore, form: Poly) -> None:
    """Records the value of a product that the form determines."""
    longest = max(form.terms, key=lambda m: (len(m), m[-1].order))
    sign = form.terms[longest]
    if len(longest) > 1 and sign in (1, -1) and longest not in store.rewrites:
        rest = {m: -c * sign for m, c in form.terms.items() if m != longest}
        value = of_terms(rest, -form.constant * sign)
        store.set(store.rewrites, longest, (value, store.reason()))


def _assign_extremes(store: ConstraintStore, form: Poly) -> bool:
    """Assigns the extreme values of the variables if the form is zero only there.

    Returns whether the equation is settled.
    """
    mark = len(store.used)
    low, high = interval(store, form)
    if (low is not None and low > 0) or (high is not None and high < 0):
        raise store.conflict("the two sizes cannot be equal within their bounds", "E0403")
    if low != 0 and high != 0:
        del store.used[mark:]
        return False
    ends: list[tuple[Sym, int]] = []
    for monomial, coefficient in form.terms.items():
        for atom in monomial:
            if type(atom) is not Sym:
                return False
            value = store.low(atom) if (coefficient > 0) == (low == 0) else store.high(atom)
            if value is None or (value < 1 and len(monomial) > 1):
                return False
            ends.append((atom, value))
    for atom, value in ends:
        if atom not in store.dims:
            assign(store, atom, value)
    return True


def _isolate(store: ConstraintStore, form: Poly) -> bool:
    """Solves for a variable that occurs once, with coefficient 1 or -1, if there is one."""
    counts: Counter[Sym] = Counter(variables(form))
    best: tuple[tuple[int, int], Sym] | None = None
    for monomial, coefficient in form.terms.items():
        atom = monomial[0]
        is_isolated = len(monomial) == 1 and type(atom) is Sym and coefficient in (1, -1)
        if is_isolated and counts[atom] == 1:  # type: ignore[index]
            key = (store.preference.get(atom, 0), -atom.order)  # type: ignore[arg-type]
            if best is None or key < best[0]:
                best = key, atom  # type: ignore[assignment]
    if best is None:
        return False
    symbol = best[1]
    sign = form.terms[(symbol,)]
    rest = {m: -c * sign for m, c in form.terms.items() if m != (symbol,)}
    assign(store, symbol, of_terms(rest, -form.constant * sign))
    return True


def _tighten_bounds(store: ConstraintStore, form: Poly) -> bool:
    """Tightens the bounds of the variables of an open equation; never settles it."""
    if len(form.terms) > 12:
        return False
    for sign in (1, -1):
        _tighten(store, form, sign, 0)
    return False


def _tighten(store: ConstraintStore, form: Poly, sign: int, least: int) -> None:
    """Concludes bounds of the variables from `sign * form >= least`."""
    highest = sign * form.constant - least
    tops: list[tuple[Monomial, int, int | None]] = []
    mark = len(store.used)
    for monomial, coefficient in form.terms.items():
        low, high = monomial_interval(store, monomial)
        factor = sign * coefficient
        end = high if factor > 0 else low
        tops.append((monomial, factor, None if end is None else factor * end))
    unlimited = sum(top is None for _, _, top in tops)
    highest += sum(top for _, _, top in tops if top is not None)
    for monomial, factor, top in tops:
        if unlimited - (top is None):
            continue
        rest = highest - (top or 0)  # factor * monomial >= -rest
        if factor > 0:
            _tighten_monomial_below(store, monomial, -(rest // factor))
        else:
            _tighten_monomial_above(store, monomial, rest // -factor)
    del store.used[mark:]


def _tighten_monomial_below(store: ConstraintStore, monomial: Monomial, least: int) -> None:
    atom = monomial[0]
    if len(monomial) == 1:
        if type(atom) is Sym and atom not in store.dims:
            tighten_lower_bound(store, atom, least)
        elif isinstance(atom, Opaque) and atom.fn == "floordiv" and type(atom.args[1]) is int:
            require_at_least(store, atom.args[0], least * atom.args[1])
        return
    if least < 1:
        return
    for index, atom in enumerate(monomial):  # no factor of a positive product is 0
        if type(atom) is not Sym or atom in store.dims:
            continue
        low, high = monomial_interval(store, monomial[:index] + monomial[index + 1 :])
        if low is not None and low >= 0:
            tighten_lower_bound(store, atom, -(-least // high) if high else 1)


def _tighten_monomial_above(store: ConstraintStore, monomial: Monomial, most: int) -> None:
    first = monomial[0]
    if len(monomial) == 1 and isinstance(first, Opaque):
        divisor = first.args[-1]
        if first.fn == "floordiv" and type(divisor) is int and divisor > 0:
            require_at_least(store, -first.args[0] + (most * divisor + divisor - 1), 0)
        return
    for index, atom in enumerate(monomial):
        if type(atom) is not Sym or atom in store.dims:
            continue
        low, _ = (
            monomial_interval(store, monomial[:index] + monomial[index + 1 :])
            if len(monomial) > 1
            else (1, 1)
        )
        if low is not None and low >= 1:
            tighten_upper_bound(store, atom, most // low)


# Bounds


def tighten_lower_bound(store: ConstraintStore, symbol: Sym, least: int) -> None:
    """Raises the lower bound of an open variable."""
    low = store.low(symbol)
    if least <= low or least > MAX_BOUND or not store.may_tighten():
        return
    reason = store.reason()
    store.set(store.lows, symbol, least)
    store.set(store.bound_reasons, ("low", symbol), reason)
    _check_interval(store, symbol)


def tighten_upper_bound(store: ConstraintStore, symbol: Sym, most: int) -> None:
    """Lowers the upper bound of an open variable."""
    high = store.high(symbol)
    if (high is not None and most >= high) or most > MAX_BOUND or not store.may_tighten():
        return
    reason = store.reason()
    store.set(store.highs, symbol, most)
    store.set(store.bound_reasons, ("high", symbol), reason)
    _check_interval(store, symbol)


def _check_interval(store: ConstraintStore, symbol: Sym) -> None:
    mark = len(store.used)
    low, high, ceiling = store.low(symbol), store.high(symbol), store.ceilings.get(symbol)
    if high is not None and low > high:
        raise store.conflict(f"one dim must be at least {low} and at most {high}", "E0403")
    if ceiling is not None and 2 <= low <= ceiling:
        store.used.append(store.bound_reasons["ceiling", symbol])
        assign(store, symbol, ceiling)
    elif low == high:
        assign(store, symbol, low)
    else:
        del store.used[mark:]
        store.wake(symbol)


def require_at_least(store: ConstraintStore, dim: Dim, least: int) -> None:
    """Requires a lower bound: propagates, and posts a constraint if it is not settled."""
    if (
        not _require_at_least(store, dim, least)
        and ("at least", dim, least) not in store.derived_once
    ):
        store.set(store.derived_once, ("at least", dim, least), None)
        store.post(Ge(dim, least))


@rule(Ge)
def _(store: ConstraintStore, constraint: Ge) -> bool:
    return _require_at_least(store, constraint.dim, constraint.least)


def _require_at_least(store: ConstraintStore, dim: Dim, least: int) -> bool:
    dim = store.dim(dim)
    if type(dim) is int:
        if dim < least:
            raise store.conflict(f"expected a size of at least {least}, found {dim}", "E0403")
        return True
    if any(symbol in RAGGED_SYMS for symbol in variables(dim)):
        return True
    low, high = interval(store, dim)
    if high is not None and high < least:
        raise store.conflict(f"expected a size of at least {least}, found at most {high}", "E0403")
    if low is not None and low >= least:
        return True
    _tighten(store, dim, 1, least)  # type: ignore[arg-type]
    low, _ = interval(store, store.dim(dim))
    return low is not None and low >= least
