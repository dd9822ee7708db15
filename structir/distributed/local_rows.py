"""Calls of ops on rows in a shard, over blocks of rows: positions and row numbers count from the
start of the block."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from structir.ir.dims import Dim
from structir.ir.expr import Call, Expr, PrimValue, Var
from structir.ops.broadcast import add, subtract
from structir.ops.create import full_like
from structir.projections.boxes import Bounds
from structir.projections.row_blocks import RESULT, RowDependency


class ShardEmitter(Protocol):
    """The generator of a shard function."""

    def emit(self, value: Expr) -> Var:
        """Binds a value."""
        ...

    def offset(self, value: int) -> Dim:
        """Returns a symbol for a number that differs between shards."""
        ...

    def width(self, size: int) -> Dim:
        """Returns a symbol for a block size."""
        ...


def local_arguments(
    call: Call, rows: RowDependency, bounds: Bounds, blocks: Sequence[Expr], writer: ShardEmitter
) -> tuple[Expr, ...]:
    """Returns the arguments of a call over blocks of its operands; numbers are the size of the
    block of the result."""
    computed = rows.computed(bounds)
    starts = dict(enumerate([low[0] for low, _ in rows.operand_blocks(bounds)]))
    starts[RESULT] = computed[0][0]
    first = rows.rows(RESULT, (computed[0][0], computed[1][0]))[0]
    shifts = {operand: starts[tensor] for operand, tensor in rows.blocks.positions.items()}
    shifts |= dict.fromkeys(rows.blocks.row_numbers, first)
    local = [
        subtract(block, _number(block, shifts[k], writer)) if k in shifts else block
        for k, block in enumerate(blocks)
    ]
    emitted = iter([writer.emit(v) if isinstance(v, Call) else v for v in local])
    size = PrimValue(writer.width(computed[1][0] - computed[0][0]))
    return tuple([size if isinstance(arg, PrimValue) else next(emitted) for arg in call.args])


def local_result(call: Call, rows: RowDependency, bounds: Bounds, writer: ShardEmitter) -> Expr:
    """Returns the result of a call over blocks; row numbers count from the first row of all."""
    if RESULT not in rows.blocks.row_numbers:
        return call
    first = rows.rows(RESULT, (bounds[0][0], bounds[1][0]))[0]
    ids = writer.emit(call)
    return add(ids, _number(ids, first, writer))


def _number(like: Expr, value: int, writer: ShardEmitter) -> Expr:
    return writer.emit(full_like(like, PrimValue(writer.offset(value))))
