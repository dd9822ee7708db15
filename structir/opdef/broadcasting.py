"""Broadcasting of symbolic dims: sizes must be equal unless one of them is 1."""

from __future__ import annotations

from structir.ir import dims
from structir.ir.dims import Dim, Poly
from structir.ir.polynomial import Opaque

MAX_JOINED = 8  # sizes of one broadcast; the dim of a larger broadcast is unknown


def may_be_one(size: Dim) -> bool:
    """Returns whether a size can be 1."""
    return dims.equal(size, 1) is not False


def broadcast_size(lhs: Dim, rhs: Dim) -> Dim | None:
    """Returns the broadcast of two sizes that are not known to be equal or 1.

    The result is a size that cannot be 1, if there is one. Otherwise it is the joined size:
    `T.max(n, m) * T.min(n, m, 1)`. None for more than `MAX_JOINED` sizes.
    """
    never_one = [size for size in (lhs, rhs) if not may_be_one(size)]
    literals = [size for size in never_one if isinstance(size, int)]
    if never_one:
        return (literals or never_one)[0]
    sizes = members(lhs) | members(rhs)
    return join_sizes(sizes) if len(sizes) <= MAX_JOINED else None


def join_sizes(sizes: frozenset[Dim]) -> Dim:
    """Returns the broadcast of sizes: the maximum, or 0 if one of them is 0."""
    return dims.dim_max(*sizes) * dims.dim_min(*sizes, 1)


def covers(joined: Dim, size: Dim) -> bool:
    """Returns whether a broadcast includes every member of another size."""
    return members(size) <= members(joined)


def members(size: Dim) -> frozenset[Dim]:
    """Returns the sizes joined by a broadcast, or the size itself."""
    if type(size) is Poly and len(size.terms) == 1:
        ((monomial, _),) = size.terms.items()
        atoms = {atom.fn: atom for atom in monomial if isinstance(atom, Opaque)}
        if len(monomial) == 2 and atoms.keys() == {"max", "min"}:
            sizes = frozenset(atoms["max"].args)
            if join_sizes(sizes) == size:
                return sizes
    return frozenset({size})
