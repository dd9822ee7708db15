"""Sizes that torch records under its assumption that a dynamic size is at least 2.

torch records 2 as the size of `x[:2]`, and accepts inputs of length 1 nevertheless: its slices are
clamped. Such a result keeps its inferred size `min(2, n)`. Nodes whose mapping reads recorded
sizes require them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from structir.ir import dims
from structir.ir.dims import Dim

UNENFORCED_LOWER_BOUND = 2  # torch records it for every dynamic size; it enforces higher ones
LowerBounds = Mapping[Dim, int | None]


def are_clamped(
    recorded: Sequence[Dim], inferred: Sequence[Dim], lower_bounds: LowerBounds
) -> bool:
    """Returns whether sizes are equal within the recorded bounds, but not for every accepted size:
    torch accepts 1 where it records the lower bound 2."""
    pairs = [pair for pair in zip(recorded, inferred, strict=True) if not _equal_above(*pair, {})]
    if not pairs:
        return False
    bounds = {size: max(low or 0, 1) for size, low in lower_bounds.items()}
    accepted = {s: low if low > UNENFORCED_LOWER_BOUND else 1 for s, low in bounds.items()}
    is_always_equal = all([_equal_above(*pair, accepted) for pair in pairs])
    return not is_always_equal and all([_equal_above(*pair, bounds) for pair in pairs])


def _equal_above(a: Dim, b: Dim, bounds: Mapping[Dim, int]) -> bool:
    """Returns whether two sizes are equal for all values from the lower bounds on."""
    pairs = [(dims.as_sym(size), size + low) for size, low in bounds.items()]
    shifted = {symbol: size for symbol, size in pairs if symbol is not None}
    return dims.equal(dims.substitute(a, shifted), dims.substitute(b, shifted)) is True
