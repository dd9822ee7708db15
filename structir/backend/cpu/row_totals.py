"""Reductions of short runs of neighbouring elements, in whole vectors with masks.

The rows of a ragged tensor are such runs. LLVM computes the end of a loop element by element, which
takes longer than the rest of a short row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from structir.backend.cpu.features import cpu_features, has_wide_vectors
from structir.backend.cpu.masked_loops import WHOLE_VECTORS
from structir.backend.math.bits import declared

WORD, INDEX, BIT = ir.IntType(64), ir.IntType(32), ir.IntType(1)
Combine = Callable[[Any, Any, Any], Any]
WIDTHS = {"float32": (ir.FloatType(), "f32", 4), "float64": (ir.DoubleType(), "f64", 8)}


def has_masks() -> bool:
    """Returns whether the CPU reads a part of a vector in one instruction."""
    return bool({"avx2", "avx512vl"} & cpu_features())


def _lanes(size: int) -> int:
    return (64 if has_wide_vectors() else 32) // size


def _fadd(builder: Any, x: Any, y: Any) -> Any:
    return builder.fadd(x, y, flags=("reassoc", "contract"))


def _fmul(builder: Any, x: Any, y: Any) -> Any:
    return builder.fmul(x, y)


def _extreme(name: str) -> Combine:
    def combine(builder: Any, x: Any, y: Any) -> Any:
        kind = x.type
        element = kind.element if isinstance(kind, ir.VectorType) else kind
        suffix = "f32" if element == ir.FloatType() else "f64"
        count = f"v{kind.count}" if isinstance(kind, ir.VectorType) else ""
        shape = ir.FunctionType(kind, [kind, kind])
        function = declared(builder.module, shape, f"llvm.{name}.{count}{suffix}")
        return builder.call(function, [x, y], fastmath=("nsz",))

    return combine


LONG_RUN = "long_"  # how names of functions begin that are faster for long runs
MONOIDS: dict[str, tuple[Combine, float]] = {
    "sum": (_fadd, 0.0),
    "prod": (_fmul, 1.0),
    "max": (_extreme("maximum"), -float("inf")),
    "min": (_extreme("minimum"), float("inf")),
}
COMPARED = {"max": ">", "min": "<"}
LONG, SHORT = 4, 2  # vectors at once, and where the last may end early


def _masked_load(builder: Any, place: Any, inside: Any, otherwise: Any, suffix: str) -> Any:
    vector = otherwise.type
    name = f"llvm.masked.load.v{vector.count}{suffix}.p0"
    shape = ir.FunctionType(vector, [vector.as_pointer(), INDEX, inside.type, vector])
    load = declared(builder.module, shape, name)
    place = builder.bitcast(place, vector.as_pointer())
    size = 4 if suffix == "f32" else 8
    return builder.call(load, [place, ir.Constant(INDEX, size), inside, otherwise])


def _spread(builder: Any, value: Any, count: int) -> Any:
    vector = ir.VectorType(value.type, count)
    first = ir.Constant(INDEX, 0)
    start = builder.insert_element(ir.Constant(vector, ir.Undefined), value, first)
    zeros = ir.Constant(ir.VectorType(INDEX, count), [0] * count)
    return builder.shuffle_vector(start, start, zeros)


def _folded(builder: Any, vector: Any, monoid: str) -> Any:
    """Combines the lanes of a vector, halves of it at a time."""
    if monoid not in COMPARED:
        return _in_halves(builder, vector, MONOIDS[monoid][0])
    is_nan = builder.fcmp_unordered("uno", vector, vector)
    lanes = builder.bitcast(is_nan, ir.IntType(vector.type.count))
    has_nan = builder.icmp_unsigned("!=", lanes, ir.Constant(lanes.type, 0))

    def combine(builder: Any, x: Any, y: Any) -> Any:
        return builder.select(builder.fcmp_ordered(COMPARED[monoid], x, y), x, y)

    extreme = _in_halves(builder, vector, combine)
    return builder.select(has_nan, ir.Constant(extreme.type, float("nan")), extreme)


def _in_halves(builder: Any, vector: Any, combine: Combine) -> Any:
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


def _repeated(
    builder: Any, low: Any, high: Any, step: Any, values: Sequence[Any], body: Any
) -> list[Any]:
    """Emits a loop that tests at its start; returns the values after it."""
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
    builder.branch(head)
    builder.position_at_end(after)
    return current


def _total(monoid: str, dtype: str, is_long: bool) -> Any:
    """Returns the intrinsic of a reduction of `count` elements."""
    combine, neutral = MONOIDS[monoid]
    element, suffix, size = WIDTHS[dtype]
    scalar = getattr(types, dtype)

    @intrinsic
    def total(typing_context: Any, pointer: Any, count: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            place, count_value = args
            width = _lanes(size)
            vector = ir.VectorType(element, width)
            nothing = ir.Constant(vector, [neutral] * width)
            lanes = ir.VectorType(INDEX, width)

            def start(at: Any, k: int) -> Any:
                return builder.gep(place, [builder.add(at, ir.Constant(WORD, k * width))])

            def full(at: Any, totals: Sequence[Any]) -> list[Any]:
                """Combines the elements of some vectors."""
                places = [builder.bitcast(start(at, k), vector.as_pointer()) for k in range(LONG)]
                values = [builder.load(p, align=size) for p in places]
                return [combine(builder, *pair) for pair in zip(totals, values, strict=True)]

            def rest(at: Any, totals: Sequence[Any]) -> list[Any]:
                """Combines the elements of some vectors, of which the last may end early."""
                left = builder.sub(count_value, at)
                count = ir.Constant(WORD, SHORT * width)
                left = builder.select(builder.icmp_signed("<", left, count), left, count)
                limit = _spread(builder, builder.trunc(left, INDEX), width)
                values = list(totals)
                for k in range(SHORT):
                    numbers = ir.Constant(lanes, [k * width + n for n in range(width)])
                    inside = builder.icmp_signed("<", numbers, limit)
                    value = _masked_load(builder, start(at, k), inside, nothing, suffix)
                    values[k] = combine(builder, values[k], value)
                return values

            def most_of_all() -> list[Any]:
                """Combines most elements of a long run, in more vectors at once."""
                step = ir.Constant(WORD, LONG * width)
                values = _repeated(builder, zero, most, step, [nothing] * LONG, full)
                halves = zip(values[:SHORT], values[SHORT:], strict=True)
                return [most, *[combine(builder, *pair) for pair in halves]]

            zero, most = ir.Constant(WORD, 0), ir.Constant(WORD, -LONG * width)
            most = builder.and_(count_value, most)
            at, *values = most_of_all() if is_long else (zero, *[nothing] * SHORT)
            step = ir.Constant(WORD, SHORT * width)
            values = _repeated(builder, at, count_value, step, values, rest)
            values = [combine(builder, *values)]
            return _folded(builder, values[0], monoid)

        return scalar(pointer, types.int64), generate

    return total


TOTALS = {
    f"{length}row_{monoid}_{dtype}": _total(monoid, dtype, is_long=bool(length))
    for monoid in MONOIDS
    for dtype in WIDTHS
    for length in ("", LONG_RUN)
}
ROW_FUNCTIONS: dict[str, Any] = {**TOTALS, WHOLE_VECTORS: range}


def reduces(monoid: str, dtype: str) -> bool:
    """Returns whether there is a function that combines a run of elements."""
    return f"row_{monoid}_{dtype}" in TOTALS
