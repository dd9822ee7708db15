"""Reductions of short runs of contiguous elements with masked vectors.

The rows of a ragged tensor are such runs. LLVM's scalar remainder loop would take longer than the
rest of a short row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import attrs
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from structir.backend.cpu.features import cpu_features, has_wide_vectors
from structir.backend.cpu.masked_loops import WHOLE_VECTORS, rolled, set_properties
from structir.backend.math.bits import declared

WORD, INDEX, BIT = ir.IntType(64), ir.IntType(32), ir.IntType(1)
Combine = Callable[[Any, Any, Any], Any]
WIDTHS = {"float32": (ir.FloatType(), "f32", 4), "float64": (ir.DoubleType(), "f64", 8)}


def has_masks() -> bool:
    """Whether the CPU has masked loads."""
    return bool({"avx2", "avx512vl"} & cpu_features())


def _lanes(size: int) -> int:
    return (64 if has_wide_vectors() else 32) // size


def _fadd(builder: Any, x: Any, y: Any) -> Any:
    return builder.fadd(x, y, flags=("reassoc", "contract"))


def _fmul(builder: Any, x: Any, y: Any) -> Any:
    return builder.fmul(x, y)


def _extreme(comparison: str) -> Combine:
    """Returns the combination of two values by a comparison; it ignores NaN."""

    def combine(builder: Any, x: Any, y: Any) -> Any:
        return builder.select(builder.fcmp_ordered(comparison, x, y), x, y)

    return combine


LONG_RUN = "long_"  # name prefix of the functions for long runs
MONOIDS: dict[str, tuple[Combine, float]] = {
    "sum": (_fadd, 0.0),
    "prod": (_fmul, 1.0),
    "max": (_extreme(">"), -float("inf")),
    "min": (_extreme("<"), float("inf")),
}
EXTREMES = ("max", "min")
LONG, SHORT = 4, 2  # vectors per iteration, in long and in short runs


def _masked_load(builder: Any, place: Any, inside: Any, otherwise: Any, suffix: str) -> Any:
    vector = otherwise.type
    name = f"llvm.masked.load.v{vector.count}{suffix}.p0"
    shape = ir.FunctionType(vector, [vector.as_pointer(), INDEX, inside.type, vector])
    load = declared(builder.module, shape, name)
    place = builder.bitcast(place, vector.as_pointer())
    size = 4 if suffix == "f32" else 8
    return builder.call(load, [place, ir.Constant(INDEX, size), inside, otherwise])


def _splat(builder: Any, value: Any, count: int) -> Any:
    vector = ir.VectorType(value.type, count)
    first = ir.Constant(INDEX, 0)
    start = builder.insert_element(ir.Constant(vector, ir.Undefined), value, first)
    zeros = ir.Constant(ir.VectorType(INDEX, count), [0] * count)
    return builder.shuffle_vector(start, start, zeros)


def _reduce_lanes(builder: Any, vector: Any, combine: Combine) -> Any:
    count = vector.type.count
    while count > 1:
        count //= 2
        kind = ir.VectorType(INDEX, count)
        halves = [
            builder.shuffle_vector(
                vector, vector, ir.Constant(kind, list(range(start, start + count)))
            )
            for start in (0, count)
        ]
        vector = combine(builder, *halves)
    return builder.extract_element(vector, ir.Constant(INDEX, 0))


def _emit_loop(
    builder: Any, low: Any, high: Any, step: Any, values: Sequence[Any], body: Any
) -> list[Any]:
    """Emits a loop with loop-carried values; returns the values after it."""
    before = builder.block
    head, inside, after = [builder.append_basic_block() for _ in range(3)]
    builder.branch(head)
    builder.position_at_end(head)
    at = builder.phi(WORD)
    at.add_incoming(low, before)
    current = [builder.phi(value.type) for value in values]
    for phi, value in zip(current, values, strict=True):
        phi.add_incoming(value, before)
    builder.cbranch(builder.icmp_signed("<", at, high), inside, after)
    builder.position_at_end(inside)
    changed = body(at, current)
    at.add_incoming(builder.add(at, step), builder.block)
    for phi, value in zip(current, changed, strict=True):
        phi.add_incoming(value, builder.block)
    set_properties(builder.module, builder.branch(head), [rolled(builder.module)])
    builder.position_at_end(after)
    return current


@attrs.frozen(eq=False)
class _Run:
    """Emits the reduction of one run.

    Accumulators are vectors. Maxima and minima have one more: a mask of the lanes that saw NaN.
    """

    monoid: str
    dtype: str
    builder: Any
    place: Any
    count: Any
    vectors: int  # per iteration

    @property
    def element(self) -> Any:
        return WIDTHS[self.dtype][0]

    @property
    def width(self) -> int:
        return _lanes(WIDTHS[self.dtype][2])

    @property
    def neutral(self) -> Any:
        return ir.Constant(
            ir.VectorType(self.element, self.width), [MONOIDS[self.monoid][1]] * self.width
        )

    def total(self) -> Any:
        """Emits the reduction; returns the total."""
        builder, step = self.builder, self.vectors * self.width
        whole = builder.and_(self.count, ir.Constant(WORD, -step))
        start = [self.neutral] * self.vectors
        if self.monoid in EXTREMES:
            start.append(ir.Constant(ir.VectorType(BIT, self.width), [False] * self.width))
        zero, steps = ir.Constant(WORD, 0), ir.Constant(WORD, step)
        values = _emit_loop(builder, zero, whole, steps, start, self._whole)
        *values, nan = [*self._rest(whole, values), None][: len(start) + 1]
        if self.monoid in EXTREMES:
            nan = values.pop()
        combine = MONOIDS[self.monoid][0]
        while len(values) > 1:
            values = [combine(builder, *pair) for pair in zip(*[iter(values)] * 2, strict=True)]
        result = _reduce_lanes(builder, values[0], combine)
        if nan is None:
            return result
        lanes = builder.bitcast(nan, ir.IntType(self.width))
        has_nan = builder.icmp_unsigned("!=", lanes, ir.Constant(lanes.type, 0))
        return builder.select(has_nan, ir.Constant(self.element, float("nan")), result)

    def _start(self, at: Any, k: int) -> Any:
        offset = self.builder.add(at, ir.Constant(WORD, k * self.width))
        return self.builder.gep(self.place, [offset])

    def _whole(self, at: Any, totals: Sequence[Any]) -> list[Any]:
        """Accumulates whole vectors."""
        vector, size = self.neutral.type.as_pointer(), WIDTHS[self.dtype][2]
        places = [self.builder.bitcast(self._start(at, k), vector) for k in range(self.vectors)]
        return self._combine(totals, [self.builder.load(p, align=size) for p in places])

    def _rest(self, at: Any, totals: Sequence[Any]) -> list[Any]:
        """Accumulates the last vectors, with masked loads."""
        builder, width = self.builder, self.width
        remaining = builder.trunc(builder.sub(self.count, at), INDEX)
        limit = _splat(builder, remaining, width)
        values = []
        for k in range(self.vectors):
            numbers = ir.Constant(limit.type, [k * width + n for n in range(width)])
            inside = builder.icmp_signed("<", numbers, limit)
            suffix = WIDTHS[self.dtype][1]
            values.append(_masked_load(builder, self._start(at, k), inside, self.neutral, suffix))
        return self._combine(totals, values)

    def _combine(self, totals: Sequence[Any], values: Sequence[Any]) -> list[Any]:
        builder, combine = self.builder, MONOIDS[self.monoid][0]
        pairs = zip(values, totals, strict=False)
        combined = [combine(builder, value, total) for value, total in pairs]
        if self.monoid in EXTREMES:
            nan = totals[-1]
            for pair in zip(values[::2], values[1::2], strict=True):
                nan = builder.or_(nan, builder.fcmp_unordered("uno", *pair))
            combined.append(nan)
        return combined


def _total(monoid: str, dtype: str, vectors: int) -> Any:
    """Returns the intrinsic of a reduction of `count` elements."""
    scalar = getattr(types, dtype)

    @intrinsic
    def total(typing_context: Any, pointer: Any, count: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            place, length = args
            return _Run(monoid, dtype, builder, place, length, vectors).total()

        return scalar(pointer, types.int64), generate

    return total


TOTALS = {
    f"{length}row_{monoid}_{dtype}": _total(monoid, dtype, vectors)
    for monoid in MONOIDS
    for dtype in WIDTHS
    for length, vectors in (("", SHORT), (LONG_RUN, LONG))
}
ROW_FUNCTIONS: dict[str, Any] = {**TOTALS, WHOLE_VECTORS: range}


def reduces(monoid: str, dtype: str) -> bool:
    """Whether there is a reduction of runs for a monoid and a dtype."""
    return f"row_{monoid}_{dtype}" in TOTALS
