"""The innermost part of products of small integers: a tile of 32-bit sums in vector registers.

Terms lie in groups: the int8 elements of a group in one column of the right operand are neighbours,
and one instruction adds the products of all of them.
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
HEAD = 4  # bytes of a panel, for each column, that say what its sum starts from
SIGN = 0x80808080  # what makes four signed bytes unsigned ones: 128 more


@attrs.frozen
class Grouping:
    """How many terms one instruction takes, and what is added to the left operand for it."""

    terms: int
    shift: int


def grouping() -> Grouping:
    """The way of this processor."""
    features = cpu_features()
    if {"avx512vnni", "avx512bw"} <= features:
        return Grouping(4, 128)
    wide = "avx512bw" if "avx512f" in features else "avx2"
    return Grouping(2, 0) if wide in features else Grouping(1, 0)


def integer_shapes() -> tuple[TileShape, ...]:
    """The tiles for this processor, narrowest first."""
    return tile_shapes("int32") or PLAIN


class IntegerTile(TileFunction):
    """One tile function in the making, called as those of floats are: `a` is rows of int8, next to
    each other, `b` a panel whose first lines are what the sums start from."""

    def __init__(
        self, module: ir.Module, shape: TileShape, rows: int, group: Grouping, **more: Any
    ) -> None:
        super().__init__(module, shape, rows, operands=BYTE, **more)
        self.group = group
        self.columns_across = shape.columns // self.panels

    def _start(self) -> list[list[Any]]:
        """What the panel says, for each row."""
        held = [self._load(self.b, v) for v in range(self.shape.vectors)]
        return [held for _ in range(self.rows)]

    def _load(self, line: Any, vector: int) -> Any:
        place = self._register(line, vector, HEAD)
        return self.builder.load(self.builder.bitcast(place, self.vector.as_pointer()), align=1)

    def write(self) -> None:
        """The whole body: a loop over whole groups, what is left of a group, the store."""
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
        made = self._added(group, totals, self._whole)
        following = builder.add(group, ir.Constant(WORD, 1))
        for phi, first, later in zip(
            [group, *chain(*totals)],
            [ir.Constant(WORD, 0), *chain(*start)],
            [following, *chain(*made)],
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
        """The sums with the products of a group."""
        builder = self.builder
        step = builder.mul(group, ir.Constant(WORD, self.group.terms))
        line = builder.add(step, ir.Constant(WORD, HEAD))
        place = builder.gep(self.b, [builder.mul(line, ir.Constant(WORD, self.columns_across))])
        self._fetch_soon(group, place, self.group.terms)
        right = [self._group(place, v) for v in range(self.shape.vectors)]
        made = []
        for row, own in zip(totals, self.lines, strict=True):
            word = self._everywhere(word_of(builder.gep(own, [step])))
            made.append([self._product(t, word, v) for t, v in zip(row, right, strict=True)])
        return made

    def _group(self, line: Any, vector: int) -> Any:
        """A register of the right operand."""
        lanes, terms = self.shape.lanes, self.group.terms
        kind = ir.VectorType(BYTE, lanes * terms)
        place = self._register(line, vector, terms)
        held = self.builder.load(self.builder.bitcast(place, kind.as_pointer()), align=1)
        if terms == 4:
            return self.builder.bitcast(held, self.vector)
        wide = SHORT if terms == 2 else SUM
        return self.builder.sext(held, ir.VectorType(wide, lanes * terms))

    def _whole(self, place: Any) -> Any:
        """A group of the left operand as one word."""
        kind = ir.IntType(8 * self.group.terms)
        word = self.builder.load(self.builder.bitcast(place, kind.as_pointer()), align=1)
        return self._word(word)

    def _part(self, place: Any) -> Any:
        """What is left of a group, zeros behind it."""
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
        """A group as the instruction takes it."""
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
