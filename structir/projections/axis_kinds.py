"""What may be done to the axes of a result: cut anywhere, cut in order, or not cut."""

from __future__ import annotations

from collections.abc import Iterator

from structir.projections.spec import AccessIndex, IndexSpec, Statement, scan_of

PARALLEL, SCAN, WHOLE = "parallel", "scan", "whole"


def axis_kinds(spec: IndexSpec, result: int = 0) -> tuple[str, ...]:
    """The kind of each axis of a result.

    Along a `parallel` axis parts are made independently of each other, though they may read the
    same; along a `scan` each part needs what the ones before it read; a `whole` axis is made at
    once, or at places that are read from data.
    """
    rank = len(spec.results[result].dims)
    kinds = [PARALLEL] * rank
    for statement in spec.statements:
        for write in statement.writes:
            if write.result == result:
                for axis, entry in enumerate(write.entries):
                    kinds[axis] = max(kinds[axis], _kind(spec, statement, entry), key=ORDER.index)
    return tuple(kinds)


ORDER = (PARALLEL, SCAN, WHOLE)  # the stricter one counts


def _kind(spec: IndexSpec, statement: Statement, entry: AccessIndex) -> str:
    if entry.whole or entry.data is not None or not entry.index_vars.isdisjoint(statement.whole):
        return WHOLE
    return (
        SCAN
        if any(target in entry.index_vars for target in _targets(spec, statement))
        else PARALLEL
    )


def _targets(spec: IndexSpec, statement: Statement) -> Iterator[object]:
    scan = scan_of(spec, statement)
    if scan is not None:
        yield scan.target
