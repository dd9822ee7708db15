"""The schedule of a product of many rows: a block computes a tile of the result in the registers of
its threads, from tiles of both operands in shared memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import product
from math import prod
from typing import Any, ClassVar

import attrs

from structir.ir.dims import Dim, Sym, ceildiv
from structir.ir.kernel import computed_in
from structir.loops.products.contraction import Contraction
from structir.loops.program.buffer import Buffer
from structir.loops.program.stage import Stage
from structir.targets.cuda.device_text import SIDE, DeviceText, device_text, over_blocks
from structir.targets.cuda.epilogue import Results
from structir.targets.cuda.operand import TileOperand
from structir.targets.cuda.places import RUN, Groups
from structir.targets.cuda.product_schedule import HEAD, WAIT, ProductSchedule
from structir.targets.cuda.scalar_text import number_text
from structir.targets.cuda.writer import indented

WIDE_DTYPES = frozenset({"float64", "int64", "uint64"})
TALL, WIDE = 8, 4  # rows and columns of a thread; 4 rows for dtypes that take twice the registers


class TiledProductSchedule(ProductSchedule):
    """Writes the kernel of a product. A block computes one tile of the result after another, or
    with a buffer for `shares`, a part of the terms of one tile."""

    block_of: ClassVar[Mapping[str, Any]] = {"square": True, "resident": 2}
    operand: ClassVar[type[TileOperand]] = TileOperand

    def __init__(
        self,
        stage: Stage,
        contraction: Contraction,
        results: Results,
        tall: int = TALL,
        count: Dim = 1,
        shares: Buffer | None = None,
    ) -> None:
        tall = RUN if computed_in(stage.out.dtype) in WIDE_DTYPES else tall
        super().__init__(stage, contraction, results, tall, WIDE)
        self.count, self.shares = count, shares
        left = self.source(contraction.left, contraction.left_address)
        right = self.source(contraction.right, contraction.right_address)
        self.held = self.held_as()
        self.left = self.operand(left, self.rows, tall)
        self.right = self.operand(right, self.columns, WIDE)

    def held_as(self) -> str:
        """The dtype of operands in shared memory."""
        return self.dtype

    @property
    def steps(self) -> Dim:
        """The number of slices of terms on a GPU."""
        return ceildiv(self.extent(self.terms), SIDE) * self.extent(_all(self.taps))

    @property
    def tiles(self) -> Dim:
        """The number of tiles on a GPU."""
        return self.extent(self.contraction.batch) * self.rows.tiles * self.columns.tiles

    def device_text(self) -> DeviceText:
        """Returns the source of the kernel, with its description for a library."""
        writer, described = self.writer, self.product()
        taps = f" * {self.size(_all(self.taps))}" if self.taps else ""
        lines = [
            *self._memory(),
            *HEAD,
            *self.rows.head(),
            *self.columns.head(),
            *self.left.head(),
            *self.right.head(),
            "half = a_size + b_size",
            f"slices = ({self.size(self.terms)} + tile_side - 1) // tile_side",
            f"steps = slices{taps}",
            f"zero = {number_text(0, self.held)}",
        ]
        count = f"{self.size(self.contraction.batch)} * a_tiles * b_tiles"
        if self.shares is not None:
            count += " * shares"
            lines.append(f"shares = {writer.size(self.count)}")
            lines.append("share = (steps + shares - 1) // shares")
        lines += over_blocks("block", count, self._block())
        text = device_text(writer, lines, self.tiles * self.count, self.stage.origins)
        return attrs.evolve(text, product=described, apart=True, **self.block_of)

    def _memory(self) -> list[str]:
        """Declares the shared memory: two slices of both operands, later the results."""
        reach = (self.rows.reach, self.columns.reach)
        room = max(2 * SIDE * (SIDE * sum(reach) + 2 * RUN), SIDE**2 * prod(reach))
        return [f"held = cuda.shared.array({room}, {self.dtype})"]

    def _block(self) -> list[str]:
        """Computes one tile of the result."""
        filled = [*self.rows.filled(), *self.columns.filled()]
        return [
            "b_first = left_over(block, b_tiles) * b_wide",
            "others = times(block, b_tiles)",
            "a_first = left_over(others, a_tiles) * a_wide",
            *self._share(),
            *self.named(self.outer, "g", "outside"),
            *filled,
            *([WAIT] if filled else []),
            *self.left.positions(),
            *self.right.positions(),
            *self._nothing(),
            "for step in range(first, last + 1):",
            *indented(self._step()),
            *self._finished(),
        ]

    def _share(self) -> list[str]:
        """Returns the slices that a block computes: all, or a part of them."""
        if self.shares is None:
            return ["outside = times(others, a_tiles)", "first, last = 0, steps"]
        return [
            "shared = times(others, a_tiles)",
            "own, outside = left_over(shared, shares), times(shared, shares)",
            "first = min(own * share, steps)",
            "last = min(first + share, steps)",
        ]

    def stored(self) -> list[str]:
        """Stores a `total` with its epilogue, or the sum of a part unchanged."""
        lines = super().stored()
        if self.shares is None:
            return lines
        outer, rows, columns = (self.size(axes) for axes in self.sides)
        at = f"((own * {outer} + outside) * {rows} + row) * {columns} + column"
        kept = f"    {self.writer.pointer(self.shares)}[{at}] = total"
        return ["if shares > 1:", kept, "else:", *indented(lines)]

    def _own(self) -> Iterable[tuple[int, int]]:
        """Yields the results of a thread."""
        return product(range(self.rows.reach), range(self.columns.reach))

    def _nothing(self) -> list[str]:
        """Initialises the results."""
        return [f"c{i}_{j} = zero" for i, j in self._own()]

    def _step(self) -> list[str]:
        """Loads the next slice into registers while the current one is multiplied."""
        lines = ["start = step * tile_side"]
        if self.taps:
            lines = ["start = left_over(step, slices) * tile_side"]
            lines += self.named(self.taps, "tap", "times(step, slices)")
        return [
            *lines,
            *self.left.loads(self.held),
            *self.right.loads(self.held),
            "if step > first:",
            "    here = (step + 1 & 1) * half",
            *indented(self._multiplied()),
            "there = (step & 1) * half",
            *self.left.stores("there"),
            *self.right.stores("there + a_size"),
            WAIT,
        ]

    def _multiplied(self) -> list[str]:
        """Multiplies a slice of both operands, term by term."""
        return ["for term in range(tile_side):", *indented(self._term())]

    def _term(self) -> list[str]:
        """Multiplies one term of all results of a thread."""
        lines = [
            f"x_at = here + term * a_pitch + down * {RUN}",
            "y_at = here + a_size + term * b_pitch + near",
        ]
        for name, places in (("x", self.rows), ("y", self.columns)):
            lines += [f"{name}{k} = held[{name}_at{_own(k)}]" for k in range(places.reach)]
        return lines + [f"c{i}_{j} = add_product(c{i}_{j}, x{i}, y{j})" for i, j in self._own()]

    def _finished(self) -> list[str]:
        """Stores all results."""
        each = "for each in range(cuda.threadIdx.x, a_wide * b_wide, cuda.blockDim.x):"
        return [*self._parked(), WAIT, each, *indented(self.results_at("held")), WAIT]

    def _parked(self) -> list[str]:
        """Stores the results of a thread in shared memory, which all threads read."""
        lines = []
        for i in range(self.rows.reach):
            lines.append(f"at{i} = (down * {RUN}{_own(i)}) * b_wide + near")
            lines += [f"held[at{i}{_own(j)}] = c{i}_{j}" for j in range(self.columns.reach)]
        return lines


def _own(number: int) -> str:
    """Returns the offset of a thread's row or column from its first one: neighbours in groups of
    four."""
    fours, rest = divmod(number, RUN)
    return (f" + {fours} * far" if fours else "") + (f" + {rest}" if rest else "")


def _all(groups: Groups) -> tuple[Sym, ...]:
    return tuple([axis for group in groups for axis in group])
