"""Loops over the rows of ragged tensors, which are runs of contiguous elements.

A loop over the elements of one row ends in a mispredicted branch, which takes longer than a short
row. Here each row is one chunk of a constant number of vectors, without a branch: what is beyond
the row is masked, or overwritten by the next row. The chunk has the length of the longest row, but
at most twice the mean; only longer rows take a loop.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import attrs
from llvmlite import ir

from structir.backend.cpu.row_survey import ends_of
from structir.backend.cpu.vectors_of_ir import (
    BIT,
    WORD,
    emit_loop,
    limited,
    word,
)

VECTORS = (2, 4, 6, 8, 12)  # of chunks
BEHIND = (VECTORS[-1] + 1) * 64  # elements behind a buffer that a row may overwrite
LONG = 8  # minimum vectors of chunks of long rows, which gain from more work per row


@attrs.frozen(eq=False)
class RowFunction(ABC):
    """Emits a function of some rows."""

    builder: Any
    values: Any
    starts: Any
    limits: Any
    out: Any
    count: Any
    total: Any  # the number of values
    longest: Any  # the result of `rows_survey`

    @property
    @abstractmethod
    def width(self) -> int:
        """The number of elements of a vector."""

    @abstractmethod
    def in_chunks(self, step: int) -> Any:
        """Emits the loop over rows in order, with chunks of `step` elements; returns the number of
        rows."""

    @abstractmethod
    def one_by_one(self, first: Any) -> None:
        """Emits the loop over the rows from `first` on, which may be out of bounds."""

    def emit(self) -> None:
        """Emits one loop over rows for each size of chunks, and one over the rows that remain."""
        builder = self.builder
        in_order = builder.icmp_signed(">=", self.longest, word(0))
        after = builder.append_basic_block()
        done = []
        for vectors in VECTORS:
            fits = builder.icmp_signed("<=", self.longest, word(vectors * self.width))
            if vectors == VECTORS[-1]:
                fits = ir.Constant(BIT, True)
            some, others = [builder.append_basic_block() for _ in range(2)]
            builder.cbranch(builder.and_(in_order, fits), some, others)
            builder.position_at_end(some)
            done.append((self.in_chunks(vectors * self.width), builder.block))
            builder.branch(after)
            builder.position_at_end(others)
        done.append((word(0), builder.block))
        builder.branch(after)
        builder.position_at_end(after)
        first = builder.phi(WORD)
        for rows, block in done:
            first.add_incoming(rows, block)
        self.one_by_one(first)

    def ends(self, row: Any) -> tuple[Any, Any]:
        """Emits the first value of a row, and the one behind it."""
        return ends_of(self.builder, (self.starts, self.limits), row)

    def run(self, row: Any) -> tuple[Any, Any]:
        """Emits the first value of a row in order, and its length."""
        start, limit = self.ends(row)
        return start, self.builder.sub(limit, start)

    def inside(self, row: Any) -> tuple[Any, Any]:
        """Emits the first value of a row, and its length, within bounds."""
        start, limit = self.ends(row)
        start = limited(self.builder, "smax", start, word(0))
        limit = limited(self.builder, "smin", limit, self.total)
        return start, self.builder.sub(limit, start)

    def whole_chunks(
        self, length: Any, step: int, starting: Sequence[Any], body: Any
    ) -> tuple[Any, list[Any]]:
        """Emits the loop over the whole chunks of a row that is longer than one; returns the number
        of elements, and the values after it."""
        builder = self.builder
        before = builder.block
        some, after = [builder.append_basic_block() for _ in range(2)]
        builder.cbranch(builder.icmp_signed(">", length, word(step)), some, after)
        builder.position_at_end(some)
        chunks = builder.udiv(length, word(step))
        values = emit_loop(
            builder,
            chunks,
            starting,
            lambda index, carried: body(builder.mul(index, word(step)), carried),
        )
        results, last = (builder.mul(chunks, word(step)), *values), builder.block
        builder.branch(after)
        builder.position_at_end(after)
        phis = [builder.phi(value.type) for value in results]
        for phi, none, value in zip(phis, (word(0), *starting), results, strict=True):
            phi.add_incoming(none, before)
            phi.add_incoming(value, last)
        return phis[0], phis[1:]
