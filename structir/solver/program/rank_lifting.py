"""Generalises the schemes that an op has at single ranks to one scheme with a row variable.

The axes that an op does not touch form a block: each result contains it in order, reversed, or not
at all. If the schemes of all greater ranks differ only in the length of this block, a row variable
in its place describes them all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs

from structir.ir.polynomial import Dim, Poly, Sym, substitute
from structir.solver.constraints.constraint import Constraint, RankLe, Reverse
from structir.solver.constraints.scheme import Scheme
from structir.solver.domains.terms import (
    Element,
    Row,
    RowVar,
    replace_row,
    row_vars,
    symbol_of,
    variables,
)
from structir.solver.propagation.arithmetic import fresh

MIN_RANKS = 3  # with equal schemes, as evidence for all greater ranks
MIN_BLOCK = 2  # axes: the order of fewer is ambiguous


@attrs.frozen(eq=False)
class LiftedScheme:
    """A scheme for every rank from `least` on."""

    scheme: Scheme
    least: int


@attrs.frozen(eq=False)
class _Template:
    """A scheme with a row variable in place of a block, and the variable of the reversed block."""

    scheme: Scheme
    block: RowVar
    reverse: RowVar
    fixed: int  # axes of the operand outside the block

    def at(self, rank: int) -> Scheme:
        """Returns the scheme at a rank."""
        axes: Row = tuple([fresh() for _ in range(rank - self.fixed)])
        rows = {self.block: axes, self.reverse: axes[::-1]}
        return _map_rows(self.scheme, rows)

    def for_ranks_from(self, least: int, names_of: Scheme) -> Scheme:
        """Returns the scheme for this rank and all greater ones.

        Its variables have the names of the scheme `names_of`, of the least rank.
        """
        scheme = _rename(self.scheme, _names(self.at(least), names_of))
        limits: list[Constraint] = []
        if least > self.fixed:
            limits += [RankLe((1,) * least, row) for row in scheme.operands if row_vars(row)]
        if any(self.reverse in row for row in scheme.results):
            limits.append(Reverse((self.block,), (self.reverse,)))
        return attrs.evolve(scheme, constraints=(*limits, *scheme.constraints))


def lift(scheme_at: Mapping[int, Scheme], operand: int) -> LiftedScheme | None:
    """Returns one scheme for all great ranks of an operand; None if none fits.

    `scheme_at` maps each rank to its scheme; the greatest rank represents all greater ones.
    """
    greatest = max(scheme_at, default=-1)
    if greatest < 0 or any(row_vars(row) for row in scheme_at[greatest].operands):
        return None
    for template in _templates(scheme_at[greatest], operand):
        least = greatest
        while _matches(template, least - 1, scheme_at):
            least -= 1
        if greatest - least + 1 >= MIN_RANKS:
            return LiftedScheme(template.for_ranks_from(least, scheme_at[least]), least)
    return None


def _matches(template: _Template, rank: int, scheme_at: Mapping[int, Scheme]) -> bool:
    if rank < template.fixed or rank not in scheme_at:
        return False
    return bool(_canonical(template.at(rank)) == _canonical(scheme_at[rank]))


def _templates(scheme: Scheme, operand: int) -> Iterator[_Template]:
    """Yields the templates of the blocks of an operand, the longest block first."""
    row = scheme.operands[operand]
    for length in range(len(row), MIN_BLOCK - 1, -1):
        for start in range(len(row) - length + 1):
            template = _template(scheme, row[start : start + length], len(row) - length)
            if template is not None:
                yield template


def _template(scheme: Scheme, block: Row, fixed: int) -> _Template | None:
    """Returns a scheme with a row variable for a block; None if an axis of it occurs elsewhere."""
    symbols = [symbol_of(axis) if type(axis) is Poly else None for axis in block]
    if None in symbols or len(set(symbols)) < len(block):
        return None
    variable, reverse = RowVar("rest"), RowVar("reversed")
    operands = tuple([replace_row(row, block, variable) for row in scheme.operands])
    results = tuple(
        [
            replace_row(replace_row(row, block, variable), block[::-1], reverse)
            for row in scheme.results
        ]
    )
    remaining = Scheme(operands, results, scheme.constraints, scheme.shared)
    if set(symbols) & set(_symbols(remaining)):
        return None
    return _Template(remaining, variable, reverse, fixed)


def _names(scheme: Scheme, other: Scheme) -> dict[Sym, Sym]:
    """Maps the variables of a scheme to those of an equal scheme."""
    return dict(zip(_symbols(scheme), _symbols(other), strict=True))


def _rename(scheme: Scheme, names: Mapping[Sym, Sym]) -> Scheme:
    sizes = {symbol: Poly({(name,): 1}, 0) for symbol, name in names.items()}

    def dim(size: Dim) -> Dim:
        return substitute(size, sizes)

    def row(elements: Row) -> Row:
        return tuple([e if type(e) is RowVar else dim(e) for e in elements])  # type: ignore[arg-type]

    return Scheme(
        tuple(map(row, scheme.operands)),
        tuple(map(row, scheme.results)),
        tuple([c.map_terms(dim, row) for c in scheme.constraints]),
        scheme.shared,
    )


def _map_rows(scheme: Scheme, rows: Mapping[RowVar, Row]) -> Scheme:
    def expand(row: Row) -> Row:
        parts = [rows.get(e, (e,)) if type(e) is RowVar else (e,) for e in row]
        return tuple([element for part in parts for element in part])

    return Scheme(
        tuple(map(expand, scheme.operands)),
        tuple(map(expand, scheme.results)),
        tuple([c.map_terms(lambda dim: dim, expand) for c in scheme.constraints]),
        scheme.shared,
    )


# Comparison up to the names of variables


def _symbols(scheme: Scheme) -> Iterator[Sym]:
    """Yields the size variables of a scheme, in order."""
    for row in (*scheme.operands, *scheme.results):
        yield from _symbols_of_row(row)
    for constraint in scheme.constraints:
        for dim in constraint.dims():
            yield from variables(dim)
        for row in constraint.rows():
            yield from _symbols_of_row(row)


def _symbols_of_row(row: Row) -> Iterator[Sym]:
    for element in row:
        if type(element) is not RowVar:
            yield from variables(element)  # type: ignore[arg-type]


def _canonical(scheme: Scheme) -> Any:
    """Returns a scheme as comparable data, with its variables numbered in order of occurrence."""
    names: dict[Sym, Dim] = {}
    for symbol in _symbols(scheme):
        if symbol not in names and symbol not in scheme.shared:
            names[symbol] = _numbered(len(names))
    row_names: dict[RowVar, int] = {}

    def dim(size: Dim) -> Any:
        return substitute(size, names)

    def row(elements: Sequence[Element]) -> Any:
        return tuple(
            [
                ("row", row_names.setdefault(e, len(row_names))) if type(e) is RowVar else dim(e)  # type: ignore[arg-type]
                for e in elements
            ]
        )

    constraints = [
        (type(c), [getattr(c.map_terms(dim, row), kind) for kind in c.kinds])
        for c in scheme.constraints
    ]
    return [*map(row, scheme.operands)], [*map(row, scheme.results)], constraints


_NUMBERED: list[Dim] = []


def _numbered(index: int) -> Dim:
    while len(_NUMBERED) <= index:
        _NUMBERED.append(fresh(f"v{len(_NUMBERED)}"))
    return _NUMBERED[index]
