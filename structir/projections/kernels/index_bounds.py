"""Bounds of index expressions over ranges of index variables, as dims over sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce

from structir.ir import dims
from structir.ir.dims import Dim, Opaque, Sym
from structir.ir.polynomial import of_terms

Range = tuple[Dim, Dim]  # the least and the greatest value, both inclusive
Ranges = Mapping[Sym, Range]


def bounds(dim: Dim, ranges: Ranges) -> Range | None:
    """Returns the least and the greatest value of an index expression; None if unknown.

    Bounds of sums are those of their terms, so they may be wider than the expression.
    """
    if isinstance(dim, int):
        return dim, dim
    low: Dim = dim.constant
    high: Dim = dim.constant
    for monomial, factor in dim.terms.items():
        term = _monomial_bounds(monomial, ranges)
        if term is None:
            return None
        first, second = (term[0] * factor, term[1] * factor)
        if factor < 0:
            first, second = second, first
        low, high = low + first, high + second
    return low, high


def stays_inside(dim: Dim, size: Dim, ranges: Ranges) -> bool:
    """Whether an index expression is provably in `range(size)`."""
    reach = bounds(dim, ranges)
    if reach is None:
        return False
    return bool(dims.at_least(reach[0], 0) and dims.at_least(size - 1, reach[1]))


def _monomial_bounds(monomial: dims.Monomial, ranges: Ranges) -> Range | None:
    """Returns the bounds of a product; None if a factor of several may be negative."""
    sizes: Dim = 1
    moving: list[Range] = []
    for atom in monomial:
        reach = _atom_bounds(atom, ranges)
        if reach is None:
            return None
        if dims.equal(reach[0], reach[1]):
            sizes = sizes * reach[0]
        else:
            moving.append(reach)
    if len(moving) > 1 and not all(dims.at_least(low, 0) for low, _ in moving):
        return None
    if moving and not dims.at_least(sizes, 0):
        return None
    low = reduce(lambda a, b: a * b, [r[0] for r in moving], sizes)
    return low, reduce(lambda a, b: a * b, [r[1] for r in moving], sizes)


def _atom_bounds(atom: Sym | Opaque, ranges: Ranges) -> Range | None:
    if isinstance(atom, Sym):
        value = dims.as_dim(atom)
        return ranges.get(atom, (value, value))
    if not dims.syms(of_terms({(atom,): 1}, 0)) & ranges.keys():
        value = of_terms({(atom,): 1}, 0)
        return value, value
    rule = OF_FUNCTIONS.get(atom.fn)
    args = [bounds(arg, ranges) for arg in atom.args]
    present = [arg for arg in args if arg is not None]
    if rule is None or len(present) < len(args):
        return None
    return rule(present)


def _minimum(args: list[Range]) -> Range:
    return dims.dim_min(*[a for a, _ in args]), dims.dim_min(*[b for _, b in args])


def _maximum(args: list[Range]) -> Range:
    return dims.dim_max(*[a for a, _ in args]), dims.dim_max(*[b for _, b in args])


def _quotient(args: list[Range]) -> Range | None:
    (low, high), (divisor, same) = args
    if divisor != same or not dims.at_least(divisor, 1):
        return None
    return dims.floordiv(low, divisor), dims.floordiv(high, divisor)


def _remainder(args: list[Range]) -> Range | None:
    divisor, same = args[1]
    return (0, divisor - 1) if divisor == same and dims.at_least(divisor, 1) else None


def _select(args: list[Range]) -> Range:
    return _hull(args[1:])


def _hull(args: list[Range]) -> Range:
    return dims.dim_min(*[a for a, _ in args]), dims.dim_max(*[b for _, b in args])


OF_FUNCTIONS: Mapping[str, Callable[[list[Range]], Range | None]] = {
    "min": _minimum,
    "max": _maximum,
    "floordiv": _quotient,
    "floormod": _remainder,
    "select": _select,
}
