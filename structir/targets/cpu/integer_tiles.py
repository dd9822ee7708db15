"""Micro-kernels of int8 products: a tile of 32-bit accumulators in vector registers.

Terms are grouped: one instruction adds all products of a group. The int8 elements of a group in one
column of the right operand are contiguous. A group of the left operand is converted to one 32-bit
word, the operand of that instruction.
"""

from __future__ import annotations

from typing import Any

import attrs
from llvmlite import ir

from structir.targets.cpu.arithmetic import declared
from structir.targets.cpu.features import cpu_features
from structir.targets.cpu.tiles import WORD, TileFunction, TileShape, tile_shapes

BYTE, SHORT, SUM = ir.IntType(8), ir.IntType(16), ir.IntType(32)
PLAIN = tuple([TileShape("int32", 4, v, (4, 2, 1)) for v in (1, 2)])
STEPS = 2  # groups per iteration, without which the loop's own instructions limit it
HEAD = 4  # bytes per column of a panel that hold the initial accumulator


@attrs.frozen
class Grouping:
    """The number of terms per instruction, and the offset it needs on the left operand."""

    terms: int
    shift: int


def grouping() -> Grouping:
    """Returns the grouping of this CPU: VNNI, multiply-add of pairs, or single terms."""
    features = cpu_features()
    if {"avx512vnni", "avx512bw"} <= features:
        return Grouping(4, 128)
    wide = "avx512bw" if "avx512f" in features else "avx2"
    return Grouping(2, 0) if wide in features else Grouping(1, 0)


def integer_shapes() -> tuple[TileShape, ...]:
    """Returns the tile shapes of this CPU, narrowest first."""
    return tile_shapes("int32") or PLAIN


class IntegerTile(TileFunction):
    """Emits one tile function with the signature of the float ones.

    `a` has contiguous rows of words, one for each group of terms, and `terms` is the number of
    groups, which is even; `b` is a panel that begins with the initial accumulators.
    """

    steps = STEPS

    def __init__(
        self, module: ir.Module, shape: TileShape, rows: int, group: Grouping, **more: Any
    ) -> None:
        super().__init__(module, shape, rows, operands=(SUM, BYTE), **more)
        self.group, self.unit, self.a_column = group, group.terms, _word(1)
        self.columns_across = shape.columns // self.panels

    def _initial(self, vector: int) -> Any:
        """Loads initial accumulators, the same for each row."""
        place = self._register(self.b, vector, HEAD)
        return self.builder.load(self.builder.bitcast(place, self.vector.as_pointer()), align=1)

    def _start_of(self, term: Any) -> Any:
        """Returns the offset of a group in b."""
        builder = self.builder
        line = builder.add(builder.mul(term, _word(self.unit)), _word(HEAD))
        return builder.mul(line, _word(self.columns_across))

    def _load(self, line: Any, vector: int) -> Any:
        """Loads a register of the right operand."""
        builder, elements = self.builder, self.shape.lanes * self.unit
        kind = ir.VectorType(BYTE, elements)
        place = builder.bitcast(self._register(line, vector), kind.as_pointer())
        loaded = builder.load(place, align=1)
        if self.unit == 4:
            return builder.bitcast(loaded, self.vector)
        return builder.sext(loaded, ir.VectorType(SHORT if self.unit == 2 else SUM, elements))

    def _sum(self, left: Any, right: Any, total: Any) -> Any:
        builder, lanes = self.builder, self.shape.lanes
        if self.unit == 4:
            kind = ir.FunctionType(self.vector, [self.vector] * 3)
            name = "llvm.x86.avx512.vpdpbusd.512"
            return builder.call(declared(self.module, kind, name), [total, left, right])
        if self.unit == 1:
            return builder.add(total, builder.mul(left, right))
        pairs = ir.VectorType(SHORT, 2 * lanes)
        kind = ir.FunctionType(self.vector, [pairs] * 2)
        name = "llvm.x86.avx512.pmaddw.d.512" if lanes == 16 else "llvm.x86.avx2.pmadd.wd"
        products = declared(self.module, kind, name)
        return builder.add(total, builder.call(products, [builder.bitcast(left, pairs), right]))


def _word(value: int) -> ir.Constant:
    return ir.Constant(WORD, value)
