"""The recipe of row reductions."""

from __future__ import annotations

from structir.loops.handle import KernelHandle, TargetInfo, recipe
from structir.loops.recipe_steps import (
    collapse_loops,
    collapse_rows,
    fuse_loops,
    inline_arrays,
    reassociate_sums,
    replace_divisions,
    run_in_parts,
    shrink_arrays,
)


@recipe
def rows(kernel: KernelHandle, target: TargetInfo, recompute_below: float = 4.0) -> None:
    """Fuses the loops over each row and parallelises over rows; sums may be reordered.

    Intermediate values that cost less than `recompute_below` additions are recomputed at each use;
    others are stored per row. Divisions by a scalar of the row become products with its reciprocal.
    """
    reassociate_sums(kernel)
    inline_arrays(kernel, recompute_below)
    fuse_loops(kernel)
    shrink_arrays(kernel)
    collapse_loops(kernel)
    collapse_rows(kernel)
    replace_divisions(kernel, kernel.loops()[1:])
    run_in_parts(kernel)
