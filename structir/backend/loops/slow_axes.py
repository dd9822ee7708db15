"""Reductions along slow axes, whose result keeps the contiguous axis of the operand."""

from __future__ import annotations

from structir.backend.loops.access import Address, address_of
from structir.backend.loops.stage import Stage
from structir.ir.dims import Sym


def reduces_slow_axes(stage: Stage) -> bool:
    """Whether a reduction is along slow axes: some parallel axis is contiguous.

    A reduced axis may be contiguous in reads that are constant along the last parallel axis, such
    as `x[i, k]` in `sum over k of x[i, k] * w[k, j]`.
    """
    if not stage.reduce:
        return False
    addresses = [address_of(r.buffer, r.entries, stage.axes) for r in stage.loads]
    reduced = set(stage.reduce)
    along_reduced = [a for a in addresses if _fast_axes(a) & reduced]
    fast = {axis for a in addresses for axis in _fast_axes(a)} & set(stage.parallel)
    if not along_reduced:
        return bool(fast)
    last = stage.parallel[-1] if stage.parallel else None
    return last in fast and not any(
        last in a.coefficients or a.data or last in a.pinned(stage.axes) for a in along_reduced
    )


def _fast_axes(address: Address) -> set[Sym]:
    return {axis for axis, step in address.coefficients.items() if step == 1}
