"""The recipe of reductions along slow axes."""

from __future__ import annotations

from structir.ir.kernel import Assign, For, Local
from structir.loops.handle import KernelHandle, TargetInfo, recipe
from structir.loops.recipe_steps import (
    collapse_loops,
    fuse_loops,
    inline_arrays,
    innermost_loops,
    reassociate_sums,
    replace_divisions,
    run_in_parts,
    shrink_arrays,
)


@recipe
def columns(
    kernel: KernelHandle, target: TargetInfo, recompute_below: float = 4.0, block: int = 4096
) -> None:
    """Keeps the totals of up to `block` neighbouring columns, and adds one line of terms after
    another, so that memory is read in order; parallelises over blocks or outer loops.

    Intermediate values that cost less than `recompute_below` additions are recomputed at each use.
    """
    reassociate_sums(kernel)
    inline_arrays(kernel, recompute_below)
    fuse_loops(kernel)
    shrink_arrays(kernel)
    collapse_loops(kernel)
    for terms in innermost_loops(kernel.tree):
        if terms in kernel.loops():
            _reduce_lines(kernel, terms, block)
    replace_divisions(kernel, kernel.loops()[1:])
    run_in_parts(kernel)


def _reduce_lines(kernel: KernelHandle, terms: str, block: int) -> None:
    """Exchanges the loop over the terms of a column with the loop over columns around it."""
    around = [s for s in kernel.tree.ancestors[kernel.tree.loop(terms)] if isinstance(s, For)]
    if not around:
        return
    columns, count = around[-1].variable.name, len(kernel.steps)
    if len(around) == 1:
        kernel.attempt("split", columns, block)
    if not (_expand_totals(kernel, columns) and _exchange(kernel, columns, terms)):
        kernel.undo(len(kernel.steps) - count)


def _expand_totals(kernel: KernelHandle, columns: str) -> bool:
    """Gives each column its own totals."""
    body = kernel.tree.loop(columns).body
    totals = [s.target.name for s in body if isinstance(s, Assign) and isinstance(s.target, Local)]
    return bool(totals) and all([kernel.attempt("expand", total, columns) for total in totals])


def _exchange(kernel: KernelHandle, columns: str, terms: str) -> bool:
    """Isolates the loop over terms in a loop over columns, and exchanges both."""
    body = kernel.tree.loop(columns).body
    at = next(k for k, s in enumerate(body) if isinstance(s, For) and s.variable.name == terms)
    if at > 0:
        known = {*kernel.loops()}
        if not kernel.attempt("fission", columns, at):
            return False
        columns = next(name for name in kernel.loops() if name not in known)
    if len(kernel.tree.loop(columns).body) > 1 and not kernel.attempt("fission", columns, 1):
        return False
    return kernel.attempt("reorder", terms, columns)
