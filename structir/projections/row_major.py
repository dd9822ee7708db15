"""Splits constraints on row-major linear indices into products of index sets."""

from __future__ import annotations

from structir.projections.affine_forms import AffineForm, moving_index_vars, values
from structir.projections.boxes import MAX_BOXES
from structir.projections.position_sets import PositionSet
from structir.projections.preimage import Constraint


def split(constraints: list[Constraint], sets: list[PositionSet]) -> list[list[PositionSet]]:
    """Returns products of index sets whose union contains the points that satisfy the constraints.

    Row-major linear indices are split into ranges of their digits, which removes ties between them.
    """
    products: list[list[PositionSet]] = [sets]
    for form, target in constraints:
        if len(moving_index_vars(form, sets)) < 2 or values(form, sets).within(target):
            continue
        splits = [_split_form(form, target, product) for product in products]
        found_products = [product for each in splits if each is not None for product in each]
        if None not in splits and len(found_products) <= MAX_BOXES:
            products = found_products
    return products


def _split_form(
    form: AffineForm, target: PositionSet, sets: list[PositionSet]
) -> list[list[PositionSet]] | None:
    """Returns the products at which a row-major linear index is in the target; None if the form is
    no such index, or the products are too many.
    """
    terms = [(factor, node) for factor, node in reversed(form.terms) if isinstance(node, int)]
    if len(terms) < len(form.terms) or len({node for _, node in terms}) < len(terms):
        return None
    if any(factor < 0 or sets[node].mask for factor, node in terms):
        return None
    runs = list(target.runs())
    if len(runs) > MAX_BOXES:
        return None
    products: list[list[PositionSet]] = []
    for start, stop in runs:
        rows = _split_terms(terms, start - form.offset, stop - form.offset, sets)
        if rows is None:
            return None
        products += rows
    return products


def _split_terms(
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
    positions = sets[index_var].clipped(
        -((greatest - start) // factor), (stop - 1 - least) // factor + 1
    )
    full = positions.clipped(-((least - start) // factor), (stop - 1 - greatest) // factor + 1)
    products = [_replace_set(sets, index_var, full)] if full else []
    for row in positions.without(full).elements():
        inner = _replace_set(sets, index_var, PositionSet(row, row + 1))
        inner_products = _split_terms(rest, start - row * factor, stop - row * factor, inner)
        if inner_products is None:
            return None
        products += inner_products
    return products


def _replace_set(
    sets: list[PositionSet], index_var: int, positions: PositionSet
) -> list[PositionSet]:
    return [positions if k == index_var else s for k, s in enumerate(sets)]
