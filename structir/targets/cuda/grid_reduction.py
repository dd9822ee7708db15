"""The schedule of a reduction to single values by all blocks. Each loop is a kernel whose blocks
leave partial results, which later kernels read."""

from __future__ import annotations

from math import prod

from structir.ir import dims
from structir.ir.dims import Dim, Sym
from structir.ir.kernel import computed_in
from structir.loops.fusion.group import Group
from structir.loops.program.buffer import Buffer
from structir.loops.program.stage import Stage
from structir.targets.cuda.device_text import (
    DeviceText,
    device_text,
    over_blocks,
    strided,
    within_block,
)
from structir.targets.cuda.row_schedule import RowSchedule
from structir.targets.cuda.rows import BlockRowSchedule
from structir.targets.cuda.scalar_text import accumulation_text, load_text, store_text
from structir.targets.cuda.writer import LoopScope

EACH = 4096  # elements per block, unless there are too many parts
MOST_PARTS = 512


def grid_reduction_kernels(group: Group) -> tuple[DeviceText, ...]:
    """Returns the sources of a group that reduces everything."""
    shared = RowSchedule(group)
    parts = {s.out: _parts_of(s) for s in group.stages if s.reduce}
    count = len(shared.loops())
    return tuple(
        [GridReductionSchedule(group, shared, parts, step).step_text() for step in range(count + 1)]
    )


def is_large(group: Group) -> bool:
    """Whether there may be work for more than one block."""
    sizes = [prod(stage.extents.values()) for stage in group.stages if stage.reduce]
    return any(not isinstance(size, int) or size > EACH for size in sizes)


def _parts_of(stage: Stage) -> Buffer:
    count = parts_count(prod(stage.extents.values()))
    return Buffer((count,), computed_in(stage.out.dtype))


def parts_count(elements: Dim) -> Dim:
    """Returns the number of parts in which elements are reduced at first."""
    return dims.dim_min(dims.ceildiv(elements, EACH), MOST_PARTS)


class GridReductionSchedule(BlockRowSchedule):
    """Writes one kernel: the loop of its number, or after all loops the results. Earlier loops are
    only read."""

    def __init__(
        self, group: Group, shared: RowSchedule, parts: dict[Buffer, Buffer], step: int
    ) -> None:
        super().__init__(group)
        self.phases, self.parts, self.step = shared.phases, parts, step
        self.writer.scratch.clear()  # intermediate values are in global memory
        self.writer.local = set(shared.writer.local)
        self.made = 0
        self.extent_of_step: Dim = 1

    def step_text(self) -> DeviceText:
        """Returns the source of the kernel."""
        lines = self.row_lines()
        last = self.step == self.made
        whole: Dim = 1 if last else self.extent_of_step
        lines = over_blocks("part", self.writer.size(whole), lines)
        return device_text(self.writer, lines, whole, self.group.origins, EACH)

    def loop_lines(
        self, groups: list[tuple[Sym, ...]], stages: list[Stage], body: list[str]
    ) -> list[str]:
        """Returns a loop that all blocks share, with the partial results that they leave; or reads
        these."""
        number, self.made = self.made, self.made + 1
        reduced = [stage for stage in stages if stage.reduce]
        if number < self.step:
            return [line for stage in reduced for line in self._put_together(stage)]
        if number > self.step:
            return []
        size = self.writer.size
        sizes = [size(self.extent(group)) for group in groups]
        whole = prod(self.extent(group) for group in groups)
        self.extent_of_step = parts_count(whole)
        name = "j" if len(groups) == 1 else "lane"
        first = "part * cuda.blockDim.x + cuda.threadIdx.x"
        step = f"{size(self.extent_of_step)} * cuda.blockDim.x"
        each = [*self.writer.decoded(groups, sizes, name), *body]
        lines = strided(name, first, size(whole), step, each)
        for stage in reduced:
            lines += [self._of_block(stage), *self._left(stage)]
        return lines

    def store_row(self, row: LoopScope) -> None:
        """Stores the results after all loops."""
        if self.step == self.made:
            super().store_row(row)

    def _of_block(self, stage: Stage) -> str:
        name = self.writer.totals[stage.out]
        return f"{name} = block_{stage.monoid}_{computed_in(stage.out.dtype)}({name})"

    def _left(self, stage: Stage) -> list[str]:
        """Stores the partial result of a block."""
        parts, name = self.parts[stage.out], self.writer.totals[stage.out]
        place = f"{self.writer.pointer(parts)}[part]"
        return ["if cuda.threadIdx.x == 0:", f"    {place} = {store_text(parts.dtype, name)}"]

    def _put_together(self, stage: Stage) -> list[str]:
        """Combines all partial results; every block does so."""
        parts, name = self.parts[stage.out], self.writer.totals[stage.out]
        value = load_text(parts.dtype, f"{self.writer.pointer(parts)}[each]")
        dtype = computed_in(stage.out.dtype)
        line = f"{name} = {accumulation_text(stage.monoid or '', dtype, name, value)}"
        loop = within_block("each", self.writer.size(parts.elements), [line])
        return [*loop, self._of_block(stage)]
