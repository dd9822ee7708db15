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
    return {
        unit.index: _permitted(unit, request, table)
        for name, request in requests.items()
        for unit in units_named(table.units, name)
    }


def units_named(units: Sequence[WorkUnit], name: str) -> list[WorkUnit]:
    """Returns the units that compute the values of a name: several where a function with it is
    called several times."""
    named = [unit for unit in units if unit.name == name]
    if not named:
        names = list(dict.fromkeys([unit.name for unit in units]))
        close = difflib.get_close_matches(name, names, 1)
        hint = f"did you mean `{close[0]}`?" if close else f"one of {', '.join(names)}"
        raise StructIRError(f"cuts: no value `{name}`; help: {hint}", code="E0916")
    return named


def _permitted(unit: WorkUnit, request: Any, table: CostTable) -> tuple[UnitCut, ...]:
    mesh, options, loops = table.mesh, table.options_of(unit.index), loop_names(unit)
    if isinstance(request, Sequence) and not isinstance(request, str):
        if len(request) != len(mesh.shape):
            raise StructIRError(
                f"cuts: expected {len(mesh.shape)} entries for `{unit.name}`, one for each mesh "
                f"axis, found {len(request)}",
                code="E0916",
            )
        wanted = [_checked(unit, entry, options, loops) for entry in request]
        permitted = [
            cut
            for cut in options.cuts(mesh)
            if all(_matches(part, entry, loops) for part, entry in zip(cut, wanted, strict=True))
        ]
    else:
        entry = _checked(unit, request, options, loops)
        permitted = [cut for cut in options.cuts(mesh) if _cuts_only(cut, entry, loops)]
    if not permitted:
        text = " x ".join(map(str, mesh.shape))
        reason = f"the mesh {text} splits it into more parts than its size"
        raise _refused(unit, reason, "a smaller `mesh=`, or a cut along fewer mesh axes")
    return tuple(permitted)


def _cuts_only(cut: UnitCut, entry: Any, loops: tuple[str, ...]) -> bool:
    """Whether all mesh axes that cut a unit cut it along one axis or loop."""
    parts = [part for part in cut if part is not None]
    return bool(parts) == (entry is not None) and all(_matches(p, entry, loops) for p in parts)


def loop_names(unit: WorkUnit) -> tuple[str, ...]:
    """Returns the names of the reduction loops of a unit."""
    statement = reducing_statement(unit)
    return () if statement is None else tuple([s.name for s in statement.reduce])


def cut_text(unit: WorkUnit, cut: UnitCut) -> str:
    """Returns a cut as text: `axis 1`, `loop k`, or `none`, for each mesh axis."""
    loops = loop_names(unit)
    parts = []
    for part in cut:
        if isinstance(part, AxisCut):
            parts.append(f"axis {part.axis}")
        else:
            parts.append("none" if part is None else f"loop {loops[part.loop]}")
    return " x ".join(parts)


def _checked(unit: WorkUnit, entry: Any, options: CutOptions, loops: tuple[str, ...]) -> Any:
    """Returns an entry, with a negative axis counted from the end."""
    if entry is None:
        return None
    if isinstance(entry, str):
        if entry in loops:
            return entry
        available = ", ".join([f"`{name}`" for name in loops]) or "none"
        edit = f'`cuts={{"{unit.name}": {_first(options, loops)}}}`'
        raise _refused(unit, f"no reduction loop `{entry}`; available: {available}", edit)
    axis = entry + len(options.shape) if entry < 0 else entry
    reason = options.refusal(axis)
    if reason is not None:
        edit = f'`cuts={{"{unit.name}": {_first(options, loops)}}}`'
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
    return StructInfoError(Diagnostic(message, unit.span, label=reason, hint=edit, code="E0912"))
