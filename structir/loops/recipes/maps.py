"""The recipe of elementwise kernels."""

from __future__ import annotations

from structir.loops.handle import KernelHandle, TargetInfo, recipe
from structir.loops.recipe_steps import (
    collapse_loops,
    collapse_rows,
    fuse_loops,
    inline_arrays,
    replace_divisions,
    run_in_parts,
    shrink_arrays,
)


@recipe
def maps(kernel: KernelHandle, target: TargetInfo, recompute_below: float = 4.0) -> None:
    """Fuses and collapses all loops where accesses permit, and parallelises the result.

    Intermediate values that cost less than `recompute_below` additions are recomputed at each use.
    """
    inline_arrays(kernel, recompute_below)
    fuse_loops(kernel)
    shrink_arrays(kernel)
    collapse_loops(kernel)
    collapse_rows(kernel)
    replace_divisions(kernel, kernel.loops()[1:])
    run_in_parts(kernel)
    replace_divisions(kernel, kernel.loops()[:1])
