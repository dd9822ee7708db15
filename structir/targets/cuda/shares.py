"""Split-k: for products of few tiles and many terms, blocks compute parts of the sums, and a second
kernel adds these."""

from __future__ import annotations

from structir.ir import dims
from structir.ir.dims import Dim
from structir.loops.products.contraction import Contraction
from structir.loops.program.buffer import Buffer
from structir.loops.program.stage import Stage
from structir.targets.cuda.device_text import DeviceText, device_text, over_threads
from structir.targets.cuda.epilogue import Results
from structir.targets.cuda.product_schedule import ProductSchedule
from structir.targets.cuda.scalar_text import accumulation_text, number_text
from structir.targets.cuda.tiled import TiledProductSchedule

PROCESSORS = 132  # multiprocessors of a large GPU: fewer tiles leave some of them idle
EACH = 2  # blocks of a multiprocessor
LEAST = 8  # slices of terms that are worth a block


def shares_of(schedule: TiledProductSchedule) -> Dim:
    """Returns the number of blocks among which the terms of a tile are split."""
    tiles = schedule.tiles
    if not isinstance(tiles, int) or not 0 < tiles < PROCESSORS:
        return 1
    worth = dims.floordiv(schedule.steps, LEAST)
    return dims.dim_max(1, dims.dim_min(EACH * PROCESSORS // tiles, worth))


class SumSchedule(ProductSchedule):
    """Adds the partial sums of a product; one thread per element."""

    def __init__(
        self, stage: Stage, contraction: Contraction, results: Results, count: Dim, shares: Buffer
    ) -> None:
        super().__init__(stage, contraction, results, 1, 1)
        self.count, self.shares = count, shares

    def device_text(self) -> DeviceText:
        """Returns the source of the kernel, which runs if there are several parts."""
        writer = self.writer
        outer, rows, columns = (self.size(axes) for axes in self.sides)
        place = f"{writer.pointer(self.shares)}[share * ({outer} * {rows} * {columns}) + each]"
        total = accumulation_text("sum", self.dtype, "total", place)
        lines = [
            f"across = times(each, {columns})",
            *self.named(self.columns.groups, "column", f"left_over(each, {columns})"),
            *self.named(self.rows.groups, "row", f"left_over(across, {rows})"),
            *self.named(self.outer, "g", f"times(across, {rows})"),
            f"total = {number_text(0, self.dtype)}",
            f"for share in range({writer.size(self.count)}):",
            f"    total = {total}",
            *self.stored(),
        ]
        whole = self.extent(axis for axes in self.sides for axis in axes)
        lines = over_threads("each", writer.size(whole), lines)
        several = dims.select(dims.compare(">", self.count, 1), whole, 0)
        return device_text(writer, lines, several, self.stage.origins)


def shares_buffer(schedule: TiledProductSchedule, count: Dim) -> Buffer:
    """Returns the buffer of the partial sums."""
    several = dims.select(dims.compare(">", count, 1), count, 0)
    return Buffer((several, *[schedule.extent(axes) for axes in schedule.sides]), schedule.dtype)
