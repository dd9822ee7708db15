"""Reductions of the rows of ragged tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import numpy as np
from llvmlite import ir

from structir.backend.cpu.row_chunks import LONG, VECTORS, RowFunction
from structir.backend.cpu.vectors_of_ir import (
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
from structir.ir.dtype import numpy_dtype

SLICE = 8  # maximum vectors of a slice, whose totals are in registers
MONOIDS = ("sum", "prod", "max", "min")


@attrs.frozen(eq=False)
class ReducedRows(RowFunction):
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
            stored = np.array(number, numpy_dtype(self.stored))
            number = int(stored.view(f"uint{element.width}"))
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
        if self.stored == "bfloat16":
            return _of_upper_half(builder, value)
        half, single = [_like(value.type, kind) for kind in (ir.HalfType(), ir.FloatType())]
        wide = builder.fpext(builder.bitcast(value, half), single)
        # LLVM would compare float16, which it converts one by one
        return _fenced(builder, wide)

    def _rounded(self, value: Any) -> Any:
        """Emits a total, or a vector of them, as it is stored."""
        if self.stored == self.dtype:
            return value
        builder = self.builder
        if self.stored == "bfloat16":
            return _upper_half(builder, value)
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
class ReducedSlices(ReducedRows):
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


def _of_upper_half(builder: Any, bits: Any) -> Any:
    """Emits the float32 of a bfloat16, or of a vector of them."""
    words = _like(bits.type, INDEX)
    shifted = builder.shl(builder.zext(bits, words), _constant(words, 16))
    return builder.bitcast(shifted, _like(bits.type, ir.FloatType()))


def _upper_half(builder: Any, value: Any) -> Any:
    """Emits the bfloat16 of a float32, rounded to nearest even, or of a vector; NaN stays one."""
    words = _like(value.type, INDEX)
    bits, half = builder.bitcast(value, words), _constant(words, 16)
    odd = builder.and_(builder.lshr(bits, half), _constant(words, 1))
    rounded = builder.add(bits, builder.add(odd, _constant(words, 0x7FFF)))
    is_nan = builder.fcmp_unordered("uno", value, value)
    kept = builder.select(is_nan, _constant(words, 0x7FC00000), rounded)
    return builder.trunc(builder.lshr(kept, half), _like(value.type, ir.IntType(16)))


def _constant(kind: Any, number: int) -> Any:
    """Returns a number, or a vector of equal numbers."""
    is_vector = isinstance(kind, ir.VectorType)
    return ir.Constant(kind, [number] * kind.count if is_vector else number)


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
