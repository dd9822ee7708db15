"""Copies with a border that are computed plane by plane, each right before the rows that read it: a
plane stays in cache, where a copy of all planes would go through memory."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import attrs

from structir.backend.loops.buffer import Buffer
from structir.backend.loops.expression import Entry, Expression
from structir.backend.loops.group import Group
from structir.backend.loops.padding import PaddingSchedule
from structir.backend.loops.rows import RowSchedule, extents_of
from structir.backend.loops.stage import LoopProgram, Stage
from structir.backend.loops.window_sums import sum_of_windows, window_sum_lines
from structir.backend.loops.writer import BlockPlace, KernelText, Writer, indented, loops
from structir.ir import dims
from structir.ir.dims import Dim, Sym

KINDS = frozenset({"padding", "windows"})
LARGEST = 1 << 16  # elements of a plane
FEWEST = 8  # planes, which threads share


def with_planes(program: LoopProgram, groups: Sequence[Group]) -> list[Group]:
    """Returns the groups, with copies fused into the only rows that read them."""
    results, joined = {b.root for b in program.outputs}, list[Group]()
    copies: dict[Buffer, Group] = {}
    readers: dict[Buffer, int] = {}
    leads: dict[int, tuple[Sym, ...]] = {}  # by reader: all of its copies share these axes
    for group in groups:
        for root in {r.buffer.root for s in group.stages for r in s.loads}:
            readers[root] = readers.get(root, 0) + 1
    for group in groups:
        copy = group.stages[0].out
        alone = group.kind in KINDS and readers.get(copy) == 1 and copy not in results
        reader = _row_group_of(groups, copy) if alone else None
        lead = _lead(group.stages[0], reader) if reader is not None else ()
        if reader is not None and lead and leads.setdefault(id(reader), lead) == lead:
            copies[copy] = group
            continue
        buffers = dict.fromkeys(r.buffer for s in group.stages for r in s.loads)
        joined.append(_together([copies[b] for b in buffers if b in copies], group))
    return joined


def _row_group_of(groups: Sequence[Group], out: Buffer) -> Group | None:
    """Returns the group that reads a copy, if it is over rows."""
    reader = next(g for g in groups if any(r.buffer.root is out for s in g.stages for r in s.loads))
    return reader if reader.kind == "rows" else None


def _lead(copy: Stage, reader: Group) -> tuple[Sym, ...]:
    """Returns the row axes that select the plane of a copy; none if splitting planes is not
    worthwhile."""
    shared = _shared(copy, reader)
    return reader.rows[: reader.rows.index(shared[-1][1]) + 1] if shared else ()


def _together(copies: Sequence[Group], reader: Group) -> Group:
    """Returns a group of copies, which are its first stages, and their reader."""
    if not copies:
        return reader
    stages = (*[stage for copy in copies for stage in copy.stages], *reader.stages)
    return attrs.evolve(reader, kind="planes", stages=stages)


def _shared(copy: Stage, reader: Group) -> list[tuple[Sym, Sym]]:
    """Returns the leading axes of a copy, with the row axes at their position in every read; none
    if splitting planes is not worthwhile."""
    reads = [r for s in reader.stages for r in s.loads if r.buffer.root is copy.out]
    if any(r.buffer is not copy.out for r in reads) or len({r.buffer for r in reads}) > 1:
        return []
    windows, found = sum_of_windows(copy), list[tuple[Sym, Sym]]()
    # The rows of a plane of sums are one loop, possibly without a row axis inside.
    rows = _row_axes(reader)[:-1] if windows is None else reader.rows
    extents = extents_of(reader)
    entries = list(zip(copy.write, *[r.entries for r in reads], strict=True))
    for row in rows:
        if extents[row] == 1:
            continue
        while entries and _is_first(entries[0]):
            entries.pop(0)
        own = [_axis(e) for e in entries.pop(0)] if entries else []
        if not own or own[0] is None or any(axis is not row for axis in own[1:]):
            break
        if windows is not None and own[0] not in windows.outer:
            break
        found.append((own[0], row))
    shared = [row for _, row in found]
    plane = prod(copy.extents[axis] for axis in copy.parallel if axis not in dict(found))
    count = prod(extents[row] for row in shared)
    if windows is not None and len(found) < len(windows.outer):
        return []
    small = isinstance(plane, int) and plane <= LARGEST
    return found if small and not (isinstance(count, int) and count < FEWEST) else []


def _is_first(entries: tuple[Entry, ...]) -> bool:
    """Whether all indices are the only one of an axis of size 1."""
    return all(not isinstance(e, Expression) and e == 0 for e in entries)


def _axis(entry: Entry) -> Sym | None:
    return None if isinstance(entry, Expression) else dims.as_sym(entry)


def _row_axes(group: Group) -> tuple[Sym, ...]:
    """Returns the row axes, without the last one, which is a loop if all stages are maps over
    it."""
    flat = all(not s.reduce and s.parallel == group.rows for s in group.stages)
    return group.rows[:-1] if flat else group.rows


def plane_kernel(group: Group) -> KernelText:
    """Returns the source of rows with the copies that they read."""
    return PlaneSchedule(group).text()


class PlaneSchedule:
    """Writes the kernel of copies and their readers."""

    def __init__(self, group: Group) -> None:
        # Rows have neither guards with a fill value nor windows, so these are the copies.
        self.copies = [s for s in group.stages if s.otherwise is not None or sum_of_windows(s)]
        reader = attrs.evolve(group, kind="rows", stages=group.stages[len(self.copies) :])
        self.origins = group.origins
        self.extents = extents_of(group)
        self.lead = _lead(self.copies[0], reader)
        sums = any(sum_of_windows(copy) for copy in self.copies)
        self.reader = attrs.evolve(reader, rows=self.lead if sums else _row_axes(reader))
        axes = dict.fromkeys(axis for s in group.stages for axis in s.axes)
        self.writer = Writer(axes, self.reader.rows)
        names = self.writer.names
        names.update({axis: f"g{k}" for k, axis in enumerate(self.lead)})
        within = self.reader.rows[len(self.lead) :]
        names.update({axis: f"r{k}" for k, axis in enumerate(within)})
        for copy in self.copies:
            self._place(copy, dict(_shared(copy, reader)))

    def _place(self, copy: Stage, shared: dict[Sym, Sym]) -> None:
        """Names the axes of a copy, and adds the scratch memory of one plane."""
        names, out = self.writer.names, copy.out
        own = [axis for axis in copy.parallel if axis not in shared]
        names.update({axis: f"i{k}" for k, axis in enumerate(own)})
        names.update({axis: names[row] for axis, row in shared.items()})
        inner = [k for k, e in enumerate(copy.write) if _axis(e) not in shared]
        shape: tuple[Dim, ...] = (1, *[out.shape[k] for k in inner])
        place = Buffer(shape, out.dtype, "scratch")
        self.writer.scratch.append(place)
        self.writer.moved[out] = BlockPlace(place, 0, tuple(inner))
        self.writer.local.add(out)

    def text(self) -> KernelText:
        """Returns the text of the kernel; the range is the planes."""
        writer = self.writer
        groups: list[tuple[Sym, ...]] = [(axis,) for axis in self.lead]
        sizes = [writer.size(self.extents[axis]) for axis in self.lead]
        within = self.reader.rows[len(self.lead) :]
        lines = writer.decoded(groups, sizes, "g")
        around = {writer.names[axis] or "" for axis in self.lead}
        for copy in self.copies:
            if sum_of_windows(copy) is not None:
                lines += window_sum_lines(copy, writer)
            else:
                lines += PaddingSchedule(copy, writer).plane(around)
        rows = RowSchedule(self.reader, writer).row_lines()
        names = [writer.names[axis] or "" for axis in within]
        lines += loops(names, [writer.size(self.extents[axis]) for axis in within], rows)
        whole = prod(self.extents[axis] for axis in self.lead)
        return writer.finish(["for g in range(lo, hi):", *indented(lines)], whole, self.origins)
