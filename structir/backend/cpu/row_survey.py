"""The survey of the rows of a ragged tensor: their order, and the length of the longest one."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from structir.backend.cpu.vectors_of_ir import BIT, emit_loop, limited, word


def ends_of(builder: Any, tables: tuple[Any, Any], row: Any) -> tuple[Any, Any]:
    """Emits the first value of a row, and the one behind it."""
    start, limit = [builder.load(builder.gep(table, [row])) for table in tables]
    return start, limit


@intrinsic
def survey(typing_context: Any, starts: Any, limits: Any, count: Any, total: Any) -> Any:
    """Returns the length of the longest of some rows, but at most twice the mean; -1 for rows that
    are not in order or out of bounds."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        *tables, count, total = args

        def surveyed(row: Any, carried: Any) -> list[Any]:
            in_order, longest, elements, end = carried
            start, limit = ends_of(builder, (tables[0], tables[1]), row)
            length = builder.sub(limit, start)
            follows = builder.icmp_signed(">=", start, end)
            in_order = builder.and_(in_order, follows)
            in_order = builder.and_(in_order, builder.icmp_signed(">=", length, word(0)))
            elements = builder.add(elements, length)
            return [in_order, limited(builder, "smax", longest, length), elements, limit]

        starting = [ir.Constant(BIT, True), word(0), word(0), word(0)]
        in_order, longest, elements, end = emit_loop(builder, count, starting, surveyed)
        in_order = builder.and_(in_order, builder.icmp_signed("<=", end, total))
        in_order = builder.and_(in_order, builder.icmp_signed("<", longest, word(1 << 31)))
        rows = limited(builder, "smax", count, word(1))
        twice = builder.udiv(builder.shl(elements, word(1)), rows)
        return builder.select(in_order, limited(builder, "smin", longest, twice), word(-1))

    return types.int64(starts, limits, types.int64, types.int64), generate
