"""Indices along the axes of an array for an index into all its elements, `x.flat[i]`."""

from __future__ import annotations

from structir.ir import dims
from structir.ir.dims import Dim
from structir.ir.expr import Var
from structir.ir.polynomial import of_terms
from structir.projections.kernels.definitions import Indices, array_shape
from structir.projections.kernels.index_bounds import Ranges, stays_inside


def flat_indices(array: Var, index: Dim | None, ranges: Ranges) -> Indices:
    """Returns the index along each axis; None for each if the flat index depends on data."""
    shape = array_shape(array)
    if index is None or len(shape) == 0:
        return (index,) * len(shape)
    indices: list[Dim | None] = []
    rest: Dim = index
    for axis in reversed(range(1, len(shape))):
        quotient, remainder = _divided(rest, shape[axis], ranges)
        indices.insert(0, remainder)
        rest = quotient
    return (rest, *indices)


def _divided(index: Dim, size: Dim, ranges: Ranges) -> tuple[Dim, Dim]:
    """Returns quotient and remainder by the size of an axis.

    Terms that are multiples of the size are split off, so that `i * m + j` becomes `i` and `j`.
    """
    if size == 1:
        return index, 0
    multiple: Dim = 0
    rest: Dim = index
    for part in _terms(index):
        factor = dims.exact_quotient(part, size)
        if factor is not None:
            multiple, rest = multiple + factor, rest - part
    if stays_inside(rest, size, ranges):
        return multiple, rest
    return multiple + dims.floordiv(rest, size), dims.floormod(rest, size)


def _terms(index: Dim) -> list[Dim]:
    if isinstance(index, int):
        return [index]
    terms: list[Dim] = [of_terms({m: c}, 0) for m, c in index.terms.items()]
    return [*terms, index.constant] if index.constant else terms
