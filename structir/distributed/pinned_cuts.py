"""Cuts that a caller fixes: by the name of a value, checked against its projection."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any

from structir.distributed.unit_costs import CostTable
from structir.distributed.unit_cuts import (
    AxisCut,
    CutOptions,
    ReductionCut,
    UnitCut,
    reducing_statement,
)
from structir.distributed.work_units import WorkUnit
from structir.errors import Diagnostic, StructInfoError, StructIRError


def pinned_cuts(requests: Mapping[str, Any], table: CostTable) -> dict[int, tuple[UnitCut, ...]]:
    """Returns the permitted cuts of the units that compute the named values.

    Raises StructIRError for unknown names, and StructInfoError for cuts that the projection of the
    value does not permit.
    """
    units = {unit.name: unit for unit in table.units}
    pinned: dict[int, tuple[UnitCut, ...]] = {}
    for name, request in requests.items():
        if name not in units:
            close = difflib.get_close_matches(name, list(units), 1)
            hint = f"did you mean `{close[0]}`?" if close else f"one of {', '.join(units)}"
            raise StructIRError(f"cuts: no value `{name}`; help: {hint}", code="E0916")
        unit = units[name]
        pinned[unit.index] = _permitted(unit, request, table)
    return pinned


def _permitted(unit: WorkUnit, request: Any, table: CostTable) -> tuple[UnitCut, ...]:
    mesh, options = table.mesh, table.options_of(unit.index)
    entries = list(request) if isinstance(request, Sequence) and not isinstance(request, str) else [
        request, *[None for _ in mesh.shape[1:]]
    ]
    if len(entries) != len(mesh.shape):
        raise StructIRError(
            f"cuts: expected {len(mesh.shape)} entries for `{unit.name}`, one per mesh axis, "
            f"found {len(entries)}",
            code="E0916",
        )
    loops = loop_names(unit)
    wanted = [_checked(unit, entry, options, loops) for entry in entries]
    permitted = [
        cut
        for cut in options.cuts(mesh)
        if all(_matches(part, entry, loops) for part, entry in zip(cut, wanted, strict=True))
    ]
    if not permitted:
        raise _refused(unit, f"the mesh {mesh.shape} splits an axis into more parts than its size",
                       "a smaller `mesh=`, or another axis for one of its axes")
    return tuple(permitted)


def loop_names(unit: WorkUnit) -> tuple[str, ...]:
    """Returns the names of the reduction loops of a unit."""
    statement = reducing_statement(unit)
    return () if statement is None else tuple([s.name for s in statement.reduce])


def _checked(unit: WorkUnit, entry: Any, options: CutOptions, loops: tuple[str, ...]) -> Any:
    """Returns an entry, with a negative axis counted from the end."""
    if entry is None:
        return None
    if isinstance(entry, str):
        if entry in loops:
            return entry
        available = ", ".join([f"`{name}`" for name in loops]) or "none"
        edit = f"`cuts={{\"{unit.name}\": {_first(options, loops)}}}`"
        raise _refused(unit, f"no reduction loop `{entry}`; available: {available}", edit)
    axis = entry + len(options.shape) if entry < 0 else entry
    reason = options.refusal(axis)
    if reason is not None:
        edit = f"`cuts={{\"{unit.name}\": {_first(options, loops)}}}`"
        raise _refused(unit, f"axis {entry}: {reason}", edit)
    return axis


def _first(options: CutOptions, loops: tuple[str, ...]) -> str:
    """Returns a cut that the projection permits, as an argument."""
    if options.axes:
        return str(options.axes[0])
    return f'"{loops[0]}"' if loops else "None"


def _matches(part: Any, entry: Any, loops: tuple[str, ...]) -> bool:
    match part:
        case AxisCut(axis):
            return bool(entry == axis and isinstance(entry, int))
        case ReductionCut(loop, _):
            return bool(entry == loops[loop])
    return entry is None


def _refused(unit: WorkUnit, reason: str, edit: str) -> StructInfoError:
    message = f"{unit.op}: cannot cut `{unit.name}`"
    return StructInfoError(
        Diagnostic(message, unit.span, label=reason, hint=edit, code="E0912")
    )
