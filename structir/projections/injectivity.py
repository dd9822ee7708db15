"""Decides whether the indices of an access are surjective and injective in its index variables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from math import gcd

from structir.ir import dims
from structir.ir.dims import Dim, Sym
from structir.projections.spec import AccessIndex, affine


def covers(terms: Sequence[tuple[Dim, Dim]]) -> bool | None:
    """Whether sums of factors times positions cover every value between their extremes.

    None where unknown.
    """
    terms_by_factor = [(abs(f), n) for f, n in terms if isinstance(f, int) and f]
    if len(terms_by_factor) < sum(f != 0 for f, _ in terms):
        return None
    width: Dim = 1
    covered: bool | None = True
    for factor, extent in sorted(terms_by_factor, key=lambda term: term[0]):
        if extent == 1:
            continue
        no_gap = dims.at_least(width, factor)
        if no_gap is False and dims.at_least(extent, 2):
            return False
        covered = covered and no_gap
        width = width + factor * (extent - 1)
    return True if covered else None


def injective(
    entries: Sequence[AccessIndex], index_vars: Sequence[Sym], extents: Mapping[Sym, Dim]
) -> bool | None:
    """Whether different points of the index variables always access different elements; None where
    unknown.

    Determines the index variables axis by axis: an index in which the undetermined ones are the
    digits of a mixed-radix number determines each of them. The remaining ones are injective if
    their matrix has full column rank.
    """
    undetermined = {s for s in index_vars if extents[s] != 1}
    forms = [affine(e.dim, tuple(index_vars)) for e in entries if not e.whole and e.data is None]
    factors = [form[0] for form in forms if form is not None]
    progress = True
    while progress and undetermined:
        progress = False
        for row in factors:
            digits = [(f, extents[s]) for s, f in row.items() if s in undetermined]
            if digits and distinguishes(digits):
                undetermined -= row.keys()
                progress = True
    if not undetermined:
        return True
    if len(forms) < len(entries) or len(factors) < len(forms):
        return None
    return _independent(factors, sorted(undetermined, key=lambda s: s.order), extents)


def distinguishes(terms: Sequence[tuple[Dim, Dim]]) -> bool:
    """Whether no two points have the same sum: the terms are the digits of a mixed-radix number."""
    width: Dim = 1
    remaining = [(abs_of(factor), extent) for factor, extent in terms]
    while remaining:
        index = _next_digit(remaining, width)
        if index is None:
            return False
        factor, extent = remaining.pop(index)
        width = width + factor * (extent - 1)
    return True


def _next_digit(terms: list[tuple[Dim, Dim]], width: Dim) -> int | None:
    """Returns the term of the next higher digit: its factor equals the range of the lower digits,
    or is the least and no smaller than that range.
    """
    for index, (factor, _) in enumerate(terms):
        if factor == width:
            return index
    least = [
        index for index, (f, _) in enumerate(terms) if all(dims.at_least(g, f) for g, _ in terms)
    ]
    return least[0] if least and dims.at_least(terms[least[0]][0], width) else None


def abs_of(factor: Dim) -> Dim:
    """Returns the absolute value of a factor."""
    return -factor if sign_of(factor) == -1 else factor


def _independent(
    factors: Sequence[Mapping[Sym, Dim]], index_vars: Sequence[Sym], extents: Mapping[Sym, Dim]
) -> bool | None:
    """Whether a matrix has full column rank, or its only kernel vector exceeds the extents."""
    rows = [[row.get(s, 0) for s in index_vars] for row in factors]
    if not all(isinstance(f, int) for row in rows for f in row):
        return None
    kernel = _kernel([[f for f in row if isinstance(f, int)] for row in rows], len(index_vars))
    if not kernel:
        return True
    if len(kernel) > 1:
        return None
    inside = [
        dims.at_least(extents[s], abs(k) + 1) for s, k in zip(index_vars, kernel[0], strict=True)
    ]
    if all(inside):
        return False
    return True if False in inside else None


def _kernel(rows: list[list[int]], columns: int) -> list[list[int]]:
    """Returns a basis of the kernel of an integer matrix, as reduced integer vectors."""
    basis: list[list[int]] = []
    pivots, reduced = _echelon(rows, columns)
    for free in (k for k in range(columns) if k not in pivots):
        scale = reduce(lambda n, pair: n * pair[0][pair[1]], zip(reduced, pivots, strict=True), 1)
        vector = [0] * columns
        vector[free] = scale
        for row, pivot in zip(reduced, pivots, strict=True):
            vector[pivot] = -row[free] * scale // row[pivot]
        divisor = reduce(gcd, vector)
        basis.append([v // divisor for v in vector])
    return basis


def _echelon(rows: list[list[int]], columns: int) -> tuple[list[int], list[list[int]]]:
    """Returns the pivot columns and the reduced row echelon form, by integer row operations."""
    pivots: list[int] = []
    remaining, finished = [list(row) for row in rows], list[list[int]]()
    for column in range(columns):
        row = next((r for r in remaining if r[column]), None)
        if row is None:
            continue
        remaining.remove(row)
        for other in (*remaining, *finished):
            factor = other[column]
            other[:] = [row[column] * a - factor * b for a, b in zip(other, row, strict=True)]
        pivots.append(column)
        finished.append(row)
    return pivots, finished


def sign_of(factor: Dim) -> int | None:
    """Returns -1, 0 or 1; also 1 for a factor that is at least 0, and None if unknown."""
    if isinstance(factor, int):
        return (factor > 0) - (factor < 0)
    if dims.at_least(factor, 0):
        return 1
    return -1 if dims.at_least(0, factor) else None
