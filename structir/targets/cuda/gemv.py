"""The schedule of a product of few rows (GEMV): the threads of a block share the terms of a strip
of columns, and load the large operand once, directly into registers."""

from __future__ import annotations

from itertools import product

import attrs

from structir.ir.dims import Dim
from structir.loops.products.contraction import Contraction
from structir.loops.program.expression import apply
from structir.loops.program.stage import Stage
from structir.targets.cuda.device_text import SIDE, DeviceText, device_text, over_blocks
from structir.targets.cuda.epilogue import Results
from structir.targets.cuda.operand import TileOperand, Way
from structir.targets.cuda.places import RUN
from structir.targets.cuda.product_schedule import HEAD, WAIT, ProductSchedule
from structir.targets.cuda.scalar_text import number_text
from structir.targets.cuda.writer import LoopScope, indented

MOST_ROWS = 4
STRIP = Way(("down", "near"), ("part", "line"), ("quarter", "line"), f"(tile_side // {RUN})")
LETTERS = "bd"  # the slices that a thread loads before it multiplies


class GemvSchedule(ProductSchedule):
    """Writes the kernel of a product of few rows."""

    def __init__(self, stage: Stage, contraction: Contraction, results: Results) -> None:
        super().__init__(stage, contraction, results, 1, 1)
        rows = self.rows.extent
        self.count = rows if isinstance(rows, int) else MOST_ROWS
        self.left = self.source(contraction.left, contraction.left_address)
        right = self.source(contraction.right, contraction.right_address)
        self.slices = [
            TileOperand(right, self.columns, RUN, STRIP, letter, f"(start + {k} * far)")
            for k, letter in enumerate(LETTERS)
        ]
        self.along_terms = self.slices[0].along_terms
        self.shares = "tile_side" if self.along_terms else "far"  # threads that share a column

    @property
    def fits(self) -> bool:
        """Whether the rows and the terms are each enumerated in order."""
        return len(self.rows.groups) <= 1 and len(self.slices[0].terms) == 1 and not self.taps

    def device_text(self) -> DeviceText:
        """Returns the source of the kernel, with its description for a library."""
        described = self.product()
        lines = [
            f"held = cuda.shared.array({self.count * RUN * SIDE**2}, {self.dtype})",
            *HEAD,
            *self.columns.head(),
            "a_first = 0",
            f"strip = {self.count} * b_wide",
            f"zero = {number_text(0, self.dtype)}",
            *over_blocks("block", f"{self.size(self.contraction.batch)} * b_tiles", self._block()),
        ]
        strips: Dim = self.extent(self.contraction.batch) * self.columns.tiles
        text = device_text(self.writer, lines, strips, self.stage.origins)
        return attrs.evolve(text, product=described, square=True, resident=2, apart=True)

    def _block(self) -> list[str]:
        """Computes one strip of the result."""
        filled, terms = self.columns.filled(), self.size(self.terms)
        return [
            "b_first = left_over(block, b_tiles) * b_wide",
            *self.named(self.outer, "g", "times(block, b_tiles)"),
            *filled,
            *([WAIT] if filled else []),
            *[line for slice_ in self.slices for line in slice_.positions()],
            *[f"c{i}_{j} = zero" for i in range(self.count) for j in range(self._columns)],
            f"for start in range(0, {terms}, {len(LETTERS)} * far):",
            *indented([line for each in self.slices for line in each.loads(self.dtype)]),
            *indented([line for each in self.slices for line in self._multiplied(each)]),
            *self._parked(),
            *self._together(),
            "for each in range(cuda.threadIdx.x, strip, cuda.blockDim.x):",
            *indented(self.results_at("held")),
            WAIT,
        ]

    @property
    def _columns(self) -> int:
        """Returns the number of columns per thread."""
        return 1 if self.along_terms else RUN

    def _multiplied(self, right: TileOperand) -> list[str]:
        """Multiplies the loaded elements of a slice by those of all rows."""
        lines, own = list[str](), range(RUN if self.along_terms else 1)
        for i in range(self.count):
            lines += self._of_left(right, i, list(own))
            for term, j in product(own, range(self._columns)):
                factor = f"{right.letter}_{term if self.along_terms else j}"
                lines.append(f"c{i}_{j} = add_product(c{i}_{j}, x{i}_{term}, {factor})")
        return lines

    def _of_left(self, right: TileOperand, row: int, terms: list[int]) -> list[str]:
        """Returns the elements of a row of the left operand that a thread multiplies."""
        lines = [f"x{row}_{term} = zero" for term in terms]
        guard = "" if isinstance(self.rows.extent, int) else f"{row} < {self._rows} and "
        if self.rows.groups:
            self.writer.name_axes(self.rows.groups, [str(row)])
        for together in [terms] if right.in_runs else [[term] for term in terms]:
            lines.append(f"if {guard}{right.letter}_term{together[0]} < {self.size(self.terms)}:")
            for term in together:
                right.name_terms(term)
                scope = LoopScope(frozenset(self.extents))
                value = self.writer.value(apply("cast", (self.left.value,), self.dtype), [scope])
                lines += indented([*scope.lines, f"x{row}_{term} = {value}"])
        return lines

    @property
    def _rows(self) -> str:
        return self.writer.size(self.rows.extent)

    def _parked(self) -> list[str]:
        """Stores the partial sums of each thread in shared memory, one part after another."""
        right, lines = self.slices[0], list[str]()
        share = "across" if self.along_terms else "line"
        for i in range(self.count):
            for j in range(self._columns):
                slot, beyond = (0, 0) if self.along_terms else right.place_of(j)
                place = f"{share} * strip + {i} * b_wide + {right.offset(slot)} + {beyond}"
                lines.append(f"held[{place}] = c{i}_{j}")
        return [*lines, WAIT]

    def _together(self) -> list[str]:
        """Adds all parts, by halves."""
        return [
            f"shares = {self.shares}",
            "while shares > 1:",
            "    shares = shares // 2",
            "    for each in range(cuda.threadIdx.x, shares * strip, cuda.blockDim.x):",
            f"        held[each] = {self.dtype}(held[each] + held[each + shares * strip])",
            f"    {WAIT}",
        ]
