"""Micro-kernels of products of few rows, which read lines of the right operand in place, in the
order of memory.

Such a product is bound by the bandwidth of memory. A panel of all terms would touch one cache line
of each line: hardware prefetchers do not follow it, and its cache lines evict each other. So a few
lines are read from the first column to the last one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir

from structir.targets.cpu.tiles import WORD, TileFunction

AHEAD = 256  # prefetch distance in bytes, along lines
LINES = 8  # of a block
LONG = 1024  # columns from which a line is a stream of its own
LONGEST = 2048  # columns of a block: two of them are in the second-level cache


class LineTile(TileFunction):
    """Emits a tile function that repeats along lines.

    `columns` is a multiple of the tile's. With `prefetching`, one more argument is the distance
    from the address of a tile to that of the next one.
    """

    prefetch_kinds = (WORD, WORD)

    def reach(self, builder: Any, args: Sequence[Any], more: Sequence[Any]) -> Any:
        """Returns how far a call with these arguments prefetches."""
        return builder.mul(more[1], builder.sdiv(args[8], _word(self.shape.columns)))

    def write(self) -> None:
        """Emits the loop over tiles."""
        builder, function, before = self.builder, self.function, self.builder.block
        b, c, phis = self.b, self.c, list[Any]()
        tile, after = (function.append_basic_block(name) for name in ("tile", "last"))
        builder.branch(tile)
        builder.position_at_end(tile)
        column = builder.phi(WORD)
        if self.soon:
            first, step, along = self.soon
            phis.append(builder.phi(first.type))
            phis[0].add_incoming(first, before)
            self.soon = [phis[0], step]
        self.b, self.c = builder.gep(b, [column]), builder.gep(c, [column])
        self.write_tile()
        end = builder.add(column, _word(self.shape.columns))
        column.add_incoming(_word(0), before)
        column.add_incoming(end, builder.block)
        for soon in phis:
            soon.add_incoming(builder.gep(soon, [along]), builder.block)
        builder.cbranch(builder.icmp_signed("<", end, self.columns), tile, after)
        builder.position_at_end(after)
        builder.ret_void()

    def _load_tile(self) -> list[list[Any]]:
        """Loads the tile of c, all of whose columns exist."""
        return [
            [self.builder.load(self._address(line, v), align=4) for v in range(self.shape.vectors)]
            for line in self._lines(self.c, self.c_row)
        ]

    def _store(self, totals: list[list[Any]]) -> None:
        """Stores the tile."""
        for line, row in zip(self._lines(self.c, self.c_row), totals, strict=True):
            for v, total in enumerate(row):
                self.builder.store(total, self._address(line, v), align=4)


def _word(value: int) -> ir.Constant:
    return ir.Constant(WORD, value)
