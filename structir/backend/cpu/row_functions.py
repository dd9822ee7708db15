"""Functions of the rows of ragged tensors: reductions, and the repetition of a number for each
element."""

from __future__ import annotations

from typing import Any

import attrs
from numba import types
from numba.extending import intrinsic

from structir.backend.cpu.features import converts_float16
from structir.backend.cpu.masked_loops import WHOLE_VECTORS
from structir.backend.cpu.row_chunks import LONG, RowFunction
from structir.backend.cpu.row_reductions import MONOIDS, SLICE, ReducedRows, ReducedSlices
from structir.backend.cpu.row_survey import survey
from structir.backend.cpu.vectors_of_ir import (
    COMPUTED,
    TYPES,
    WORD,
    element_size,
    emit_loop,
    lanes_of,
    splat,
    word,
)


@attrs.frozen(eq=False)
class _ExpandedRows(RowFunction):
    """Emits the repetition of the number of each row. What follows the last row is overwritten."""

    @property
    def width(self) -> int:
        return lanes_of(element_size(self.out))

    def in_chunks(self, step: int) -> Any:
        builder = self.builder

        def repeated(row: Any, carried: Any) -> list[Any]:
            start, limit = self.ends(row)
            number = builder.load(builder.gep(self.values, [row]))
            vector = splat(builder, number, self.width)
            place = builder.gep(self.out, [start])
            size = align = element_size(self.out)
            pointer = vector.type.as_pointer()
            if step >= LONG * self.width:  # stores that cross cache lines are slow
                builder.store(vector, builder.bitcast(place, pointer), align=size)
                align = self.width * size
                address = builder.add(builder.ptrtoint(place, WORD), word(align - 1))
                place = builder.inttoptr(builder.and_(address, word(-align)), place.type)

            def store(first: Any, carried: Any) -> list[Any]:
                for k in range(0, step, self.width):
                    here = builder.gep(place, [builder.add(first, word(k))])
                    builder.store(vector, builder.bitcast(here, pointer), align=align)
                return []

            whole, _ = self.whole_chunks(builder.sub(limit, start), step, [], store)
            return store(whole, [])

        emit_loop(builder, self.count, [], repeated)
        return self.count

    def one_by_one(self, first: Any) -> None:
        builder = self.builder

        def repeated(index: Any, carried: Any) -> list[Any]:
            row = builder.add(first, index)
            start, length = self.inside(row)
            number = builder.load(builder.gep(self.values, [row]))
            place = builder.gep(self.out, [start])

            def store(index: Any, carried: Any) -> list[Any]:
                builder.store(number, builder.gep(place, [index]))
                return []

            return emit_loop(builder, length, [], store)

        emit_loop(builder, builder.sub(self.count, first), [], repeated)


def _slices_function(monoid: str, dtype: str) -> Any:
    """Returns the intrinsic that reduces rows of slices of `inner` elements, a literal."""

    @intrinsic(prefer_literal=True)
    def function(
        typing_context: Any,
        values: Any,
        starts: Any,
        limits: Any,
        out: Any,
        count: Any,
        total: Any,
        inner: Any,
    ) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            emitter: Any = ReducedSlices
            emitter(builder, *args[:-1], None, monoid, dtype, inner.literal_value).emit()
            return context.get_dummy_value()

        return types.void(values, starts, limits, out, types.int64, types.int64, inner), generate

    return function


def reduces_slices(monoid: str, dtype: str, inner: Any) -> bool:
    """Whether there is a reduction of rows of slices of `inner` elements."""
    if not reduces(monoid, dtype) or not isinstance(inner, int) or inner <= 0:
        return False
    if dtype == "bfloat16":  # the kernel of nodes is faster with AVX-512
        return False
    vectors, rest = divmod(inner, lanes_of(TYPES[COMPUTED.get(dtype, dtype)][1]))
    return rest == 0 and vectors <= SLICE


def _function(emitter: type[RowFunction], **options: Any) -> Any:
    """Returns the intrinsic of a function of `count` rows of `total` values."""

    @intrinsic
    def function(
        typing_context: Any,
        values: Any,
        starts: Any,
        limits: Any,
        out: Any,
        count: Any,
        total: Any,
        longest: Any,
    ) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            emitter(builder, *args, **options).emit()
            return context.get_dummy_value()

        sizes = (types.int64,) * 3
        return types.void(values, starts, limits, out, *sizes), generate

    return function


def reduction_name(monoid: str, dtype: str, of: str = "rows") -> str:
    """Returns the name of a reduction of rows in the source of kernels."""
    return f"{of}_{monoid}_{dtype}"


EXPANSION, SURVEY, SLICES = "rows_expand", "rows_survey", "rows_of_slices"
ROW_FUNCTIONS: dict[str, Any] = {
    **{
        reduction_name(monoid, dtype): _function(ReducedRows, monoid=monoid, stored=dtype)
        for monoid in MONOIDS
        for dtype in (*TYPES, *COMPUTED)
    },
    **{
        reduction_name(monoid, dtype, SLICES): _slices_function(monoid, dtype)
        for monoid in MONOIDS
        for dtype in (*TYPES, *COMPUTED)
    },
    EXPANSION: _function(_ExpandedRows),
    SURVEY: survey,
    WHOLE_VECTORS: range,
}


def reduces(monoid: str, dtype: str) -> bool:
    """Whether there is a reduction of rows for a monoid and a dtype."""
    is_known = reduction_name(monoid, dtype) in ROW_FUNCTIONS
    return is_known and (dtype != "float16" or converts_float16())
