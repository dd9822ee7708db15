"""The schedule of a product by warp-level matrix instructions, for 16-bit floats and for float32
that may be rounded to 10 bits: a block computes a tile of small matrices."""

from __future__ import annotations

from typing import Any, ClassVar

from structir.ir.kernel import computed_in
from structir.loops.products.contraction import Contraction
from structir.loops.program.expression import Expression, Operation, loads_of
from structir.loops.program.stage import Stage
from structir.targets.cuda.operand import TileOperand
from structir.targets.cuda.places import RUN
from structir.targets.cuda.product_schedule import WAIT
from structir.targets.cuda.tiled import TiledProductSchedule
from structir.targets.cuda.writer import LoopScope, indented

HALVES = ("float16", "bfloat16")
SIDE = 16  # terms of a slice; rows of one matrix, and columns of two
DOWN, ACROSS = 4, 2  # warps of a block: each computes 32 x 32 results
PAIRS = 2  # matrices of a warp along each side; along columns each is two
GAP = 8  # padding between lines in shared memory: 8 lines start in different banks


def schedule_of(stage: Stage, contraction: Contraction, tf32: bool) -> type[TiledProductSchedule]:
    """Returns the schedule of a product: by warps, if GPUs have an instruction for its factors."""
    dtype, body = contraction.left.buffer.dtype, stage.body
    assert isinstance(body, Operation)
    exact = all(_is_exact(factor, dtype) for factor in body.args)
    if (
        contraction.right.buffer.dtype == dtype
        and exact
        and computed_in(stage.out.dtype) == "float32"
    ):
        if dtype in HALVES:
            return WarpSchedule
        if tf32 and dtype == "float32":
            return RoundedSchedule
    return TiledProductSchedule


def _is_exact(factor: Expression, dtype: str) -> bool:
    """Whether a factor is an unmodified element, of any dtype view."""
    while isinstance(factor, Operation):
        if factor.dtype not in (dtype, "float32", "float64"):
            return False
        (factor,) = factor.args
    return True


class Bits(TileOperand):
    """Copies an operand to shared memory unchanged; contiguous terms stay contiguous."""

    def head(self) -> list[str]:
        """Declares the layout of a tile in shared memory."""
        wide = f"{self.letter}_wide"
        line, lines = ("tile_side", wide) if self.along_terms else (wide, "tile_side")
        pitch = f"{self.pitch} = {line} + {GAP}"
        return [pitch, f"{self.letter}_size = {lines} * {self.pitch}"]

    def _element(self, dtype: str, scope: LoopScope) -> str:
        (read,) = loads_of(self.source.value)
        return self.writer.place(read.buffer, read.entries, [scope])

    def stores(self, there: str) -> list[str]:
        """Stores the loaded elements of a thread into the tile at `there`."""
        if not self.along_terms:
            return super().stores(there)
        to = f"{self.letter}_to"
        return [
            f"{to} = {there} + line * {self.pitch} + part",
            *[
                f"held[{to} + {slot} * far * {self.pitch} + {term}] = {register}"
                for register, slot, _, term in self.elements()
            ],
        ]


class Rounded(TileOperand):
    """Rounds the elements of an operand on their way to shared memory, where terms are
    contiguous."""

    def head(self) -> list[str]:
        """Declares the layout of a tile in shared memory."""
        pitch = f"{self.pitch} = tile_side + {RUN}"
        return [pitch, f"{self.letter}_size = {self.letter}_wide * {self.pitch}"]

    def _element(self, dtype: str, scope: LoopScope) -> str:
        return f"rounded_tf32({super()._element(dtype, scope)})"

    def stores(self, there: str) -> list[str]:
        """Stores the loaded elements of a thread into the tile at `there`."""
        to = f"{self.letter}_to"
        lines = [f"{to} = {there} + {self.term}"]
        for register, slot, points, term in self.elements():
            line = f"({self.offset(slot)} + {points}) * {self.pitch}"
            lines.append(f"held[{to} + {line} + {term}] = {register}")
        return lines


class WarpSchedule(TiledProductSchedule):
    """Writes the kernel of a product of matrices that warps multiply."""

    block_of: ClassVar[dict[str, Any]] = {"warps": DOWN * ACROSS, "resident": 2}
    operand: ClassVar[type[TileOperand]] = Bits
    turns = 2  # passes in which results go through shared memory

    def held_as(self) -> str:
        """The dtype of operands in shared memory: their bits."""
        return "uint16"

    def _room(self, operand: TileOperand, wide: int) -> int:
        """Returns the number of elements of an operand's slice in shared memory."""
        line, lines = (SIDE, wide) if operand.along_terms else (wide, SIDE)
        return lines * (line + GAP)

    def _memory(self) -> list[str]:
        """Declares the shared memory: two slices of both operands, and a part of the results."""
        wide = [SIDE * places.reach for places in (self.rows, self.columns)]
        sides = zip((self.left, self.right), wide, strict=True)
        slices = sum([self._room(operand, width) for operand, width in sides])
        return [
            f"tile_side = {SIDE}",
            f"held = cuda.shared.array({2 * slices}, {self.held})",
            f"made = cuda.shared.array({wide[0] * wide[1] // self.turns}, float32)",
            "lane = cuda.threadIdx.x & 31",
            "warp = cuda.threadIdx.x >> 5",
            f"warp_row = warp // {ACROSS} * {PAIRS * SIDE}",
            f"warp_column = warp % {ACROSS} * {PAIRS * SIDE}",
        ]

    def _totals(self, i: int, j: int) -> list[str]:
        """Returns a lane's elements of a small matrix of results."""
        return [f"c{i}_{j}_{k}" for k in range(4)]

    def _nothing(self) -> list[str]:
        """Initialises the results."""
        small = [(i, j) for i in range(PAIRS) for j in range(2 * PAIRS)]
        return [f"{total} = float32(0.0)" for i, j in small for total in self._totals(i, j)]

    def _multiplied(self) -> list[str]:
        """Multiplies a slice of both operands: one matrix deep."""
        lines = []
        sides = [("x", self.left, "left_fragment", "warp_row", "here")]
        sides += [("y", self.right, "right_fragments", "warp_column", "here + a_size")]
        for letter, operand, name, first, here in sides:
            # a line of the left one is a row, of the right one a term, unless transposed
            turned = operand.along_terms is (letter == "y")
            for i in range(PAIRS):
                at = f"{first} + {i * SIDE}" if i else first
                at = f"({at}) * {operand.pitch}" if operand.along_terms else at
                words = ", ".join([f"{letter}{i}_{k}" for k in range(4)])
                read = f"{name}_turned" if turned else name
                lines.append(f"{words} = {read}(held, {here} + {at}, {operand.pitch})")
        return [*lines, *self._products()]

    def _factors(self) -> str:
        """Returns the factors of the instruction."""
        return self.contraction.left.buffer.dtype

    def _products(self) -> list[str]:
        multiply = f"multiply_{self._factors()}"
        lines = []
        for i in range(PAIRS):
            for j in range(2 * PAIRS):
                totals = ", ".join(self._totals(i, j))
                left = [f"x{i}_{k}" for k in range(4)]
                right = [f"y{j // 2}_{2 * (j % 2) + k}" for k in range(2)]
                lines.append(f"{totals} = {multiply}({', '.join([*left, *right])}, {totals})")
        return lines

    def _finished(self) -> list[str]:
        """Stores all results through shared memory, a part of them at a time."""
        rows = DOWN * PAIRS * SIDE // self.turns
        each = f"for each in range(cuda.threadIdx.x, {rows} * b_wide, cuda.blockDim.x):"
        return [
            f"for first_row in range(0, a_wide, {rows}):",
            f"    if warp_row // {rows} * {rows} == first_row:",
            *indented(self._parked(), 2),
            f"    {WAIT}",
            f"    {each}",
            *indented(self.results_at("made", "first_row + "), 2),
            f"    {WAIT}",
        ]

    def _parked(self) -> list[str]:
        """Stores the results of a warp in shared memory, row by row."""
        lines = [
            "at = (warp_row - first_row + (lane >> 2)) * b_wide + warp_column + (lane & 3) * 2"
        ]
        for i in range(PAIRS):
            for j in range(2 * PAIRS):
                for k, total in enumerate(self._totals(i, j)):
                    row, column = i * SIDE + k // 2 * 8, j * 8 + k % 2
                    lines.append(f"made[at + {row} * b_wide + {column}] = {total}")
        return lines


class RoundedSchedule(WarpSchedule):
    """Writes the kernel of a product of float32 whose factors are rounded to 10 bits."""

    operand: ClassVar[type[TileOperand]] = Rounded
    turns = 4

    def held_as(self) -> str:
        """The dtype of operands in shared memory."""
        return "float32"

    def _room(self, operand: TileOperand, wide: int) -> int:
        return wide * (SIDE + RUN)

    def _factors(self) -> str:
        return "tf32"

    def _multiplied(self) -> list[str]:
        """Multiplies a slice of both operands: two matrices deep."""
        lines = []
        sides = [("x", "a", "left_fragment_tf32", "warp_row", "here")]
        sides += [("y", "b", "right_fragments_tf32", "warp_column", "here + a_size")]
        for term in range(0, SIDE, SIDE // 2):
            for letter, side, read, first, here in sides:
                for i in range(PAIRS):
                    words = ", ".join([f"{letter}{i}_{k}" for k in range(4)])
                    at = f"{here} + ({first} + {i * SIDE}) * {side}_pitch + {term}"
                    lines.append(f"{words} = {read}(held, {at}, {side}_pitch)")
            lines += self._products()
        return lines
