"""Copies with a border that are computed plane by plane, each right before the rows that read it: a
plane stays in cache, where a copy of all planes would go through memory."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import attrs

from structir.ir import dims
from structir.ir.dims import Sym
from structir.ir.expr import Var
from structir.ir.kernel import Element, KernelStatement, LoopVariable, Scratch
from structir.ir.struct_info import TensorStructInfo
from structir.loops.fusion.group import COPIES, Group
from structir.loops.fusion.simplify import with_inlined_values
from structir.loops.kernel.as_kernel import ShownKernel
from structir.loops.kernel.by_recipe import scheduled_by_recipe
from structir.loops.kernel.padding import BorderWriter
from structir.loops.kernel.window_nodes import window_call
from structir.loops.program.buffer import Buffer
from structir.loops.program.expression import Entry, Expression
from structir.loops.program.stage import LoopProgram, Stage, extents_of
from structir.loops.rewrite.window_sums import sum_of_windows

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
        alone = group.kind in COPIES and readers.get(copy) == 1 and copy not in results
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
    windows, pairs = sum_of_windows(copy), list[tuple[Sym, Sym]]()
    # The rows of a plane of sums are one loop, possibly without a row axis inside.
    rows = _row_axes(reader)[:-1] if windows is None else reader.rows
    extents = extents_of(reader.stages)
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
        pairs.append((own[0], row))
    shared = [row for _, row in pairs]
    plane = prod(copy.extents[axis] for axis in copy.parallel if axis not in dict(pairs))
    count = prod(extents[row] for row in shared)
    if windows is not None and len(pairs) < len(windows.outer):
        return []
    small = isinstance(plane, int) and plane <= LARGEST
    return pairs if small and not (isinstance(count, int) and count < FEWEST) else []


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


def plane_nodes(group: Group, name: str) -> ShownKernel:
    """Returns the nodes of rows with the copies that they read."""
    # Rows have neither guards with a fill value nor windows, so these are the copies.
    copies = [s for s in group.stages if s.otherwise is not None or sum_of_windows(s)]
    reader = attrs.evolve(group, kind="rows", stages=group.stages[len(copies) :])
    inlined = with_inlined_values(reader)
    return scheduled_by_recipe(_PlaneWriter(group, copies, inlined, name).kernel(), inlined)


class _PlaneWriter(BorderWriter):
    """Writes copies and their readers, over the rows of which each has its own plane."""

    def __init__(self, group: Group, copies: Sequence[Stage], reader: Group, name: str) -> None:
        super().__init__(group, name)
        self.copies, self.reader = copies, reader
        self.lead = _lead(copies[0], reader)
        self.planes = {copy.out: _Plane(copy, dict(_shared(copy, reader))) for copy in copies}
        self.scratch += [Scratch(plane.array, zeros=False) for plane in self.planes.values()]

    def write_group(self, into: list[KernelStatement]) -> None:
        low, high = self.part(self.extent(self.lead), into)
        point, body = LoopVariable("g", "int64"), list[KernelStatement]()
        self.decode(point, [(axis,) for axis in self.lead], body)
        for copy in self.copies:
            shared = self.planes[copy.out].shared
            self.scalars.axes |= {axis: self.scalars.axes[row] for axis, row in shared.items()}
            if sum_of_windows(copy) is not None:
                body.append(window_call(self, copy))
            else:
                inner = [axis for axis in copy.parallel if axis not in shared]
                self.write_copy(copy, inner, body)
            self.done.add(copy.out)
        self.group = self.reader
        within = self.reader.rows[len(self.lead) :]
        self._loops(self.reader.stages[0], within, body, self.row)
        into.append(self.loop_over(point, low, high, body))

    def located(
        self, buffer: Buffer, entries: tuple[Entry, ...]
    ) -> tuple[Buffer, tuple[Entry, ...]]:
        plane = self.planes.get(buffer)
        if plane is None:
            return buffer, entries
        return plane.memory, tuple([entries[k] for k in plane.inner])

    def array_of(self, buffer: Buffer) -> Var | None:
        return self.planes[buffer].array if buffer in self.planes else super().array_of(buffer)

    def element_at(
        self, array: Var, buffer: Buffer, entries: Sequence[Entry], into: list[KernelStatement]
    ) -> Element:
        return super().element_at(array, *self.located(buffer, tuple(entries)), into)


class _Plane:
    """The memory of one plane of a copy, and the rows that select it by the axes of the copy."""

    def __init__(self, copy: Stage, shared: dict[Sym, Sym]) -> None:
        self.shared = shared
        self.inner = [k for k, e in enumerate(copy.write) if _axis(e) not in shared]
        self.memory = Buffer(tuple([copy.out.shape[k] for k in self.inner]), copy.out.dtype)
        self.array = Var("plane", TensorStructInfo(self.memory.shape, copy.out.dtype))
