"""Arithmetic of dims under facts: inequalities that they imply, and simplified dims.

Facts are bounds of index variables and dims that are known to be nonnegative.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from structir.ir import dims
from structir.ir.dims import Dim, Opaque, Poly, Sym
from structir.ir.polynomial import BUILDERS, rewritten

DEPTH = 5  # facts that one proof of an inequality combines
Bounds = Iterable[tuple[Sym, Dim]]


class Facts:
    """Index variables with their extents, and dims that are nonnegative."""

    def __init__(self, bounds: Bounds = (), known: tuple[Dim, ...] = ()) -> None:
        self.extents = dict(bounds)
        self.known = known
        self.memo: dict[Any, Any] = {}

    def bounded(self, bounds: Bounds) -> Facts:
        """Returns these facts inside loops over more index variables, which are not empty."""
        bounds = tuple(bounds)
        known = [fact for _, extent in bounds for fact in _of_positive(extent)]
        known = [fact for fact in known if fact not in self.known]
        return Facts({**self.extents, **dict(bounds)}.items(), (*self.known, *known))

    def assume(self, dim: Dim) -> Facts:
        """Returns these facts where `dim >= 0`."""
        return Facts(self.extents.items(), (*self.known, dim))

    @property
    def contradict(self) -> bool:
        """Whether no point satisfies the facts."""
        return any([self.entails(-dim - 1) for dim in self.known])

    def entails(self, dim: Dim) -> bool:
        """Returns whether the facts imply `dim >= 0`."""
        if not isinstance(dim, Poly):
            return dim >= 0
        result = self.memo.get(dim)
        if result is None:
            result = self.memo[dim] = self._search(dim, DEPTH, self.known)
        return bool(result)

    def _search(self, dim: Dim, depth: int, known: tuple[Dim, ...]) -> bool:
        low = dims.bounds(dim)[0]
        if low is not None and low >= 0:
            return True
        if not depth or not isinstance(dim, Poly):
            return False
        atoms = {atom for monomial in dim.terms for atom in monomial}
        for atom in [a for a in atoms if isinstance(a, Opaque)]:
            weaker = self._without(dim, atom)
            if weaker is not None and self._search(weaker, depth - 1, known):
                return True
        for variable in self.extents.keys() & dims.syms(dim):
            smaller = self._at_upper_bound(dim, variable)
            if smaller is not None and self._search(smaller, depth - 1, known):
                return True
        for k, fact in enumerate(known):
            if not isinstance(fact, Poly) or not any([a in atoms for m in fact.terms for a in m]):
                continue
            if self._search(dim - fact, depth - 1, known[:k] + known[k + 1 :]):
                return True
        return False

    def _at_upper_bound(self, dim: Dim, variable: Sym) -> Dim | None:
        """Returns the dim at the greatest value of a variable in which it does not increase."""
        linear = dims.linear(dim, variable)
        if linear is None:
            return None
        low = dims.bounds(-linear[0])[0]
        return (
            None if low is None or low < 0 else linear[0] * (self.extents[variable] - 1) + linear[1]
        )

    def _without(self, dim: Poly, atom: Opaque) -> Dim | None:
        """Returns a dim whose sign implies that of another, without a quotient or a remainder."""
        factor = dim.terms.get((atom,), 0)
        rest = dim - Poly({(atom,): factor}, 0) if factor else dim
        if not factor or any([atom in m for m in getattr(rest, "terms", ())]):
            return None
        if atom.fn == "floordiv" and factor in (1, -1) and self._is_positive(atom.args[1]):
            first, by = atom.args
            return by * rest + (by - 1 - first if factor < 0 else first)
        if atom.fn == "floormod" and factor < 0 and self._is_positive(atom.args[1]):
            return rest + factor * (atom.args[1] - 1)
        return None

    def _is_positive(self, dim: Dim) -> bool:
        lows = [dims.bounds(dim - 1 - fact)[0] for fact in (0, *self.known)]
        return any([low is not None and low >= 0 for low in lows])

    def simplify(self, dim: Dim) -> Dim:
        """Returns an equal dim in which the facts decide quotients, remainders and choices."""
        if not isinstance(dim, Poly):
            return dim
        result = self.memo.get(("simplified", dim))
        if result is None:
            result = self.memo["simplified", dim] = self._simplified(dim)
        return result

    def _simplified(self, dim: Dim) -> Dim:
        own = [v for v in dims.syms(dim) if v in self.extents]
        zero = [v for v in own if self.extents[v] == 1 or self.entails(-Poly({(v,): 1}, 0))]
        dim = dims.substitute(dim, dict.fromkeys(zero, 0))
        for _ in range(8):
            values = {atom: self._value(atom) for atom in opaque_atoms(dim)}
            changes = {atom: value for atom, value in values.items() if value is not None}
            if not changes:
                break
            dim = rewritten(dim, changes)
        return _recombined(dim)

    def _value(self, atom: Opaque) -> Dim | None:
        if len(atom.args) < 2:  # such as an index that is data
            return None
        first, second = atom.args[:2]
        match atom.fn:
            case "floordiv" | "floormod":
                if self.entails(first) and self.entails(second - 1 - first):
                    return 0 if atom.fn == "floordiv" else first
                whole = _recombined(first)
                return None if whole == first else BUILDERS[atom.fn](whole, second)
            case "lt" | "le":
                difference = second - first - (atom.fn == "lt")
                return (
                    1 if self.entails(difference) else 0 if self.entails(-difference - 1) else None
                )
            case "eq" | "ne":
                if self.entails(first - second) and self.entails(second - first):
                    return int(atom.fn == "eq")
                if self.entails(first - second - 1) or self.entails(second - first - 1):
                    return int(atom.fn == "ne")
            case "min" | "max" if len(atom.args) == 2:
                if self.entails(first - second):
                    return second if atom.fn == "min" else first
                if self.entails(second - first):
                    return first if atom.fn == "min" else second
        return None


def _recombined(dim: Dim) -> Dim:
    """Replaces `c * (e // c) + e % c` by `e`."""
    for monomial, factor in list(dim.terms.items()) if isinstance(dim, Poly) else ():
        atom = monomial[-1]
        if len(monomial) > 1 or not isinstance(atom, Opaque) or atom.fn != "floormod":
            continue
        dividend, divisor = atom.args
        quotient = dims.floordiv(dividend, divisor)
        candidate = dim + (dividend - divisor * quotient - Poly({(atom,): 1}, 0)) * factor
        if dims.as_atom(quotient) not in [a for m in getattr(candidate, "terms", ()) for a in m]:
            dim = candidate
    return dim


def _of_positive(extent: Dim) -> list[Dim]:
    """Returns what `extent >= 1` implies: each factor of a product is positive."""
    if not isinstance(extent, Poly):
        return []
    factors = [] if extent.constant or len(extent.terms) > 1 else next(iter(extent.terms))
    return [extent - 1, *[Poly({(factor,): 1}, -1) for factor in factors if len(factors) > 1]]


def opaque_atoms(dim: Dim) -> Iterator[Opaque]:
    """Yields the functions in a dim, inner ones first."""
    for monomial in dim.terms if isinstance(dim, Poly) else ():
        for atom in monomial:
            if isinstance(atom, Opaque):
                for argument in atom.args:
                    yield from opaque_atoms(argument)
                yield atom
