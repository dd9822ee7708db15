"""The survey of the rows of a ragged tensor: their order, and the length of the longest one."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from structir.backend.cpu.vectors_of_ir import (
    WORD,
    emit_loop,
    lanes_of,
    limited,
    reduce_lanes,
    splat,
    word,
)


def ends_of(builder: Any, tables: tuple[Any, Any], row: Any) -> tuple[Any, Any]:
    """Emits the first value of a row, and the one behind it."""
    start, limit = [builder.load(builder.gep(table, [row])) for table in tables]
    return start, limit


def _greater(builder: Any, x: Any, y: Any) -> Any:
    return builder.select(builder.icmp_signed(">", x, y), x, y)


def _add(builder: Any, x: Any, y: Any) -> Any:
    return builder.add(x, y)


def _or(builder: Any, x: Any, y: Any) -> Any:
    return builder.or_(x, y)


COMBINED = (_or, _greater, _add)  # whether rows are invalid, the longest one, all values


def _rows(builder: Any, ends: tuple[Any, Any, Any], total: Any, carried: Any) -> list[Any]:
    """Emits the survey of one row, or of a vector of rows: where they start and end, and where the
    rows before them end."""
    start, limit, end = ends
    length = builder.sub(limit, start)
    invalid = builder.icmp_signed("<", start, end)
    invalid = builder.or_(invalid, builder.icmp_signed("<", limit, start))
    invalid = builder.or_(invalid, builder.icmp_signed(">", limit, total))
    values = builder.sext(invalid, start.type), length, length
    return [combine(builder, x, y) for combine, x, y in zip(COMBINED, values, carried, strict=True)]


@intrinsic
def survey(typing_context: Any, starts: Any, limits: Any, count: Any, total: Any) -> Any:
    """Returns the length of the longest of some rows, but at most twice the mean; -1 for rows that
    are not in order or out of bounds."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        starts, limits, count, total = args
        width = lanes_of(8)
        vector = ir.VectorType(WORD, width)
        before = builder.and_(builder.sub(count, word(1)), word(width - 1))
        before = limited(builder, "smin", builder.add(before, word(1)), count)

        def row(row: Any, carried: Any) -> list[Any]:
            *carried, end = carried
            start, limit = ends_of(builder, (starts, limits), row)
            return [*_rows(builder, (start, limit, end), total, carried), limit]

        *some, _ = emit_loop(builder, before, [word(0)] * 4, row)
        totals = splat(builder, total, width)

        def rows(index: Any, carried: Any) -> list[Any]:
            first = builder.add(before, builder.mul(index, word(width)))
            places = [builder.gep(table, [first]) for table in (starts, limits)]
            places.append(builder.gep(places[1], [word(-1)]))
            pointers = [builder.bitcast(place, vector.as_pointer()) for place in places]
            ends = [builder.load(pointer, align=8) for pointer in pointers]
            return _rows(builder, (ends[0], ends[1], ends[2]), totals, carried)

        chunks = builder.sdiv(builder.sub(count, before), word(width))
        others = emit_loop(builder, chunks, [ir.Constant(vector, [0] * width)] * 3, rows)
        invalid, longest, elements = [
            combine(builder, x, reduce_lanes(builder, y, combine))
            for combine, x, y in zip(COMBINED, some, others, strict=True)
        ]
        is_valid = builder.icmp_signed("==", invalid, word(0))
        is_valid = builder.and_(is_valid, builder.icmp_signed("<", longest, word(1 << 31)))
        rows_or_one = limited(builder, "smax", count, word(1))
        twice = builder.udiv(builder.shl(elements, word(1)), rows_or_one)
        return builder.select(is_valid, limited(builder, "smin", longest, twice), word(-1))

    return types.int64(starts, limits, types.int64, types.int64), generate
