"""Micro-kernels of int8 products: a tile of 32-bit accumulators in vector registers.

Terms are grouped: the int8 elements of a group in one column of the right operand are contiguous,
and one instruction adds all their products.
"""

from __future__ import annotations

from itertools import chain
from typing import Any

import attrs
from llvmlite import ir

from structir.backend.cpu.features import cpu_features
from structir.backend.cpu.tiles import WORD, TileFunction, TileShape, tile_shapes
from structir.backend.math.bits import declared

BYTE, SHORT, SUM = ir.IntType(8), ir.IntType(16), ir.IntType(32)
PLAIN = tuple([TileShape("int32", 4, v, (4, 2, 1)) for v in (1, 2)])
HEAD = 4  # bytes per column of a panel that hold the initial accumulator
SIGN = 0x80808080  # adds 128 to each of four signed bytes, which makes them unsigned


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

    `a` has int8 rows with contiguous terms; `b` is a panel that begins with the initial
    accumulators.
    """

    def __init__(
        self, module: ir.Module, shape: TileShape, rows: int, group: Grouping, **more: Any
    ) -> None:
        super().__init__(module, shape, rows, operands=BYTE, **more)
        self.group = group
        self.columns_across = shape.columns // self.panels

    def _start(self) -> list[list[Any]]:
        """Loads the initial accumulators, the same for each row."""
        loaded = [self._load(self.b, v) for v in range(self.shape.vectors)]
        return [loaded for _ in range(self.rows)]

    def _load(self, line: Any, vector: int) -> Any:
        place = self._register(line, vector, HEAD)
        return self.builder.load(self.builder.bitcast(place, self.vector.as_pointer()), align=1)

    def write(self) -> None:
        """Emits the body: a loop over whole groups, the remainder, and the stores."""
        builder, size = self.builder, ir.Constant(WORD, self.group.terms)
        self.masks = [self._mask(v) for v in range(self.shape.vectors)]
        self.lines = [
            builder.gep(self.a, [builder.mul(ir.Constant(WORD, r), self.a_row)])
            for r in range(self.rows)
        ]
        start, before = self._start(), builder.block
        groups = builder.udiv(self.terms, size)
        head, body, after = (self.function.append_basic_block(n) for n in ("head", "body", "after"))
        builder.branch(head)
        builder.position_at_end(head)
        group = builder.phi(WORD)
        totals = [[builder.phi(self.vector) for _ in row] for row in start]
        builder.cbranch(builder.icmp_signed("<", group, groups), body, after)
        builder.position_at_end(body)
        sums = self._added(group, totals, self._whole)
        following = builder.add(group, ir.Constant(WORD, 1))
        for phi, first, later in zip(
            [group, *chain(*totals)],
            [ir.Constant(WORD, 0), *chain(*start)],
            [following, *chain(*sums)],
            strict=True,
        ):
            phi.add_incoming(first, before)
            phi.add_incoming(later, body)
        builder.branch(head)
        builder.position_at_end(after)
        left = builder.urem(self.terms, size)
        with builder.if_else(builder.icmp_signed("!=", left, ir.Constant(WORD, 0))) as (more, none):
            with more:
                self.left = left
                self._store(self._added(groups, totals, self._part))
            with none:
                self._store(totals)
        builder.ret_void()

    def _added(self, group: Any, totals: list[list[Any]], word_of: Any) -> list[list[Any]]:
        """Emits the accumulation of a group's products; returns the new totals."""
        builder = self.builder
        step = builder.mul(group, ir.Constant(WORD, self.group.terms))
        line = builder.add(step, ir.Constant(WORD, HEAD))
        place = builder.gep(self.b, [builder.mul(line, ir.Constant(WORD, self.columns_across))])
        self._prefetch_next(group, place, self.group.terms)
        right = [self._group(place, v) for v in range(self.shape.vectors)]
        sums = []
        for row, own in zip(totals, self.lines, strict=True):
            word = self._splat(word_of(builder.gep(own, [step])))
            sums.append([self._product(t, word, v) for t, v in zip(row, right, strict=True)])
        return sums

    def _group(self, line: Any, vector: int) -> Any:
        """Loads a register of the right operand."""
        lanes, terms = self.shape.lanes, self.group.terms
        kind = ir.VectorType(BYTE, lanes * terms)
        place = self._register(line, vector, terms)
        held = self.builder.load(self.builder.bitcast(place, kind.as_pointer()), align=1)
        if terms == 4:
            return self.builder.bitcast(held, self.vector)
        wide = SHORT if terms == 2 else SUM
        return self.builder.sext(held, ir.VectorType(wide, lanes * terms))

    def _whole(self, place: Any) -> Any:
        """Loads a whole group of the left operand."""
        kind = ir.IntType(8 * self.group.terms)
        word = self.builder.load(self.builder.bitcast(place, kind.as_pointer()), align=1)
        return self._word(word)

    def _part(self, place: Any) -> Any:
        """Loads the remainder of a group, padded with zeros."""
        builder, kind = self.builder, ir.IntType(8 * self.group.terms)
        word = builder.zext(builder.load(place), kind)
        for k in range(1, self.group.terms - 1):
            number = ir.Constant(WORD, k)
            inside = builder.icmp_signed("<", number, self.left)
            at = builder.select(inside, number, ir.Constant(WORD, 0))
            byte = builder.zext(builder.load(builder.gep(place, [at])), kind)
            moved = builder.shl(byte, ir.Constant(kind, 8 * k))
            word = builder.or_(word, builder.select(inside, moved, ir.Constant(kind, 0)))
        return self._word(word)

    def _word(self, word: Any) -> Any:
        """Converts a group to the operand of the product instruction."""
        builder = self.builder
        if self.group.terms == 4:
            return builder.xor(word, ir.Constant(SUM, SIGN))
        if self.group.terms == 1:
            return builder.sext(word, SUM)
        pair = builder.bitcast(word, ir.VectorType(BYTE, 2))
        return builder.bitcast(builder.sext(pair, ir.VectorType(SHORT, 2)), SUM)

    def _product(self, total: Any, word: Any, right: Any) -> Any:
        builder, lanes = self.builder, self.shape.lanes
        if self.group.terms == 4:
            kind = ir.FunctionType(self.vector, [self.vector] * 3)
            name = "llvm.x86.avx512.vpdpbusd.512"
            return builder.call(declared(self.module, kind, name), [total, word, right])
        if self.group.terms == 1:
            return builder.add(total, builder.mul(word, right))
        short = ir.VectorType(SHORT, 2 * lanes)
        kind = ir.FunctionType(self.vector, [short] * 2)
        name = "llvm.x86.avx512.pmaddw.d.512" if lanes == 16 else "llvm.x86.avx2.pmadd.wd"
        products = builder.call(
            declared(self.module, kind, name), [builder.bitcast(word, short), right]
        )
        return builder.add(total, products)
