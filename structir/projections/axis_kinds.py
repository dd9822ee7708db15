"""Classifies result axes by how they may be split: independently, in order, or not at all."""

from __future__ import annotations

from collections.abc import Iterator

from structir.projections.spec import AccessIndex, IndexSpec, Statement, scan_of

PARALLEL, SCAN, WHOLE = "parallel", "scan", "whole"


def axis_kinds(spec: IndexSpec, result: int = 0) -> tuple[str, ...]:
    """Returns the kind of each axis of a result.

    Blocks along a `parallel` axis are computed independently, but may read the same elements. Along
    a `scan` axis each block also reads the inputs of the preceding ones. A `whole` axis cannot be
    split: it is computed at once, or written at indices read from data.
    """
    rank = len(spec.results[result].dims)
    kinds = [PARALLEL] * rank
    for statement in spec.statements:
        for write in statement.writes:
            if write.result == result:
                for axis, entry in enumerate(write.entries):
                    kinds[axis] = max(kinds[axis], _kind(spec, statement, entry), key=ORDER.index)
    return tuple(kinds)


ORDER = (PARALLEL, SCAN, WHOLE)  # from the most to the least splittable


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
