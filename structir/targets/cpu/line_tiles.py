"""Micro-kernels of products of few rows: they read lines of the right operand in place, in the order
of memory.

Such a product is bound by the bandwidth of memory. A panel of all terms would touch one cache line
of each line, which hardware prefetchers do not follow, and which evict each other. So a block of
some lines is read from the first column to the last one, and prefetches the block after it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir

from structir.targets.cpu.tiles import WORD, TileFunction

LINES = 12  # of a block
LONGEST = 2048  # columns of a block: two of them are in the second-level cache


class LineTile(TileFunction):
    """Emits a tile function that repeats along lines.

    `columns` is a multiple of the tile's. With `prefetching`, each tile prefetches memory from
    where the one before ended.
    """

    def steps_of(self, builder: Any, args: Sequence[Any]) -> Any:
        """Returns the number of times that a call with these arguments prefetches."""
        return builder.mul(args[7], builder.sdiv(args[8], _word(self.shape.columns)))

    def write(self) -> None:
        """Emits the loop over tiles."""
        builder, function, before = self.builder, self.function, self.builder.block
        b, c, soon = self.b, self.c, self.soon
        tile, after = (function.append_basic_block(name) for name in ("tile", "last"))
        builder.branch(tile)
        builder.position_at_end(tile)
        column = builder.phi(WORD)
        self.b, self.c = builder.gep(b, [column]), builder.gep(c, [column])
        if soon:
            steps = builder.mul(self.terms, builder.sdiv(column, _word(self.shape.columns)))
            self.soon = [builder.gep(soon[0], [builder.mul(steps, soon[1])]), soon[1]]
        self.write_tile()
        following = builder.add(column, _word(self.shape.columns))
        column.add_incoming(_word(0), before)
        column.add_incoming(following, builder.block)
        builder.cbranch(builder.icmp_signed("<", following, self.columns), tile, after)
        builder.position_at_end(after)
        builder.ret_void()

    def _load_tile(self) -> list[list[Any]]:
        """Loads the tile of c, all of whose columns exist."""
        return [
            [self.builder.load(self._address(r, v), align=4) for v in range(self.shape.vectors)]
            for r in range(self.rows)
        ]

    def _store(self, totals: list[list[Any]]) -> None:
        """Stores the tile."""
        for r, row in enumerate(totals):
            for v, total in enumerate(row):
                self.builder.store(total, self._address(r, v), align=4)


def _word(value: int) -> ir.Constant:
    return ir.Constant(WORD, value)
