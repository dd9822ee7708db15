"""The recipe of kernels that reduce along rows."""

from __future__ import annotations

from structir.loops.fusion import (
    collapse_loops,
    collapse_rows,
    fuse_loops,
    inline_arrays,
    reassociate_sums,
    replace_divisions,
    run_in_parts,
    shrink_arrays,
)
from structir.loops.handle import KernelHandle
from structir.loops.recipe import TargetInfo, recipe


@recipe
def rows(kernel: KernelHandle, target: TargetInfo, recompute_below: float = 4.0) -> None:
    """Computes one row after another, in parts: sums in any order, in as few loops as possible.

    A value inside of the kernel that costs less than `recompute_below` additions is computed where
    it is read; others are kept in a row. Divisions by a number of the row become products.
    """
    reassociate_sums(kernel)
    inline_arrays(kernel, recompute_below)
    fuse_loops(kernel)
    shrink_arrays(kernel)
    collapse_loops(kernel)
    collapse_rows(kernel)
    replace_divisions(kernel, kernel.loops()[1:])
    run_in_parts(kernel)
