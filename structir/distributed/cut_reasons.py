"""Explains a cut by the projections: which part of each operand the workers require."""

from __future__ import annotations

from structir.distributed.layouts import intersection
from structir.distributed.unit_costs import CostTable, WorkerCost
from structir.distributed.unit_cuts import UnitCut, is_partial
from structir.distributed.work_units import key_name
from structir.projections.boxes import Bounds


def reason(table: CostTable, index: int, cut: UnitCut) -> str:
    """Returns why a cut needs the transfers that it needs."""
    unit, options = table.units[index], table.options_of(index)
    if not any(cut):
        if not options.axes and not options.loops:
            refusals = [options.refusal(axis) for axis in range(len(options.shape))]
            known = [r for r in dict.fromkeys(refusals) if r]
            return "cannot be cut: " + ("; ".join(known) or "it is a scalar")
        return "every worker computes all of it: cheaper than to send its parts"
    workers = table.cost(index, cut).workers
    kinds: dict[str, list[str]] = {}
    for which, key in enumerate(unit.inputs):
        kinds.setdefault(_sharing(workers, which), []).append(key_name(key))
    parts = [f"{', '.join(names)} {kind}" for kind, names in kinds.items()]
    if is_partial(cut):
        size = table.cost(index, cut).reduced_total
        parts.append(f"one reduction of {size:,} bytes")
    return "; ".join(parts)


def _sharing(workers: tuple[WorkerCost, ...], which: int) -> str:
    """Returns which part of an operand the workers require, compared with one another."""
    blocks = [need for w in workers if (need := w.needs[which]) is not None]
    if len(set(blocks)) <= 1:
        return "whole"
    return "overlapping" if _overlap(list(dict.fromkeys(blocks))) else "disjoint"


def _overlap(blocks: list[Bounds]) -> bool:
    return any(
        intersection(first, second) is not None
        for number, first in enumerate(blocks)
        for second in blocks[:number]
    )
