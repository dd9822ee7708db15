"""Broadcasting of symbolic dims: sizes must be equal unless one of them is 1."""

from __future__ import annotations

from structir.ir import dims
from structir.ir.dims import Dim, Poly
from structir.ir.polynomial import Opaque

MOST = 8  # sizes that one join may be made of; a longer one adds no constraint worth its text


def may_be_one(size: Dim) -> bool:
    """Returns whether a size can be 1."""
    return dims.equal(size, 1) is not False


def either_size(left: Dim, right: Dim) -> Dim | None:
    """Returns the broadcast of two sizes that are not known to be equal or 1.

    It is a size that cannot be 1, if there is one. Otherwise it is the maximum, or 0 if any is 0:
    `T.max(n, m) * T.min(n, m, 1)`. None where too many sizes are joined.
    """
    fixed = [size for size in (left, right) if not may_be_one(size)]
    known = [size for size in fixed if isinstance(size, int)]
    if fixed:
        return (known or fixed)[0]
    parts = members(left) | members(right)
    return join_sizes(parts) if len(parts) <= MOST else None


def join_sizes(sizes: frozenset[Dim]) -> Dim:
    """Returns the size that is not 1, among sizes of which all others are 1 or equal to it."""
    return dims.dim_max(*sizes) * dims.dim_min(*sizes, 1)


def covers(whole: Dim, part: Dim) -> bool:
    """Returns whether `whole` already includes every member of `part`."""
    return members(part) <= members(whole)


def members(size: Dim) -> frozenset[Dim]:
    """Returns the sizes joined by a broadcast, or the size itself."""
    if type(size) is Poly and len(size.terms) == 1:
        ((monomial, _),) = size.terms.items()
        atoms = {atom.fn: atom for atom in monomial if isinstance(atom, Opaque)}
        if len(monomial) == 2 and atoms.keys() == {"max", "min"}:
            parts = frozenset(atoms["max"].args)
            if join_sizes(parts) == size:
                return parts
    return frozenset({size})
