"""Groups the units of a program into pipeline stages of about equal cost."""

from __future__ import annotations

from itertools import accumulate

from structir.distributed.unit_costs import CostTable
from structir.distributed.unit_cuts import UnitCut
from structir.distributed.work_units import Key
from structir.projections.axis_kinds import PARALLEL

WINDOW = 0.25  # of a stage: how far a boundary may be from equal costs


def pipeline_stages(table: CostTable, count: int) -> tuple[int, ...] | None:
    """Returns the stage of each unit; None where there are fewer units than stages.

    A boundary is where the fewest bytes are live, near the point that divides the operations
    equally.
    """
    units = table.units
    if len(units) < count:
        return None
    none: UnitCut = (None,) * len(table.mesh.shape)
    totals = list(accumulate([table.cost(u.index, none).operations + 1 for u in units]))
    live = _live_bytes(table)
    boundaries: list[int] = []
    for stage in range(1, count):
        target = totals[-1] * stage / count
        reach = totals[-1] * WINDOW / count
        first = boundaries[-1] + 1 if boundaries else 1
        last = len(units) - (count - stage)
        places = range(first, last + 1)
        near = [k for k in places if abs(totals[k - 1] - target) <= reach]
        nearest = min(places, key=lambda k: abs(totals[k - 1] - target))
        boundaries.append(
            min(near or [nearest], key=lambda k: (live[k], abs(totals[k - 1] - target)))
        )
    return tuple([sum(k <= unit.index for k in boundaries) for unit in units])


def _live_bytes(table: CostTable) -> list[int]:
    """Returns the bytes of the values that are live before each unit."""
    last_use: dict[Key, int] = {k: u.index for u in table.units for k in u.inputs}
    live = [0] * (len(table.units) + 1)
    for unit in table.units:
        for key in unit.outputs:
            for index in range(unit.index + 1, last_use.get(key, unit.index) + 1):
                live[index] += table.value_bytes(key)
    return live


def micro_batch_counts(kinds: tuple[str, ...], shape: tuple[int, ...], stages: int) -> list[int]:
    """Returns the numbers of micro-batches to consider: the first axis of the result is split."""
    if stages == 1 or not shape or kinds[0] != PARALLEL:
        return [1]
    counts = {min(stages * factor, shape[0]) for factor in (1, 2, 4, 8)}
    return sorted({1, *[c for c in counts if c > 0]})
