"""Splits constraints on row-major linear indices into products of index sets."""

from __future__ import annotations

from structir.projections.affine_forms import AffineForm, moving_index_vars, values
from structir.projections.boxes import MAX_BOXES
from structir.projections.position_sets import PositionSet
from structir.projections.preimage import Constraint


def split(constraints: list[Constraint], sets: list[PositionSet]) -> list[list[PositionSet]]:
    """Products that together hold the points at which the constraints are met; row-major numbers
    are taken apart, so that nothing ties their letters any more."""
    products: list[list[PositionSet]] = [sets]
    for form, target in constraints:
        if len(moving_index_vars(form, sets)) < 2 or values(form, sets).within(target):
            continue
        parts = [_parts(form, target, product) for product in products]
        found = [piece for part in parts if part is not None for piece in part]
        if None not in parts and len(found) <= MAX_BOXES:
            products = found
    return products


def _parts(
    form: AffineForm, target: PositionSet, sets: list[PositionSet]
) -> list[list[PositionSet]] | None:
    """The products at which a row-major number falls into a target; None where the form is no such
    number, or the pieces are too many."""
    terms = [(factor, node) for factor, node in reversed(form.terms) if isinstance(node, int)]
    if len(terms) < len(form.terms) or len({node for _, node in terms}) < len(terms):
        return None
    if any(factor < 0 or sets[node].mask for factor, node in terms):
        return None
    runs = list(target.runs())
    if len(runs) > MAX_BOXES:
        return None
    found: list[list[PositionSet]] = []
    for start, stop in runs:
        pieces = _rows(terms, start - form.offset, stop - form.offset, sets)
        if pieces is None:
            return None
        found += pieces
    return found


def _rows(
    terms: list[tuple[int, int]], start: int, stop: int, sets: list[PositionSet]
) -> list[list[PositionSet]] | None:
    """Returns the products at which a mixed-radix number is in an interval: a partial first row,
    the full rows, a partial last row.
    """
    if not terms:
        return [sets] if start <= 0 < stop else []
    (factor, index_var), rest = terms[0], terms[1:]
    least = sum(f * sets[k].start for f, k in rest)
    greatest = sum(f * (sets[k].stop - 1) for f, k in rest)
    if greatest - least >= factor:
        return None
    own = sets[index_var].clipped(-((greatest - start) // factor), (stop - 1 - least) // factor + 1)
    full = own.clipped(-((least - start) // factor), (stop - 1 - greatest) // factor + 1)
    found = [_with(sets, index_var, full)] if full else []
    for row in own.without(full).elements():
        inner = _with(sets, index_var, PositionSet(row, row + 1))
        pieces = _rows(rest, start - row * factor, stop - row * factor, inner)
        if pieces is None:
            return None
        found += pieces
    return found


def _with(sets: list[PositionSet], index_var: int, own: PositionSet) -> list[PositionSet]:
    return [own if k == index_var else s for k, s in enumerate(sets)]
