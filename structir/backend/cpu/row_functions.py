"""Functions of the rows of ragged tensors, which are runs of contiguous elements: reductions, and
the repetition of a number for each element.

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
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from structir.backend.cpu.features import converts_float16
from structir.backend.cpu.masked_loops import WHOLE_VECTORS
from structir.backend.cpu.row_survey import ends_of, survey
from structir.backend.cpu.vectors_of_ir import (
    BIT,
    COMPUTED,
    FLOATS,
    INDEX,
    TYPES,
    WORD,
    combination,
    element_size,
    emit_loop,
    lanes_of,
    limited,
    neutral_of,
    reduce_lanes,
    splat,
    word,
)
from structir.backend.math.bits import declared

VECTORS = (2, 4, 6, 8, 12)  # of chunks
BEHIND = (VECTORS[-1] + 1) * 64  # elements behind a buffer that a row may overwrite
LONG = 8  # minimum vectors of chunks of long rows, which gain from more work per row
SLICE = 8  # maximum vectors of a slice, whose totals are in registers
MONOIDS = ("sum", "prod", "max", "min")


@attrs.frozen(eq=False)
class _RowFunction(ABC):
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


@attrs.frozen(eq=False)
class _ExpandedRows(_RowFunction):
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


@attrs.frozen(eq=False)
class _ReducedRows(_RowFunction):
    """Emits the reduction of each row."""

    monoid: str
    stored: str  # the dtype of the values

    @property
    def dtype(self) -> str:
        """The dtype of totals."""
        return COMPUTED.get(self.stored, self.stored)

    @property
    def width(self) -> int:
        return lanes_of(TYPES[self.dtype][1])

    @property
    def neutral(self) -> Any:
        """A vector of the neutral element."""
        number = neutral_of(self.monoid, self.dtype)
        return ir.Constant(ir.VectorType(TYPES[self.dtype][0], self.width), [number] * self.width)

    @property
    def tracks_nan(self) -> bool:
        """Whether a second total has the lanes that saw NaN, which comparisons ignore."""
        return self.monoid in ("max", "min") and self.dtype in FLOATS

    @property
    def starting(self) -> list[Any]:
        """The totals of no elements."""
        bits = ir.IntType(8 * TYPES[self.dtype][1])
        none = ir.Constant(ir.VectorType(bits, self.width), [0] * self.width)
        return [self.neutral, none] if self.tracks_nan else [self.neutral]

    def in_chunks(self, step: int) -> Any:
        many = self._rows_before_end(step)
        if step >= LONG * self.width:
            self._groups(many, step)
        else:
            self._one_by_one(word(0), many, step, self.run, self._part)
        return many

    def _groups(self, many: Any, step: int) -> None:
        """Emits a loop over groups of rows, as many as a vector has elements, whose totals are
        combined at once."""
        builder, per_group = self.builder, word(self.width)
        vectors, totals = self._memory_of_group()

        def group(index: Any, carried: Any) -> list[Any]:
            first = builder.mul(index, per_group)
            rows = limited(builder, "smin", builder.sub(many, first), per_group)

            def row(index: Any, carried: Any) -> list[Any]:
                run = self.run(builder.add(first, index))
                vector = self._in_one_vector(self._totals(run, step, self._part))
                builder.store(vector, builder.gep(vectors, [index]))
                return []

            emit_loop(builder, rows, [], row)
            each = [builder.gep(vectors, [word(k)]) for k in range(self.width)]
            result = self._rounded(self._across([builder.load(place) for place in each]))
            place = builder.gep(self.out, [first])
            is_whole = builder.icmp_signed("==", rows, per_group)
            with builder.if_else(is_whole) as (whole, part):
                with whole:
                    pointer = builder.bitcast(place, result.type.as_pointer())
                    builder.store(result, pointer, align=element_size(self.out))
                with part:
                    builder.store(result, builder.bitcast(totals, result.type.as_pointer()))

                    def element(index: Any, carried: Any) -> list[Any]:
                        total = builder.load(builder.gep(totals, [index]))
                        builder.store(total, builder.gep(place, [index]))
                        return []

                    emit_loop(builder, rows, [], element)
            return []

        last = builder.add(many, word(self.width - 1))
        emit_loop(builder, builder.sdiv(last, per_group), [], group)

    def _memory_of_group(self) -> tuple[Any, Any]:
        """Emits stack memory for the vectors of a group of rows, and for their totals."""
        with self.builder.goto_entry_block():
            vectors = self.builder.alloca(self.neutral.type, self.width)
            vectors.align = 64
            totals = self.builder.alloca(self.out.type.pointee, self.width)
            totals.align = 64
        return vectors, totals

    def one_by_one(self, first: Any) -> None:
        step, rows = VECTORS[0] * self.width, self.builder.sub(self.count, first)
        self._one_by_one(first, rows, step, self.inside, self._element_wise)

    def _one_by_one(self, first: Any, rows: Any, step: int, run_of: Any, rest: Any) -> None:
        """Emits a loop over rows."""
        builder = self.builder

        def reduced(index: Any, carried: Any) -> list[Any]:
            row = builder.add(first, index)
            total = self._result(self._totals(run_of(row), step, rest))
            builder.store(self._rounded(total), builder.gep(self.out, [row]))
            return []

        emit_loop(builder, rows, [], reduced)

    def _totals(self, run: tuple[Any, Any], step: int, rest: Any) -> list[Any]:
        """Emits the totals of the lanes of a row."""
        builder, (start, length) = self.builder, run
        place = builder.gep(self.values, [start])

        def chunk(first: Any, totals: Any) -> list[Any]:
            return self._combined(self._vectors(builder.gep(place, [first]), step), totals)

        whole, totals = self.whole_chunks(length, step, self.starting, chunk)
        place, length = builder.gep(place, [whole]), builder.sub(length, whole)
        return rest(place, length, totals, step)  # type: ignore[no-any-return]

    def _rows_before_end(self, step: int) -> Any:
        """Emits the number of rows behind which a chunk may be read."""
        builder = self.builder
        before = builder.block
        head, last, after = [builder.append_basic_block() for _ in range(3)]
        builder.branch(head)
        builder.position_at_end(head)
        many = builder.phi(WORD)
        many.add_incoming(self.count, before)
        builder.cbranch(builder.icmp_signed(">", many, word(0)), last, after)
        builder.position_at_end(last)
        fewer = builder.sub(many, word(1))
        end = builder.add(self.ends(fewer)[1], word(step))
        many.add_incoming(fewer, last)
        builder.cbranch(builder.icmp_signed("<=", end, self.total), after, head)
        builder.position_at_end(after)
        return many

    def _part(self, place: Any, length: Any, totals: list[Any], step: int) -> list[Any]:
        """Emits the combination of totals with a part of a chunk, all of which may be read.

        The vectors of short chunks have masks. In long ones, pairs of vectors behind the part are
        replaced by neutral elements, by their addresses, and its last pair has masks.
        """
        builder, width = self.builder, self.width
        pair, before, masked = 2 * width, word(0), step
        if step >= LONG * width:
            masked = pair
            before = limited(builder, "smax", builder.sub(length, word(1)), word(0))
            before = builder.and_(before, word(-pair))
        limit = builder.sub(length, before)
        limit = builder.trunc(limit, INDEX) if TYPES[self.dtype][1] == 4 else limit
        limit = splat(builder, limit, width)
        values = []
        for k, value in enumerate(self._vectors(builder.gep(place, [before]), masked)):
            numbers = ir.Constant(limit.type, [k * width + n for n in range(width)])
            inside = builder.icmp_signed("<", numbers, limit)
            values.append(builder.select(inside, value, self.neutral))
        for first in range(0, step - masked, pair):
            here = builder.gep(place, [word(first)])
            is_whole = builder.icmp_signed("<", word(first), before)
            here = builder.select(is_whole, here, self._neutral_pair())
            values += self._vectors(here, pair)
        return self._combined(values, totals)

    def _neutral_pair(self) -> Any:
        """Returns the address of two vectors of the neutral element, as values are stored."""
        element, count = self.values.type.pointee, 2 * self.width
        number = neutral_of(self.monoid, self.dtype)
        if self.stored != self.dtype:
            number = int(np.array(number, self.stored).view(f"uint{element.width}"))
        kind = ir.ArrayType(element, count)
        name = f"neutral_{self.monoid}_{self.stored}"
        constants = self.builder.module.globals
        if name not in constants:
            constant = ir.GlobalVariable(self.builder.module, kind, name)
            constant.initializer = ir.Constant(kind, [number] * count)
            constant.global_constant, constant.linkage, constant.align = True, "internal", 64
        return self.builder.gep(constants[name], [word(0), word(0)])

    def _element_wise(self, place: Any, length: Any, totals: list[Any], step: int) -> Any:
        """Emits the combination of totals with some elements, one by one."""
        builder = self.builder

        def element(index: Any, totals: Any) -> list[Any]:
            value = self._widened(builder.load(builder.gep(place, [index])))
            first = builder.insert_element(self.neutral, value, ir.Constant(INDEX, 0))
            return self._combined([first], totals)

        return emit_loop(builder, length, totals, element)

    def _in_one_vector(self, totals: list[Any]) -> Any:
        """Emits a vector of totals that has NaN in the lanes that saw NaN."""
        if not self.tracks_nan:
            return totals[0]
        builder, (total, nan) = self.builder, totals
        none = ir.Constant(total.type, [float("nan")] * self.width)
        ordered = builder.icmp_signed("==", nan, ir.Constant(nan.type, None))
        return builder.select(ordered, total, none)

    def _across(self, vectors: list[Any]) -> Any:
        """Emits the vector of the totals of vectors, as many as their elements.

        Each level halves the number of vectors. The first ones work inside of 128 bits, which
        shuffles do not cross.
        """
        builder, count = self.builder, self.width
        combine = combination(self.monoid, self.dtype)
        inner = 16 // TYPES[self.dtype][1]
        level = 1
        while len(vectors) > 1:
            level *= 2
            block, segment = (1, inner) if level <= inner else (inner, count)
            halves_of = [self._alternating(block, segment, half) for half in (0, 1)]
            pairs = []
            for x, y in zip(vectors[::2], vectors[1::2], strict=True):
                halves = [builder.shuffle_vector(x, y, lanes) for lanes in halves_of]
                pairs.append(self._with_nan(combine(builder, *halves), halves[0]))
            vectors = pairs
        return vectors[0]

    def _alternating(self, block: int, segment: int, half: int) -> Any:
        """Returns the lanes of every other block of two vectors, segment by segment."""
        count = self.width
        lanes = [
            first + lane
            for start in range(0, count, segment)
            for vector in (start, count + start)
            for first in range(vector + half * block, vector + segment, 2 * block)
            for lane in range(block)
        ]
        return ir.Constant(ir.VectorType(INDEX, count), lanes)

    def _with_nan(self, combined: Any, x: Any) -> Any:
        """Emits a combination of `x` and another vector with the NaN of `x`, which comparisons
        ignore."""
        if not self.tracks_nan:
            return combined
        return self.builder.select(self.builder.fcmp_unordered("uno", x, x), x, combined)

    def _result(self, totals: list[Any]) -> Any:
        """Emits the total of all lanes."""
        builder = self.builder
        total = reduce_lanes(builder, totals[0], combination(self.monoid, self.dtype))
        if not self.tracks_nan:
            return total
        none = ir.Constant(totals[1].type, [0] * self.width)
        lanes = builder.icmp_signed("!=", totals[1], none)
        lanes = builder.bitcast(lanes, ir.IntType(self.width))
        has_nan = builder.icmp_unsigned("!=", lanes, ir.Constant(lanes.type, 0))
        return builder.select(has_nan, ir.Constant(total.type, float("nan")), total)

    def _vectors(self, place: Any, step: int) -> list[Any]:
        """Emits loads of the vectors of a chunk."""
        builder, size = self.builder, element_size(place)
        vector = self._vector_of(place)
        places = [builder.gep(place, [word(k)]) for k in range(0, step, self.width)]
        loads = [builder.load(builder.bitcast(p, vector), align=size) for p in places]
        return [self._widened(value) for value in loads]

    def _vector_of(self, place: Any) -> Any:
        """Returns the type of an address of a vector."""
        return ir.VectorType(place.type.pointee, self.width).as_pointer()

    def _widened(self, value: Any) -> Any:
        """Emits a loaded number, or a vector of them, in the dtype of totals."""
        if self.stored == self.dtype:
            return value
        builder = self.builder
        half, single = [_like(value.type, kind) for kind in (ir.HalfType(), ir.FloatType())]
        wide = builder.fpext(builder.bitcast(value, half), single)
        # LLVM would compare float16, which it converts one by one
        return _fenced(builder, wide)

    def _rounded(self, value: Any) -> Any:
        """Emits a total, or a vector of them, as it is stored."""
        if self.stored == self.dtype:
            return value
        builder = self.builder
        half, bits = [_like(value.type, kind) for kind in (ir.HalfType(), ir.IntType(16))]
        return builder.bitcast(builder.fptrunc(value, half), bits)

    def _combined(self, values: Sequence[Any], totals: list[Any]) -> list[Any]:
        """Emits the combination of vectors and totals."""
        builder, combine = self.builder, combination(self.monoid, self.dtype)
        nan = totals[1:]
        pairs = [values[k : k + 2] for k in range(0, len(values), 2)]
        for pair in pairs if nan else ():
            unordered = builder.fcmp_unordered("uno", pair[0], pair[-1])
            nan = [builder.or_(nan[0], builder.sext(unordered, nan[0].type))]
        if nan:  # LLVM would keep one bit per lane, in vectors of words
            bits = builder.bitcast(nan[0], totals[0].type)
            nan = [builder.bitcast(_fenced(builder, bits), nan[0].type)]
        while len(values) > 1:
            pairs = [values[k : k + 2] for k in range(0, len(values), 2)]
            values = [combine(builder, *p) if len(p) > 1 else p[0] for p in pairs]
        return [combine(builder, values[0], totals[0]), *nan]


@attrs.frozen(eq=False)
class _ReducedSlices(_ReducedRows):
    """Emits the reduction of rows of slices: each slice is a few vectors, whose totals stay in
    registers."""

    inner: int  # elements of a slice

    def emit(self) -> None:
        builder = self.builder
        vectors = self.inner // self.width
        each = len(self.starting)  # totals of a vector

        def reduced(row: Any, carried: Any) -> list[Any]:
            start, length = self.inside(row)
            place = builder.gep(self.values, [builder.mul(start, word(self.inner))])

            def slice_(index: Any, totals: Any) -> list[Any]:
                here = builder.gep(place, [builder.mul(index, word(self.inner))])
                values = self._vectors(here, self.inner)
                return [
                    total
                    for k, value in enumerate(values)
                    for total in self._combined([value], totals[k * each : (k + 1) * each])
                ]

            totals = emit_loop(builder, length, self.starting * vectors, slice_)
            place = builder.gep(self.out, [builder.mul(row, word(self.inner))])
            for k in range(vectors):
                result = self._in_one_vector(totals[k * each : (k + 1) * each])
                here = builder.gep(place, [word(k * self.width)])
                pointer, size = self._vector_of(here), element_size(here)
                builder.store(self._rounded(result), builder.bitcast(here, pointer), align=size)
            return []

        emit_loop(builder, self.count, [], reduced)


def _fenced(builder: Any, value: Any) -> Any:
    """Emits a float, or a vector of them, that LLVM computes as it is."""
    is_vector = isinstance(value.type, ir.VectorType)
    element = value.type.element if is_vector else value.type
    suffix = f"f{64 if isinstance(element, ir.DoubleType) else 32}"
    suffix = f"v{value.type.count}{suffix}" if is_vector else suffix
    kind = ir.FunctionType(value.type, [value.type])
    return builder.call(declared(builder.module, kind, f"llvm.arithmetic.fence.{suffix}"), [value])


def _like(kind: Any, element: Any) -> Any:
    """Returns the type of a number or of a vector, as `kind` is one."""
    return ir.VectorType(element, kind.count) if isinstance(kind, ir.VectorType) else element


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
            emitter: Any = _ReducedSlices
            emitter(builder, *args[:-1], None, monoid, dtype, inner.literal_value).emit()
            return context.get_dummy_value()

        return types.void(values, starts, limits, out, types.int64, types.int64, inner), generate

    return function


def reduces_slices(monoid: str, dtype: str, inner: Any) -> bool:
    """Whether there is a reduction of rows of slices of `inner` elements."""
    if not reduces(monoid, dtype) or not isinstance(inner, int) or inner <= 0:
        return False
    vectors, rest = divmod(inner, lanes_of(TYPES[COMPUTED.get(dtype, dtype)][1]))
    return rest == 0 and vectors <= SLICE


def _function(emitter: type[_RowFunction], **options: Any) -> Any:
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
        reduction_name(monoid, dtype): _function(_ReducedRows, monoid=monoid, stored=dtype)
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
    return is_known and (dtype not in COMPUTED or converts_float16())
