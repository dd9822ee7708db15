"""Intrinsics for kernels: pointers from addresses, and single LLVM instructions."""

from __future__ import annotations

from typing import Any

import numba
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from structir.backend.cpu.features import converts_float16
from structir.backend.cpu.float16 import float16_to_float32, float32_to_float16
from structir.backend.loops.scalar_functions import STORED_AS
from structir.backend.math.bits import declared
from structir.ir.kernel_functions import EIGHTHS


def _pointer(element: Any) -> Any:
    pointer_type: Any = types.CPointer(element)  # type: ignore[no-untyped-call]

    @intrinsic
    def pointer(typing_context: Any, address: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return builder.inttoptr(args[0], context.get_value_type(pointer_type))

        return pointer_type(types.int64), generate

    return pointer


POINTERS = {
    dtype: _pointer(getattr(numba, STORED_AS.get(dtype, dtype)))
    for dtype in [
        "float64",
        "float32",
        "float16",
        "bfloat16",
        "int64",
        "int32",
        "int16",
        "int8",
        "uint64",
        "uint32",
        "uint16",
        "uint8",
        "bool",
        *EIGHTHS,
    ]
}


@intrinsic
def offset_by(typing_context: Any, pointer: Any, elements: Any) -> Any:
    """Returns a pointer advanced by some elements."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.gep(args[0], [args[1]])

    return pointer(pointer, types.int64), generate


def stack_memory(element: Any, count: int) -> Any:
    """Returns a function, for compiled code, that returns a pointer to memory on the stack."""

    pointer: Any = types.CPointer(element)  # type: ignore[no-untyped-call]

    @intrinsic
    def memory(typing_context: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            kind = ir.ArrayType(context.get_value_type(element), count)
            with builder.goto_entry_block():
                place = builder.alloca(kind)
            return builder.bitcast(place, context.get_value_type(pointer))

        return pointer(), generate

    return memory


def floating(name: str, arity: int, *flags: str) -> Any:
    """Returns an LLVM intrinsic on operands of one float type, in reverse order.

    The first operand is often a total in memory. Code that keeps the first operand where it is NaN
    would become a masked store of the total, which is slow on AMD's processors.
    """

    def typed(context_type: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            kind = context.get_value_type(signature.return_type)
            suffix = "f32" if signature.return_type == types.float32 else "f64"
            shape = ir.FunctionType(kind, [kind] * arity)
            function = declared(builder.module, shape, f"llvm.{name}.{suffix}")
            return builder.call(function, args[::-1], fastmath=flags)

        return context_type(*[context_type] * arity), generate

    if arity == 1:

        @intrinsic
        def unary(typing_context: Any, x: Any) -> Any:
            return typed(x)

        return unary

    @intrinsic
    def binary(typing_context: Any, x: Any, y: Any) -> Any:
        return typed(x)

    return binary


# Accumulated maxima and minima propagate NaN. They may lose the sign of a zero: keeping it slows a
# softmax down by a quarter.
maximum = floating("maximum", 2, "nsz")
minimum = floating("minimum", 2, "nsz")
floor = floating("floor", 1)
ceil = floating("ceil", 1)
trunc = floating("trunc", 1)
nearest = floating("rint", 1)


@intrinsic
def half_value(typing_context: Any, bits: Any) -> Any:
    """Converts a stored float16 to float32."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        if not converts_float16():
            return float16_to_float32(builder, args[0])
        return builder.fpext(builder.bitcast(args[0], ir.HalfType()), ir.FloatType())

    return types.float32(types.uint16), generate


@intrinsic
def half_bits(typing_context: Any, value: Any) -> Any:
    """Rounds a float32 to a stored float16."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        if not converts_float16():
            return float32_to_float16(builder, args[0])
        return builder.bitcast(builder.fptrunc(args[0], ir.HalfType()), ir.IntType(16))

    return types.uint16(types.float32), generate


@intrinsic
def prefetch(typing_context: Any, pointer: Any, index: Any) -> Any:
    """Prefetches the cache line of an element; the address may be invalid."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        byte, word = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, word, word, word])
        fetch = declared(builder.module, kind, "llvm.prefetch.p0")
        place = builder.bitcast(builder.gep(args[0], [args[1]]), byte)
        builder.call(fetch, [place, *[ir.Constant(word, k) for k in (0, 3, 1)]])
        return context.get_dummy_value()

    return types.void(pointer, types.int64), generate


@intrinsic(prefer_literal=True)
def copy_filled(typing_context: Any, to: Any, source: Any, count: Any, lanes: Any) -> Any:
    """Copies `count` elements, the last ones with a mask. `lanes` is a literal."""
    width = lanes.literal_value

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        element = args[0].type.pointee
        vector, mask = ir.VectorType(element, width), ir.VectorType(ir.IntType(1), width)
        word, index, pointer = ir.IntType(64), ir.IntType(32), vector.as_pointer()
        size = 4 if element == ir.FloatType() else 8
        suffix = f"v{width}f{8 * size}.p0"
        kind = ir.FunctionType(vector, [pointer, index, mask, vector])
        load = declared(builder.module, kind, f"llvm.masked.load.{suffix}")
        kind = ir.FunctionType(ir.VoidType(), [vector, pointer, index, mask])
        store = declared(builder.module, kind, f"llvm.masked.store.{suffix}")
        nothing, alignment = ir.Constant(vector, ir.Undefined), ir.Constant(index, size)

        def places(at: Any) -> list[Any]:
            return [builder.bitcast(builder.gep(p, [at]), pointer) for p in args[:2]]

        def loop(low: Any, high: Any, step: int) -> Any:
            return cgutils.for_range_slice(builder, low, high, ir.Constant(word, step), word)

        whole = builder.and_(args[2], ir.Constant(word, -COPIED * width))
        with loop(ir.Constant(word, 0), whole, COPIED * width) as (at, _):
            each = [places(builder.add(at, ir.Constant(word, k * width))) for k in range(COPIED)]
            values = [builder.load(source_place, align=size) for _, source_place in each]
            for value, (to_place, _) in zip(values, each, strict=True):
                builder.store(value, to_place, align=size)
        with loop(whole, args[2], width) as (at, _):
            left = builder.trunc(builder.sub(args[2], at), index)
            numbers = ir.Constant(ir.VectorType(index, width), list(range(width)))
            first = builder.insert_element(
                ir.Constant(numbers.type, ir.Undefined), left, ir.Constant(index, 0)
            )
            zeros = ir.Constant(numbers.type, [0] * width)
            inside = builder.icmp_signed("<", numbers, builder.shuffle_vector(first, first, zeros))
            to_place, source_place = places(at)
            value = builder.call(load, [source_place, alignment, inside, nothing])
            builder.call(store, [value, to_place, alignment, inside])
        return context.get_dummy_value()

    return types.void(to, source, types.int64, lanes), generate


COPIED = 4  # vectors per iteration of a copy
