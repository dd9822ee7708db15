"""The normal form of sizes: integer polynomials over symbolic variables and opaque atoms."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from itertools import count
from math import prod
from typing import Any, TypeAlias, TypeVar, final
from weakref import WeakValueDictionary

from structir.errors import Diagnostic, DiagnosticError
from structir.lazy import lazy_module
from structir.system.locks import new_lock

symbolic = lazy_module("structir.ir.symbolic")
dim_text = lazy_module("structir.ir.dim_text")

Interval: TypeAlias = tuple[int | None, int | None]

_ORDERS = count()
_ORDER_OF = operator.attrgetter("order")


@final
class Sym:
    """A symbolic variable: a non-negative integer that equals only itself."""

    __slots__ = ("__weakref__", "face", "name", "order")
    interval: Interval = (0, None)

    def __init__(self, name: str) -> None:
        self.name = name
        self.order = next(_ORDERS)
        self.face: Any = None  # its sympy symbol, created on first use

    def __repr__(self) -> str:
        return self.name

    def __copy__(self) -> Sym:
        return self

    def __deepcopy__(self, memo: object) -> Sym:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return Sym, (self.name,)


@final
class Opaque:
    """A non-polynomial function of dims, such as `n // 2`. Equal atoms are the same object."""

    __slots__ = ("__weakref__", "args", "depth", "fn", "interval", "order")

    def __init__(self, fn: str, args: tuple[Dim, ...], interval: Interval) -> None:
        self.fn = fn
        self.args = args
        self.interval = interval
        self.order = next(_ORDERS)
        self.depth = 1 + max([_depth(arg) for arg in args], default=0)
        if self.depth > DEEPEST:
            message = f"size nested too deeply: expected at most {DEEPEST} nested functions"
            raise DiagnosticError(Diagnostic(message, hint=BIND_PART, code="E0109"))

    def __repr__(self) -> str:
        return f"{self.fn}{self.args}"

    def __copy__(self) -> Opaque:
        return self

    def __deepcopy__(self, memo: object) -> Opaque:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return opaque_atom, (self.fn, self.args, self.interval)


def _depth(dim: Dim) -> int:
    """Returns the nesting depth of functions in a dim."""
    if type(dim) is not Poly:
        return 0
    return max([a.depth for atoms in dim.terms for a in atoms if type(a) is Opaque], default=0)


BIND_PART = "bind a part of the size to a new dim: `y = R.match_cast(x, R.Tensor((n,)))`"
MOST_TERMS = 2000  # of a product; its text must be parsable
MOST_PRODUCTS = 1 << 18  # of pairs of terms in one multiplication
DEEPEST = 100  # printed dims must be parsable, and Python parses about 200 levels
Atom: TypeAlias = Sym | Opaque
Monomial: TypeAlias = tuple[Atom, ...]  # sorted by order, repeated for powers, never empty
Terms: TypeAlias = dict[Monomial, int]  # no coefficient is zero

_ATOMS: WeakValueDictionary[tuple[str, Any], Opaque] = WeakValueDictionary()
_ATOMS_LOCK = new_lock()
COMMUTATIVE = frozenset({"min", "max", "eq", "ne"})


def opaque_atom(fn: str, args: tuple[Dim, ...], interval: Interval) -> Opaque:
    """Returns the interned atom of a function of these arguments."""
    key = (fn, frozenset(args) if fn in COMMUTATIVE else args)
    atom = _ATOMS.get(key)
    if atom is None:
        with _ATOMS_LOCK:  # two threads must not create the same atom
            atom = _ATOMS.get(key)
            if atom is None:
                atom = _ATOMS[key] = Opaque(fn, args, interval)
    return atom


@final
class Poly:
    """A non-constant integer polynomial: its `terms` and its `constant` part.

    `==` compares normal forms; `dims.equal` decides numeric equality.
    """

    __slots__ = ("_atom", "_hash", "constant", "terms")

    def __init__(self, terms: Terms, constant: int) -> None:
        self.terms = terms
        self.constant = constant
        self._hash = 0
        self._atom: Any = False  # not determined yet

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return type(other) is Poly and self.constant == other.constant and self.terms == other.terms

    def __hash__(self) -> int:
        if not self._hash:
            self._hash = hash((self.constant, frozenset(self.terms.items()))) or 1
        return self._hash

    def __repr__(self) -> str:
        source: str = dim_text.text(self)
        return source

    def __deepcopy__(self, memo: object) -> Poly:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (tuple(self.terms.items()), self.constant)

    def __add__(self, other: Any) -> Dim:
        if type(other) is int:
            return Poly(self.terms, self.constant + other)
        if type(other) is Poly:
            return _sum(self, other, 1)
        other = _operand(other)
        return other if other is NotImplemented else self + other

    __radd__ = __add__

    def __sub__(self, other: Any) -> Dim:
        if type(other) is int:
            return Poly(self.terms, self.constant - other)
        if type(other) is Poly:
            return _sum(self, other, -1)
        other = _operand(other)
        return other if other is NotImplemented else self - other

    def __rsub__(self, other: Any) -> Dim:
        return (-self).__add__(other)

    def __neg__(self) -> Poly:
        return Poly({m: -c for m, c in self.terms.items()}, -self.constant)

    def __mul__(self, other: Any) -> Dim:
        if type(other) is int:
            return scaled(self, other)
        if type(other) is Poly:
            return _product(self, other)
        other = _operand(other)
        return other if other is NotImplemented else self * other

    __rmul__ = __mul__

    def __floordiv__(self, other: Any) -> Dim:
        return _built("floordiv", self, other)

    def __rfloordiv__(self, other: Any) -> Dim:
        return _built("floordiv", other, self)

    def __mod__(self, other: Any) -> Dim:
        return _built("floormod", self, other)

    def __rmod__(self, other: Any) -> Dim:
        return _built("floormod", other, self)

    def key(self, number_of: Callable[[Sym], int]) -> tuple[Any, ...]:
        """Returns a hashable key over numbered variables; equal for dims equal up to renaming."""
        terms = frozenset([(_monomial_key(m, number_of), c) for m, c in self.terms.items()])
        return ("dim", self.constant, terms)


Dim: TypeAlias = int | Poly

Builder = TypeVar("Builder", bound=Callable[..., Dim])
BUILDERS: dict[str, Callable[..., Dim]] = {}  # simplifying constructors of opaque functions


def builds(fn: str) -> Callable[[Builder], Builder]:
    """Registers the simplifying constructor of an opaque function."""

    def register(builder: Builder) -> Builder:
        BUILDERS[fn] = builder
        return builder

    return register


def sym(name: str) -> Poly:
    """Returns a new symbolic variable as a dim."""
    return Poly({(Sym(name),): 1}, 0)


def as_dim(value: Any) -> Dim:
    """Converts an integer, a dim, a symbolic variable or a sympy expression to normal form."""
    if type(value) is int or type(value) is Poly:
        return value
    dim = _operand(value)
    converted: Dim = symbolic.from_sympy(value) if dim is NotImplemented else dim
    return converted


def opaque(fn: str, args: tuple[Dim, ...], interval: Interval) -> Poly:
    """Returns an opaque function of dims as a dim."""
    return Poly({(opaque_atom(fn, args, interval),): 1}, 0)


def of_terms(terms: Terms, constant: int) -> Dim:
    """Returns the dim of these terms; an integer if there are none."""
    return Poly(terms, constant) if terms else constant


def as_atom(dim: Dim) -> Atom | None:
    """Returns the atom if the dim is a single atom, else None."""
    if type(dim) is not Poly:
        return None
    atom: Any = dim._atom
    if atom is False:
        atom = None
        if len(dim.terms) == 1 and not dim.constant:
            ((monomial, coefficient),) = dim.terms.items()
            atom = monomial[0] if coefficient == 1 and len(monomial) == 1 else None
        dim._atom = atom
    return atom  # type: ignore[no-any-return]


def as_sym(dim: Dim) -> Sym | None:
    """Returns the variable if the dim is a single symbolic variable, else None."""
    atom = as_atom(dim)
    return atom if type(atom) is Sym else None


def scaled(dim: Poly, factor: int) -> Dim:
    """Returns a dim multiplied by an integer."""
    if factor == 1:
        return dim
    if factor == 0:
        return 0
    return Poly({m: c * factor for m, c in dim.terms.items()}, dim.constant * factor)


def merged(first: Monomial, second: Monomial) -> Monomial:
    """Returns the product of two monomials."""
    if first[-1].order <= second[0].order:
        return first + second
    if second[-1].order <= first[0].order:
        return second + first
    return tuple(sorted(first + second, key=_ORDER_OF))


def _sum(first: Poly, second: Poly, factor: int) -> Dim:
    terms = first.terms.copy()
    for monomial, coefficient in second.terms.items():
        total = terms.get(monomial, 0) + factor * coefficient
        if total:
            terms[monomial] = total
        else:
            del terms[monomial]
    constant = first.constant + factor * second.constant
    return Poly(terms, constant) if terms else constant


def _product(first: Poly, second: Poly) -> Poly:
    if len(first.terms) * len(second.terms) > MOST_PRODUCTS:
        raise _too_many_terms()
    outer, inner = first.constant, second.constant
    terms = {m: c * inner for m, c in first.terms.items()} if inner else {}
    if outer:
        for monomial, coefficient in second.terms.items():
            terms[monomial] = terms.get(monomial, 0) + outer * coefficient
    for lhs, lhs_coefficient in first.terms.items():
        for rhs, rhs_coefficient in second.terms.items():
            monomial = _without_redundant_factors(merged(lhs, rhs))
            terms[monomial] = terms.get(monomial, 0) + lhs_coefficient * rhs_coefficient
    if len(terms) > MOST_TERMS:
        raise _too_many_terms()
    if 0 in terms.values():
        terms = {m: c for m, c in terms.items() if c}
    return Poly(terms, outer * inner)


def _without_redundant_factors(monomial: Monomial) -> Monomial:
    """Returns a product without factors that are 0 or 1, and 0 only where another factor is 0.

    `n * min(n, m, 1)` is `n * min(m, 1)`, and a comparison is its own square.
    """
    for index, atom in enumerate(monomial):
        if type(atom) is not Opaque or atom.interval != (0, 1):
            continue
        others = monomial[:index] + monomial[index + 1 :]
        if atom in others:
            return _without_redundant_factors(others)
        if atom.fn != "min" or 1 not in atom.args:
            continue
        needed = [arg for arg in atom.args if not _is_positive_with(arg, others)]
        if len(needed) == len(atom.args):
            continue
        rest = as_atom(BUILDERS["min"](*needed))  # no atom if it is 1
        kept = others if rest is None else tuple(sorted((*others, rest), key=_ORDER_OF))
        return _without_redundant_factors(kept)
    return monomial


def _is_positive_with(dim: Dim, factors: Monomial) -> bool:
    """Whether a dim is at least 1 wherever all of these factors are: it is a product of some of
    them, or not less than one of them. It may be so for others."""
    if type(dim) is not Poly:
        return False
    atom = as_atom(dim)
    if type(atom) is Opaque and atom.fn == "max":
        return any([_is_positive_with(arg, factors) for arg in atom.args])
    if not dim.constant and len(dim.terms) == 1:
        ((monomial, coefficient),) = dim.terms.items()
        if coefficient > 0 and all([atom in factors for atom in monomial]):
            return True
    for factor in factors:
        least, (low, _) = factor.interval[0], bounds(dim - Poly({(factor,): 1}, 0))
        if least is not None and least >= 0 and low is not None and low >= 0:
            return True
    return False


def _too_many_terms() -> DiagnosticError:
    message = f"size too long: expected at most {MOST_TERMS} terms"
    return DiagnosticError(Diagnostic(message, hint=BIND_PART, code="E0109"))


def _operand(value: Any) -> Any:
    """Converts an operand to a dim; returns NotImplemented for other types."""
    if isinstance(value, Sym | Opaque):
        return Poly({(value,): 1}, 0)
    if hasattr(value, "free_symbols"):  # a sympy expression; the test must not import sympy
        return symbolic.from_sympy(value)
    try:
        return operator.index(value)
    except TypeError:
        return NotImplemented


def _built(fn: str, first: Any, second: Any) -> Dim:
    lhs = first if type(first) is Poly or type(first) is int else _operand(first)
    rhs = second if type(second) is Poly or type(second) is int else _operand(second)
    foreign = lhs is NotImplemented or rhs is NotImplemented
    result: Dim = NotImplemented if foreign else BUILDERS[fn](lhs, rhs)
    return result


def _restored(terms: tuple[tuple[Monomial, int], ...], constant: int) -> Poly:
    """Unpickles a polynomial; its variables are new, so monomials are sorted again."""
    return Poly({tuple(sorted(m, key=_ORDER_OF)): c for m, c in terms}, constant)


def _monomial_key(monomial: Monomial, number_of: Callable[[Sym], int]) -> Any:
    if len(monomial) == 1:
        return _atom_key(monomial[0], number_of)
    keys = [_atom_key(atom, number_of) for atom in monomial]
    return frozenset([(key, keys.count(key)) for key in keys])


def _atom_key(atom: Atom, number_of: Callable[[Sym], int]) -> Any:
    if type(atom) is Sym:
        return number_of(atom)
    keys = [a if type(a) is not Poly else a.key(number_of) for a in atom.args]
    return atom.fn, frozenset(keys) if atom.fn in COMMUTATIVE else tuple(keys)


def bounds(dim: Dim) -> Interval:
    """Returns inclusive bounds of a dim; None for a missing bound."""
    if type(dim) is not Poly:
        return dim, dim
    low: int | None = dim.constant
    high: int | None = dim.constant
    for monomial, coefficient in dim.terms.items():
        lone = len(monomial) == 1
        least, greatest = monomial[0].interval if lone else _product_bounds(monomial)
        if coefficient < 0:
            least, greatest = greatest, least
        low = None if low is None or least is None else low + coefficient * least
        high = None if high is None or greatest is None else high + coefficient * greatest
    return low, high


def _product_bounds(monomial: Monomial) -> Interval:
    intervals = [atom.interval for atom in monomial]
    lows = [low for low, _ in intervals if low is not None and low >= 0]
    if len(lows) < len(intervals):
        return _signed_bounds(monomial)
    highs = [high for _, high in intervals if high is not None]
    bounded = len(highs) == len(intervals) or 0 in highs
    return prod(lows), prod(highs) if bounded else None


def _signed_bounds(monomial: Monomial) -> Interval:
    """Returns bounds of a product of which some factors may be negative."""
    low, high = 1, 1
    for atom in monomial:
        least, greatest = atom.interval
        if least is None or greatest is None:
            return None, None
        corners = (low * least, low * greatest, high * least, high * greatest)
        low, high = min(corners), max(corners)
    return low, high


def syms(dim: Dim) -> frozenset[Sym]:
    """Returns the symbolic variables of a dim."""
    if type(dim) is not Poly:
        return frozenset()
    if type(dim._atom) is Sym:
        return frozenset((dim._atom,))
    variables: set[Sym] = set()
    for monomial in dim.terms:
        for atom in monomial:
            if type(atom) is Sym:
                variables.add(atom)
            else:
                variables.update(*map(syms, atom.args))
    return frozenset(variables)


def substitute(dim: Dim, values: Mapping[Sym, Dim]) -> Dim:
    """Substitutes dims for variables, and simplifies."""
    return dim if type(dim) is not Poly or not values else rewritten(dim, values)


def rewritten(dim: Dim, values: Mapping[Any, Dim]) -> Dim:
    """Substitutes dims for atoms; returns the same object if none of them occurs."""
    if type(dim) is not Poly:
        return dim
    atom = as_atom(dim)
    if type(atom) is Sym:  # fast path: most indices are single variables
        return values.get(atom, dim)
    unchanged: Terms = {}
    changed: Dim = dim.constant
    for monomial, coefficient in dim.terms.items():
        factors = [_rewritten_atom(atom, values) for atom in monomial]
        if all([new is None for new in factors]):
            unchanged[monomial] = coefficient
            continue
        term: Dim = coefficient
        for new, atom in zip(factors, monomial, strict=True):
            term = term * (Poly({(atom,): 1}, 0) if new is None else new)
        changed = changed + term
    if len(unchanged) == len(dim.terms):
        return dim
    return changed + Poly(unchanged, 0) if unchanged else changed


def _rewritten_atom(atom: Atom, values: Mapping[Any, Dim]) -> Dim | None:
    """Returns the substituted value of an atom; None if unchanged."""
    value = values.get(atom)
    if value is not None or type(atom) is Sym:
        return value
    if atom.fn == "select":
        condition = rewritten(atom.args[0], values)
        if type(condition) is not Poly:  # the other branch may divide by zero
            return rewritten(atom.args[1 if condition else 2], values)
    args = [rewritten(argument, values) for argument in atom.args]
    if all([new is old for new, old in zip(args, atom.args, strict=True)]):
        return None
    return BUILDERS[atom.fn](*args)
