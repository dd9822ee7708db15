"""Vectors of LLVM IR: loops with carried values, and combinations of numbers by monoids."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir

from structir.backend.cpu.features import has_wide_vectors
from structir.backend.cpu.masked_loops import rolled, set_properties
from structir.backend.math.bits import declared
from structir.ir.dtype import int_limits

WORD, INDEX, BIT = ir.IntType(64), ir.IntType(32), ir.IntType(1)
Combine = Callable[[Any, Any, Any], Any]
FLOATS = {"float32": (ir.FloatType(), 4), "float64": (ir.DoubleType(), 8)}
INTS = {"int32": (INDEX, 4), "int64": (WORD, 8), "uint32": (INDEX, 4), "uint64": (WORD, 8)}
TYPES: dict[str, tuple[Any, int]] = {**FLOATS, **INTS}
COMPUTED = dict.fromkeys(("float16", "bfloat16"), "float32")  # in which other dtypes are reduced


def lanes_of(size: int) -> int:
    """Returns the number of elements of a vector."""
    return (64 if has_wide_vectors() else 32) // size


def element_size(pointer: Any) -> int:
    """Returns the bytes of an element."""
    element = pointer.type.pointee
    known = {kind: size for kind, size in TYPES.values()}
    return known[element] if element in known else int(element.width) // 8


def neutral_of(monoid: str, dtype: str) -> Any:
    """Returns the neutral element of a reduction."""
    if monoid in ("sum", "prod"):
        return 0 if monoid == "sum" else 1
    if dtype in FLOATS:
        return -float("inf") if monoid == "max" else float("inf")
    return int_limits(dtype)[monoid == "min"]


def _fadd(builder: Any, x: Any, y: Any) -> Any:
    return builder.fadd(x, y, flags=("reassoc", "contract"))


def _extreme(comparison: str) -> Combine:
    """Returns the combination of two floats by a comparison; it ignores NaN."""

    def combine(builder: Any, x: Any, y: Any) -> Any:
        return builder.select(builder.fcmp_ordered(comparison, x, y), x, y)

    return combine


def _whole_extreme(comparison: str, is_signed: bool) -> Combine:
    def combine(builder: Any, x: Any, y: Any) -> Any:
        compare = builder.icmp_signed if is_signed else builder.icmp_unsigned
        return builder.select(compare(comparison, x, y), x, y)

    return combine


def combination(monoid: str, dtype: str) -> Combine:
    """Returns what emits the combination of two values."""
    comparison = {"max": ">", "min": "<"}.get(monoid)
    if dtype in FLOATS:
        if comparison is not None:
            return _extreme(comparison)
        return _fadd if monoid == "sum" else lambda b, x, y: b.fmul(x, y)
    if comparison is not None:
        return _whole_extreme(comparison, not dtype.startswith("u"))
    return (lambda b, x, y: b.add(x, y)) if monoid == "sum" else (lambda b, x, y: b.mul(x, y))


def splat(builder: Any, value: Any, count: int) -> Any:
    """Emits a vector of equal numbers."""
    vector = ir.VectorType(value.type, count)
    first = ir.Constant(INDEX, 0)
    start = builder.insert_element(ir.Constant(vector, ir.Undefined), value, first)
    zeros = ir.Constant(ir.VectorType(INDEX, count), [0] * count)
    return builder.shuffle_vector(start, start, zeros)


def reduce_lanes(builder: Any, vector: Any, combine: Combine) -> Any:
    """Emits the combination of the elements of a vector."""
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


def limited(builder: Any, function: str, x: Any, y: Any) -> Any:
    """Emits the lesser or the greater of two words."""
    shape = ir.FunctionType(WORD, [WORD, WORD])
    return builder.call(declared(builder.module, shape, f"llvm.{function}.i64"), [x, y])


def emit_loop(builder: Any, count: Any, values: Sequence[Any], body: Any) -> list[Any]:
    """Emits a loop with loop-carried values; returns the values after it."""
    before = builder.block
    head, after = [builder.append_basic_block() for _ in range(2)]
    builder.cbranch(builder.icmp_signed(">", count, word(0)), head, after)
    builder.position_at_end(head)
    index = builder.phi(WORD)
    index.add_incoming(word(0), before)
    current = [builder.phi(value.type) for value in values]
    for phi, value in zip(current, values, strict=True):
        phi.add_incoming(value, before)
    changed = body(index, current)
    following, last = builder.add(index, word(1)), builder.block
    index.add_incoming(following, last)
    for phi, value in zip(current, changed, strict=True):
        phi.add_incoming(value, last)
    latch = builder.cbranch(builder.icmp_signed("<", following, count), head, after)
    set_properties(builder.module, latch, [rolled(builder.module)])
    builder.position_at_end(after)
    results = [builder.phi(value.type) for value in values]
    for phi, start, value in zip(results, values, changed, strict=True):
        phi.add_incoming(start, before)
        phi.add_incoming(value, last)
    return results


def word(number: int) -> Any:
    """Returns a constant of 64 bits."""
    return ir.Constant(WORD, number)
