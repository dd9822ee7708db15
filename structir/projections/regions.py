"""Computes required regions of operands and affected regions of results for one index spec."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import attrs

from structir.ir import dims
from structir.ir.dims import Dim
from structir.projections.boxes import NOTHING, Box, Region, region_of
from structir.projections.index_sets import ConcreteAccess, IterationPoints, LoopNest
from structir.projections.loop_nests import Sizes, loops_of
from structir.projections.position_sets import PositionSet, only
from structir.projections.scalar_expr import operands_of
from structir.projections.spec import IndexSpec, Read, Statement, Write
from structir.system.locks import cached_property


@attrs.frozen
class Link:
    """A read and a write of one statement whose value depends on it."""

    loops: LoopNest
    read: ConcreteAccess
    write: ConcreteAccess
    operand: int
    result: int

    @cached_property
    def is_elementwise(self) -> bool:
        """Whether every element of the result reads only the element at its own index."""
        pairs = list(zip(self.read.axes, self.write.axes, strict=False))
        return (
            len(self.read.axes) == len(self.write.axes)
            and not (self.loops.conditions or self.loops.out_of_bounds or self.write.coupled)
            and all(a.size == b.size and a.form == b.form is not None for a, b in pairs)
            and all(b.inside and (b.index_var is not None or b.size == 1) for _, b in pairs)
        )


@attrs.frozen(eq=False)
class Dependence:
    """The region dependencies of a spec at concrete sizes.

    Regions are supersets: elements outside are never read. Their bounds are the least ones if no
    read leaves its axis and no index is read from data.
    """

    operands: tuple[tuple[int, ...], ...]  # shapes
    results: tuple[tuple[int, ...], ...]
    links: tuple[Link, ...]
    overwritten: tuple[Box, ...] = ()  # parts of the first result that do not come from the base
    base: int | None = None

    @cached_property
    def elementwise_operands(self) -> dict[int, frozenset[int]]:
        """The operands of each result that depends on them elementwise only."""
        links_of: dict[int, list[Link]] = {}
        for link in self.links:
            links_of.setdefault(link.result, []).append(link)
        plain = {
            k: links for k, links in links_of.items() if all(link.is_elementwise for link in links)
        }
        sets = {k: frozenset([link.operand for link in links]) for k, links in plain.items()}
        return {} if self.base is not None else sets

    def narrowed(self, ranges: Mapping[int, PositionSet]) -> Dependence:
        """Returns the dependencies where numbered index variables only have some positions; for a
        spec of one statement."""
        links = []
        for link in self.links:
            full = [
                s.common(ranges[k]) if k in ranges else s for k, s in enumerate(link.loops.full)
            ]
            loops = attrs.evolve(link.loops, full=tuple(full))
            links.append(attrs.evolve(link, loops=loops))
        return attrs.evolve(self, links=tuple(links))

    def required_regions(self, region: Region, result: int = 0) -> tuple[Region, ...]:
        """Returns the region of each operand that a region of a result requires."""
        copied = self.elementwise_operands.get(result)
        if copied is not None:
            return tuple([region if k in copied else NOTHING for k in range(len(self.operands))])
        boxes_of: list[list[Box]] = [[] for _ in self.operands]
        for box in region.boxes:
            last_points: tuple[ConcreteAccess | None, list[IterationPoints]] = (None, [])
            for link in self.links:
                if link.result != result:
                    continue
                if link.write is not last_points[0]:  # the links of a write are consecutive
                    last_points = link.write, list(link.loops.points(link.write, box))
                _add_boxes(boxes_of[link.operand], last_points[1], link.read)
            if self.base is not None and result == 0:
                boxes_of[self.base] += self._base_required(box)
        return tuple([_union(boxes) for boxes in boxes_of])

    def affected_regions(self, region: Region, operand: int) -> tuple[Region, ...]:
        """Returns the region of each result that depends on a region of an operand."""
        boxes_of: list[list[Box]] = [[] for _ in self.results]
        for box in region.boxes:
            for link in self.links:
                if link.operand == operand:
                    _add_boxes(boxes_of[link.result], link.loops.points(link.read, box), link.write)
            if operand == self.base:
                boxes_of[0] += self._base_affected(box)
        return tuple([_union(boxes) for boxes in boxes_of])

    def _base_required(self, box: Box) -> list[Box]:
        """Returns the elements of the base operand that a box of the result contains."""
        remaining: Box | None = box
        for written in self.overwritten:
            remaining = remaining and remaining.without(written)
        if remaining is None or self.base is None:
            return []
        shape = self.operands[self.base]
        axes = remaining.axes[len(remaining.axes) - len(shape) :]
        return [
            Box(
                tuple([_broadcast_axis(a, n) for a, n in zip(axes, shape, strict=True)]),
                remaining.exact,
            )
        ]

    def _base_affected(self, box: Box) -> list[Box]:
        """Returns the elements of the result that come from a box of the base operand."""
        shape = self.results[0]
        leading = len(shape) - len(box.axes)
        axes = [PositionSet(0, n) for n in shape[:leading]]
        sizes = zip(box.axes, shape[leading:], self.operands[self.base or 0], strict=True)
        axes += [PositionSet(0, n) if n != size == 1 else a for a, n, size in sizes]
        remaining: Box | None = Box(tuple(axes), box.exact)
        for written in self.overwritten:
            remaining = remaining and remaining.without(written)
        return [remaining] if remaining is not None and all(axes) else []


def _broadcast_axis(axis: PositionSet, size: int) -> PositionSet:
    return only(0) if size == 1 else axis


def _add_boxes(boxes: list[Box], points: Iterable[IterationPoints], access: ConcreteAccess) -> None:
    for point_set in points:
        if access.coupled:
            boxes += point_set.boxes(access)
            continue
        box = point_set.box(access)
        if box is not None:
            boxes.append(box)


def _union(boxes: list[Box]) -> Region:
    if not boxes:
        return NOTHING
    return Region((boxes[0],)) if len(boxes) == 1 else region_of(boxes)


def dependence(spec: IndexSpec, sizes: Sizes | None = None) -> Dependence:
    """Returns the dependencies of a spec; `sizes` gives the values of symbolic dims."""
    sizes = sizes or {}
    links: list[Link] = []
    written: list[Box] = []
    for statement in spec.statements:
        loops = loops_of(statement, spec.extents, sizes)
        links += _links(statement, loops)
        if spec.base is not None:
            written += _overwritten(statement, loops)
    return Dependence(
        tuple([_shape(o.dims, sizes) for o in spec.operands]),
        tuple([_shape(r.dims, sizes) for r in spec.results]),
        tuple(links),
        tuple(written),
        spec.base,
    )


def _shape(shape: tuple[Dim, ...], sizes: Sizes) -> tuple[int, ...]:
    return tuple([d if isinstance(d, int) else dims.evaluate(d, dict(sizes)) for d in shape])


def _links(statement: Statement, loops: LoopNest) -> Iterator[Link]:
    for write, access in zip(statement.writes, loops.writes, strict=True):
        for read in required_reads(statement, write):
            yield Link(loops, loops.reads[read.name], access, read.operand, write.result)


def required_reads(statement: Statement, write: Write) -> tuple[Read, ...]:
    """Returns the reads that the value or the indices of a write depend on, transitively."""
    if write.value is None:
        return statement.reads
    reads_by_name = {read.name: read for read in statement.reads}
    names: set[str] = set()
    worklist = [write.value, *[e.data for e in write.entries if e.data is not None]]
    while worklist:
        for name in operands_of(worklist.pop()) - names:
            names.add(name)
            worklist += [e.data for e in reads_by_name[name].entries if e.data is not None]
    return tuple([read for read in statement.reads if read.name in names])


def operands_for_bounds(spec: IndexSpec) -> frozenset[int]:
    """Returns the operands whose values are unused, but whose sizes matter.

    They are read at indices that may be out of bounds, and a point exists only where all indices
    are in bounds.
    """
    used: set[int] = set()
    bounded: set[int] = set()
    for statement in spec.statements:
        for write in statement.writes:
            used.update([read.operand for read in required_reads(statement, write)])
        for read in statement.reads:
            if not all(entry.inside for entry in read.entries):
                bounded.add(read.operand)
    return frozenset(bounded - used)


def _overwritten(statement: Statement, loops: LoopNest) -> Iterator[Box]:
    """Yields the boxes of the first result that a statement certainly overwrites."""
    if statement.monoid is not None or not statement.total or not all(loops.full):
        return
    for write, access in zip(statement.writes, loops.writes, strict=True):
        box = IterationPoints(loops.full).box(access)
        if write.result == 0 and box is not None and box.exact:
            yield box
