"""The recipe of products with loops over rows between them."""

from __future__ import annotations

from structir.loops.handle import KernelHandle, TargetInfo, recipe
from structir.loops.recipe_steps import (
    collapse_loops,
    fuse_loops,
    inline_arrays,
    innermost_loops,
    reassociate_sums,
    replace_divisions,
    shrink_arrays,
    value_cost,
)


@recipe
def blocks(kernel: KernelHandle, target: TargetInfo, recompute_below: float = 4.0) -> None:
    """Fuses the loops over each row of a block between products; sums may be reordered.

    Intermediate values that cost less than `recompute_below` additions are recomputed at each use;
    others are stored per row. Divisions by a scalar of the row become products with its reciprocal.
    """
    reassociate_sums(kernel)
    inline_arrays(kernel, recompute_below, value_cost)
    fuse_loops(kernel)
    shrink_arrays(kernel)
    collapse_loops(kernel)
    replace_divisions(kernel, innermost_loops(kernel.tree))
