"""Required regions for symbolic sizes: boxes whose corners are dims.

They hold for every size and are a superset where an index is not affine. With concrete sizes,
`regions` is more precise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs

from structir.ir import dims
from structir.ir.dims import Dim, Sym
from structir.projections.maps import Corner, projection
from structir.projections.regions import required_reads
from structir.projections.spec import AccessIndex, IndexSpec, Statement, Write, affine


@attrs.frozen
class DimBox:
    """The elements from `start` to `stop` exclusive; empty if a stop does not exceed its start."""

    start: Corner
    stop: Corner

    def around(self, other: DimBox) -> DimBox:
        """Returns the bounding box of both."""
        return DimBox(
            tuple([dims.dim_min(a, b) for a, b in zip(self.start, other.start, strict=True)]),
            tuple([dims.dim_max(a, b) for a, b in zip(self.stop, other.stop, strict=True)]),
        )

    def at(self, sizes: Mapping[Sym, int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Returns the corners at concrete sizes."""
        corners = [
            tuple([d if isinstance(d, int) else dims.evaluate(d, dict(sizes)) for d in corner])
            for corner in (self.start, self.stop)
        ]
        return corners[0], corners[1]


def whole_box(shape: Sequence[Dim]) -> DimBox:
    """Returns the box of a whole tensor."""
    return DimBox((0,) * len(shape), tuple(shape))


def required_boxes(spec: IndexSpec, box: DimBox, result: int = 0) -> tuple[DimBox | None, ...]:
    """Returns the box of each operand that a box of a result requires; None if it is not read."""
    boxes: list[DimBox | None] = [None] * len(spec.operands)
    for statement in spec.statements:
        for write in statement.writes:
            if write.result != result:
                continue
            ranges = _ranges(spec, statement, write, box)
            for read in required_reads(statement, write):
                box_read = _box_of_access(read.entries, ranges, spec.extents)
                previous = boxes[read.operand]
                boxes[read.operand] = box_read if previous is None else previous.around(box_read)
    if spec.base is not None and result == 0:
        base = whole_box(spec.operands[spec.base].dims)
        is_copy = spec.operands[spec.base].dims == spec.results[0].dims
        boxes[spec.base] = box if is_copy else base
    return tuple(boxes)


Range = tuple[Dim, Dim]


def _ranges(spec: IndexSpec, statement: Statement, write: Write, box: DimBox) -> dict[Sym, Range]:
    """Returns the range of each index variable at which a write is in a box."""
    ranges: dict[Sym, Range] = {s: (0, n) for s, n in spec.extents.items()}
    for entry, start, stop in zip(write.entries, box.start, box.stop, strict=True):
        if entry.whole or entry.data is not None:
            continue
        form = affine(entry.dim, (*statement.parallel, *statement.reduce))
        if form is None or len(form[0]) != 1:
            continue
        ((index_var, factor),) = form[0].items()
        if factor not in (1, -1):
            continue
        near, far = (start - form[1], stop - form[1])
        if factor == -1:
            near, far = 1 - far, 1 - near
        low, high = ranges[index_var]
        ranges[index_var] = dims.dim_max(low, near), dims.dim_min(high, far)
    return ranges


def _box_of_access(
    entries: Sequence[AccessIndex], ranges: Mapping[Sym, Range], extents: Mapping[Sym, Dim]
) -> DimBox:
    """Returns the box that an access reads for ranges of index variables, clipped to its tensor."""
    index_vars = tuple(ranges)
    access = projection(entries, index_vars, extents)
    corners = access.box([ranges[s][0] for s in index_vars], [ranges[s][1] for s in index_vars])
    sizes = [entry.size for entry in entries]
    if corners is None:
        return whole_box(sizes)
    starts, stops = list(corners[0]), list(corners[1])
    for k, entry in enumerate(entries):
        if not entry.inside:
            starts[k] = dims.dim_max(starts[k], 0)
            stops[k] = dims.dim_min(stops[k], sizes[k])
    return DimBox(tuple(starts), tuple(stops))
