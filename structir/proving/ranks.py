"""Instances of an equation at ranks of row variables: whether they treat the axes of a row alike.

An equation at rank 1 of a row variable `*s` has one axis of a symbolic size. The equation at
another rank is an *instance* of it if both differ in one way only: where the equation at rank 1 has
the index variable of the row, the other one has those of all its axes in order, and where it has
the size of the row, the other one has the product of the sizes. Flattening the axes of the row then
maps one equation to the other, so a proof at rank 1 for all sizes proves both.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

import attrs

from structir.ir import dims
from structir.ir.dim_facts import opaque_atoms
from structir.ir.dims import Dim, Poly, Sym
from structir.ir.polynomial import rewritten
from structir.proving.data_index import argument_term
from structir.proving.equations import ResultEquation
from structir.proving.kernel import Loops
from structir.proving.terms import (
    ElementTerm,
    Fold,
    ScalarTerm,
    TableTerm,
    Unknown,
    names_of,
    parts,
)

Rows = Mapping[Sym, tuple[Sym, ...]]  # sizes of a row at rank 1, with its sizes at another rank


@attrs.frozen(eq=False)
class RankInstance:
    """An equation at rank 1 of all row variables, and the same one at other ranks."""

    general: ResultEquation
    special: ResultEquation
    rows: Rows

    def check(self) -> bool:
        """Returns whether the axes of each row variable are treated alike."""
        sizes = {size: prod(map(dims.as_dim, row)) for size, row in self.rows.items()}
        match = _Match(self.rows, sizes).inside(self.special.loops, self.general.loops)
        pairs = ((self.special.left, self.general.left), (self.special.right, self.general.right))
        return match is not None and all([match.same(*pair) for pair in pairs])


@attrs.frozen(eq=False)
class _Match:
    """Dims of the equation at rank 1 with those of the instance."""

    rows: Rows
    values: Mapping[Sym, Dim]  # of sizes, and of index variables that belong to no row
    indices: Mapping[Sym, tuple[Sym, ...]] = attrs.Factory(dict)  # of rows

    def inside(self, special: Loops, general: Loops) -> _Match | None:
        """Returns the match inside of loops, or None if their ranges differ."""
        values, indices, position = dict(self.values), dict(self.indices), 0
        for variable, extent in general:
            size = dims.as_sym(extent)
            row = self.rows.get(size) if size is not None else None
            own = special[position : position + (1 if row is None else len(row))]
            expected = [self.dim(extent)] if row is None else list(map(dims.as_dim, row))
            if len(own) != len(expected) or not all(
                [_equal(e, d) for (_, e), d in zip(own, expected, strict=True)]
            ):
                return None
            position += len(own)
            if row is None:
                values[variable] = dims.as_dim(own[0][0])
            else:
                indices[variable] = tuple([v for v, _ in own])
        return _Match(self.rows, values, indices) if position == len(special) else None

    def dim(self, dim: Dim) -> Dim | None:
        """Returns a dim of the instance, or None if one axis of a row occurs in it."""
        if isinstance(dim, Poly) and dims.syms(dim) & self.indices.keys():
            return None
        return dims.substitute(dim, self.values)

    def same(self, special: Any, general: Any) -> bool:
        """Returns whether a part of the instance is that of the equation at rank 1."""
        if isinstance(general, int | Poly) and isinstance(special, int | Poly):
            return self._same_dim(special, general)
        if isinstance(general, tuple) and isinstance(special, tuple):
            pairs = zip(special, general, strict=False)
            return len(special) == len(general) and all([self.same(*pair) for pair in pairs])
        if not isinstance(general, ScalarTerm) or type(special) is not type(general):
            return bool(special == general)
        if names_of(special) != names_of(general):
            return False
        if isinstance(general, Fold | TableTerm) and isinstance(special, Fold | TableTerm):
            match = self.inside(special.variables, general.variables)
            return match is not None and match.same(special.body, general.body)
        ours, theirs = dict(parts(special)), dict(parts(general))
        is_indexed = isinstance(general, ElementTerm | Unknown)
        if is_indexed and not self.at(ours.pop("index"), theirs.pop("index")):
            return False
        return self.same(tuple(ours.values()), tuple(theirs.values()))

    def at(self, special: tuple[Dim, ...], general: tuple[Dim, ...]) -> bool:
        """Returns whether an index is that of the equation at rank 1: rows are whole."""
        position = 0
        for entry in general:
            variable = dims.as_sym(entry) if isinstance(entry, Poly) else None
            row = self.indices.get(variable) if variable is not None else None
            own = special[position : position + (1 if row is None else len(row))]
            position += len(own)
            if row is not None and list(map(_symbol, own)) != list(row):
                return False
            if row is None and not (len(own) == 1 and self._same_dim(own[0], entry)):
                return False
        return position == len(special)

    def _same_dim(self, special: Dim, general: Dim) -> bool:
        """Returns whether a dim is that of the equation at rank 1; data are compared as terms."""
        ours, theirs = [set(filter(argument_term, opaque_atoms(d))) for d in (special, general)]
        for atom in theirs:
            term, unknown = argument_term(atom), dims.as_dim(Sym("data"))
            equal = {each: unknown for each in ours if self.same(argument_term(each), term)}
            special = rewritten(special, equal)
            general = rewritten(general, {atom: unknown})
        return _equal(special, self.dim(general))


def _symbol(dim: Dim) -> Sym | None:
    return dims.as_sym(dim) if isinstance(dim, Poly) else None


def _equal(a: Dim, b: Dim | None) -> bool:
    return b is not None and dims.equal(a, b) is True
