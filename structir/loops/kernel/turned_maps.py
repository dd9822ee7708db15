"""The kernel of a map that reads one operand along another axis than it writes: blocks of it are
transposed in registers into memory of the first-level cache, where the map reads them."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import attrs

from structir.ir import dims
from structir.ir.dims import Sym
from structir.ir.expr import Var
from structir.ir.kernel import (
    Assign,
    Element,
    KernelStatement,
    LoopVariable,
    Scalar,
    Scratch,
)
from structir.ir.struct_info import TensorStructInfo
from structir.loops.fusion.group import Group
from structir.loops.fusion.simplify import with_inlined_values
from structir.loops.kernel.as_kernel import ShownKernel
from structir.loops.kernel.library_nodes import Axes, FlatNodeWriter
from structir.loops.kernel.transposes import TURNED
from structir.loops.program.access import address_of, joined_axes
from structir.loops.program.buffer import Buffer
from structir.loops.program.expression import Entry, Load, axis_dim
from structir.loops.program.stage import Stage
from structir.loops.schedule.edits import calculate, integer
from structir.targets.cpu.products import has_own_products

Statements = list[KernelStatement]
FEWEST = 8  # neighbours along the other axis, which are transposed in registers
LINES, ELEMENTS = 16, 128  # of a block: a line of cache of the operand, and few pages


@attrs.frozen
class TurnedMap:
    """A map that writes along `last`, and one read that is contiguous along `turned`."""

    stage: Stage
    read: Load
    others: list[Axes]
    turned: Axes
    last: Axes


def turned_map(group: Group) -> TurnedMap | None:
    """Returns the map that a group is, if exactly one operand is read so; None for any other."""
    inlined = with_inlined_values(group)
    (stage,) = inlined.stages if len(inlined.stages) == 1 else (None,)
    if stage is None or not stage.direct or stage.reduce or stage.out.dtype not in TURNED:
        return None
    if not has_own_products(stage.out.dtype):
        return None
    reads = {r: address_of(r.buffer, r.entries, stage.axes) for r in stage.loads}
    written = address_of(stage.out, stage.write, stage.axes)
    accesses = [*reads.values(), written]
    if any(a.data or a.pinned(stage.axes) for a in accesses) or stage.pinned:
        return None
    *others, last = joined_axes(stage.parallel, stage.extents, accesses) or [()]
    across = [r for r, a in reads.items() if last and a.coefficient(last[-1]) not in (0, 1)]
    if len(across) != 1 or written.coefficient(last[-1]) != 1:
        return None
    (read,) = across
    turned = [axes for axes in others if reads[read].coefficient(axes[-1]) == 1]
    if not turned or read.buffer.dtype not in TURNED:
        return None
    neighbours = prod(stage.extents[axis] for axis in turned[0])
    if isinstance(neighbours, int) and neighbours < FEWEST:
        return None
    others.remove(turned[0])
    return TurnedMap(stage, read, others, turned[0], last)


def turned_map_kernel(group: Group, form: TurnedMap, name: str) -> ShownKernel:
    """Returns the kernel of such a map, whose range is over blocks."""
    stages = attrs.evolve(group, stages=(form.stage,))
    return _TurnedMapWriter(stages, form, name).kernel()


class _TurnedMapWriter(FlatNodeWriter):
    def __init__(self, group: Group, form: TurnedMap, name: str) -> None:
        super().__init__(group, name)
        self.form = form
        self.starts = Sym("line"), Sym("element")  # of a block, along `turned` and `last`
        self.flat_axes = (*form.stage.axes, *self.starts)
        groups = [*form.others, form.turned, form.last]
        self.collapsed = frozenset([axis for axes in groups for axis in axes[:-1]])
        self.block = Buffer((LINES, ELEMENTS), form.read.buffer.dtype, "scratch")
        self.memory = Var("block", TensorStructInfo((LINES, ELEMENTS), self.block.dtype))
        self.scratch.append(Scratch(self.memory, zeros=False))

    def write_group(self, into: Statements) -> None:
        form, pairs = self.form, list[tuple[Scalar, Scalar]]()
        lines, sizes = (form.turned, form.last), (LINES, ELEMENTS)
        for start, axes, size in zip(self.starts, lines, sizes, strict=True):
            self.extents[start] = dims.ceildiv(self.extent(axes), size)
        groups = [*form.others, *[(start,) for start in self.starts]]
        low, high = self.part(prod(map(self.extent, groups)), into)
        point, body = LoopVariable("g", "int64"), list[KernelStatement]()
        self.decode(point, groups, body)
        for start, axes, size in zip(self.starts, lines, sizes, strict=True):
            (extent,) = self.integers(self.extent(axes))
            skipped = calculate("mul", self.scalars.axes[start], integer(size))
            first = self._named("first", skipped, body)
            rest = calculate("min", calculate("sub", extent, first), integer(size))
            self.scalars.axes[start] = first
            pairs.append((first, self._named("count", rest, body)))
        rows, columns = pairs
        body.append(self._transpose(rows[1], columns[1]))
        self._map_block(rows, columns, body)
        into.append(self.loop_over(point, low, high, body))

    def _named(self, name: str, value: Scalar, into: Statements) -> Scalar:
        local = self.scalars.local(name, "int64")
        into.append(Assign(local, value))
        return local

    def _transpose(self, count: Scalar, width: Scalar) -> KernelStatement:
        """Returns the transpose of a block of the operand."""
        form = self.form
        source = address_of(form.read.buffer, form.read.entries, self.flat_axes)
        lines = form.turned, form.last
        at = {axes[-1]: axis_dim(s) for axes, s in zip(lines, self.starts, strict=True)}
        index = dims.substitute(self.position(source), at)
        place = self.flat_element(form.read.buffer, self.scalars.index(index))
        sizes = self.integers(ELEMENTS, source.coefficient(form.last[-1]))
        block = self.flat_element(self.block, integer(0))
        return self.call("transpose", [block, place], [count, width, *sizes])

    def _map_block(
        self, rows: tuple[Scalar, Scalar], columns: tuple[Scalar, Scalar], into: Statements
    ) -> None:
        """Writes the loops over a block."""
        form, point = self.form, list[KernelStatement]()
        self.stage = form.stage
        variables = [LoopVariable(self.unused(stem), "int64") for stem in ("i", "j")]
        for axes, variable in zip((form.turned, form.last), variables, strict=True):
            self.scalars.axes[axes[-1]] = variable
        self._point(form.stage, point)
        for variable, (start, count) in zip(variables[::-1], (columns, rows), strict=True):
            point = [self.loop_over(variable, start, calculate("add", start, count), point)]
        into += point

    def located(
        self, buffer: Buffer, entries: tuple[Entry, ...]
    ) -> tuple[Buffer, tuple[Entry, ...]]:
        if buffer is not self.form.read.buffer or entries != self.form.read.entries:
            return buffer, entries
        axes = self.form.turned[-1], self.form.last[-1]
        return self.block, tuple(
            [axis_dim(a) - axis_dim(s) for a, s in zip(axes, self.starts, strict=True)]
        )

    def element_at(
        self, array: Var, buffer: Buffer, entries: Sequence[Entry], into: Statements
    ) -> Element:
        memory, _ = self.located(buffer, tuple(entries))
        is_inside = memory is self.block
        return super().element_at(self.memory if is_inside else array, buffer, entries, into)

    def array_of(self, buffer: Buffer) -> Var | None:
        return self.memory if buffer is self.block else super().array_of(buffer)
