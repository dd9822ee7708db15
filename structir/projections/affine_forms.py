"""Index expressions at concrete sizes, and the sets of their values.

An `AffineForm` is an index expression with concrete sizes and numbered index variables.
`values(form, sets)` returns the set of its values over a product of index sets. The set is exact if
each index variable occurs once in the form or few enough points remain to enumerate, and otherwise
a superset.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce
from math import prod
from typing import NamedTuple

from structir.ir import dims
from structir.ir.dims import Dim, Opaque, Sym
from structir.projections.position_sets import EMPTY, PositionSet, of, only

POINTS = 4096  # limit of enumeration for forms with a repeated loop index


class AffineForm(NamedTuple):
    """A constant plus multiples of index variables and functions, sorted by absolute factor."""

    offset: int
    terms: tuple[tuple[int, Node], ...]  # factor and node
    repeats: bool = False  # whether a loop index occurs more than once

    @property
    def index_vars(self) -> tuple[int, ...]:
        """The index variables in the form, with repetitions."""
        return tuple(_index_vars(self))

    @property
    def as_index_var(self) -> int | None:
        """The index variable that the form equals; None if there is none."""
        if self.offset or len(self.terms) != 1:
            return None
        factor, node = self.terms[0]
        return node if factor == 1 and isinstance(node, int) else None


class FormFunction(NamedTuple):
    """A function of forms, such as `floordiv`; `product` multiplies them.

    A `table` has the value at each position.
    """

    fn: str
    args: tuple[AffineForm, ...]
    table: tuple[int, ...] = ()


Node = int | FormFunction  # the number of an index variable, or a function
Sets = Sequence[PositionSet]


def form_of(dim: Dim, numbers: Mapping[Sym, int]) -> AffineForm:
    """Returns the form of a dim over numbered index variables."""
    if isinstance(dim, int):
        return AffineForm(dim, ())
    terms = [(factor, _node(monomial, numbers)) for monomial, factor in dim.terms.items()]
    form = AffineForm(dim.constant, tuple(sorted(terms, key=lambda term: abs(term[0]))))
    index_vars = form.index_vars
    return form if len(set(index_vars)) == len(index_vars) else form._replace(repeats=True)


def _node(monomial: dims.Monomial, numbers: Mapping[Sym, int]) -> Node:
    nodes = [_atom(atom, numbers) for atom in monomial]
    if len(nodes) == 1:
        return nodes[0]
    return FormFunction("product", tuple([AffineForm(0, ((1, node),)) for node in nodes]))


def _atom(atom: Sym | Opaque, numbers: Mapping[Sym, int]) -> Node:
    if isinstance(atom, Sym):
        return numbers[atom]
    return FormFunction(atom.fn, tuple([form_of(a, numbers) for a in atom.args]))


def _index_vars(form: AffineForm) -> Iterator[int]:
    for _, node in form.terms:
        if isinstance(node, int):
            yield node
        else:
            for argument in node.args:
                yield from _index_vars(argument)


def values(form: AffineForm, sets: Sets) -> PositionSet:
    """Returns the values of a form over nonempty index sets."""
    offset, terms, repeats = form
    if len(terms) == 1 and isinstance(terms[0][1], int):
        result = sets[terms[0][1]].times(terms[0][0])
        return result.shifted(offset) if offset else result
    if not terms:
        return only(offset)
    if not repeats:
        return _sum(form, sets)
    moving = {k for k in form.index_vars if sets[k].size > 1}
    if prod(sets[k].size for k in moving) <= POINTS:
        return _enumerate_values(form, sets, sorted(moving))
    return _sum(form, sets).hull()


def _sum(form: AffineForm, sets: Sets) -> PositionSet:
    total = only(form.offset)
    for factor, node in form.terms:
        total = _plus_multiple(total, factor, node_values(node, sets))
    return total


def _plus_multiple(total: PositionSet, factor: int, addend: PositionSet) -> PositionSet:
    """Returns a set plus multiples of another; a sufficiently wide interval has no gaps."""
    width = total.stop - total.start
    if total.mask or addend.mask or not addend or abs(factor) > width:
        return total.plus(addend.times(factor))
    ends = (addend.start * factor, (addend.stop - 1) * factor)
    exact = total.exact and addend.exact
    return PositionSet(total.start + min(ends), total.stop + max(ends), 0, exact)


def node_values(node: Node, sets: Sets) -> PositionSet:
    """Returns the values of an index variable or a function."""
    if isinstance(node, int):
        return sets[node]
    args = [values(argument, sets) for argument in node.args]
    if node.table:
        return of(sorted({node.table[k] for k in args[0].elements()}), args[0].exact)
    return SET_FUNCTIONS.get(node.fn, _unsupported)(args)


def _enumerate_values(form: AffineForm, sets: Sets, moving: list[int]) -> PositionSet:
    """Returns the values by enumeration of all points."""
    point = [s.start for s in sets]
    results: set[int] = set()
    for positions in itertools.product(*[list(sets[k].elements()) for k in moving]):
        for index_var, position in zip(moving, positions, strict=True):
            point[index_var] = position
        results.add(value_at(form, point))
    return of(sorted(results), all(sets[k].exact for k in moving))


def value_at(form: AffineForm, point: Sequence[int]) -> int:
    """Returns the value of a form at one point."""
    return form.offset + sum(factor * _value_of(node, point) for factor, node in form.terms)


def _value_of(node: Node, point: Sequence[int]) -> int:
    if isinstance(node, int):
        return point[node]
    if node.table:
        return node.table[value_at(node.args[0], point)]
    if node.fn == "select":
        condition, then, otherwise = node.args
        return value_at(then if value_at(condition, point) else otherwise, point)
    return int(SCALAR_FUNCTIONS[node.fn](*[value_at(a, point) for a in node.args]))


SCALAR_FUNCTIONS: dict[str, Callable[..., int]] = {
    "floordiv": lambda a, b: a // b if b else 0,  # an index that divides by zero is never used
    "floormod": lambda a, b: a % b if b else 0,
    "min": min,
    "max": max,
    "product": lambda *args: prod(args),
    **{name: getattr(operator, name) for name in ("lt", "le", "gt", "ge", "eq", "ne")},
}


def _unsupported(args: list[PositionSet]) -> PositionSet:
    raise KeyError("unsupported function of sizes")


def _quotient(args: list[PositionSet]) -> PositionSet:
    dividend, divisor = args
    if divisor.size == 1 and divisor.start > 0:
        return dividend.floored(divisor.start)
    return _corners(args, lambda a, b: a // b if b else 0)


def _remainder(args: list[PositionSet]) -> PositionSet:
    dividend, divisor = args
    if divisor.size == 1 and divisor.start > 0:
        return dividend.modulo(divisor.start)
    greatest = max(abs(divisor.start), abs(divisor.stop - 1), 1)
    return PositionSet(min(0, 1 - greatest), greatest, 0, False)


def _corners(args: list[PositionSet], function: Callable[..., int]) -> PositionSet:
    ends = [(s.start, s.stop - 1) for s in args]
    results = [function(*corner) for corner in itertools.product(*ends)]
    single = all(s.size == 1 for s in args)
    return PositionSet(min(results), max(results) + 1, 0, single and all(s.exact for s in args))


def _product(args: list[PositionSet]) -> PositionSet:
    moving = [s for s in args if s.size > 1]
    if len(moving) <= 1:
        factor = prod(s.start for s in args if s.size == 1)
        return (moving[0] if moving else only(1)).times(factor)
    return _corners(args, lambda *args: prod(args))


def _minimum(args: list[PositionSet]) -> PositionSet:
    return _maximum([s.mirrored() for s in args]).mirrored()


def _maximum(args: list[PositionSet]) -> PositionSet:
    floor = max(s.start for s in args)
    reaching = [s.clipped(floor, s.stop) for s in args]
    return reduce(PositionSet.joined, reaching, EMPTY)


def _select(args: list[PositionSet]) -> PositionSet:
    condition, then, otherwise = args
    if condition.size == 1:
        return then if condition.start else otherwise
    return then.joined(otherwise).hull()


def _comparison(op: str) -> Callable[[list[PositionSet]], PositionSet]:
    """Returns the possible truth values of a comparison."""
    holds = getattr(operator, op)

    def truths(args: list[PositionSet]) -> PositionSet:
        lhs, rhs = args
        pairs = [(lhs.start, rhs.stop - 1), (lhs.stop - 1, rhs.start)]
        possible = {bool(holds(a, b)) for a, b in pairs}
        if op in ("eq", "ne"):
            disjoint = not lhs.common(rhs)
            same = lhs.size == rhs.size == 1 and not disjoint
            possible = {holds(0, 1)} if disjoint else {holds(0, 0)} if same else {True, False}
        return of(sorted(map(int, possible)), lhs.exact and rhs.exact)

    return truths


SET_FUNCTIONS: dict[str, Callable[[list[PositionSet]], PositionSet]] = {
    "floordiv": _quotient,
    "floormod": _remainder,
    "min": _minimum,
    "max": _maximum,
    "select": _select,
    "product": _product,
    **{name: _comparison(name) for name in ("lt", "le", "gt", "ge", "eq", "ne")},
}


def moving_index_vars(form: AffineForm, sets: Sets) -> frozenset[int]:
    """Returns the index variables of a form that have several values."""
    return frozenset([k for k in form.index_vars if sets[k].size > 1])
