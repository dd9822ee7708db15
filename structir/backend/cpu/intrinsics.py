"""Intrinsics for kernels: pointers from addresses, and single LLVM instructions."""

from __future__ import annotations

from typing import Any

import numba
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from structir.backend.cpu.features import converts_float16
from structir.backend.cpu.float16 import float16_to_float32, float32_to_float16
from structir.backend.loops.scalar_text import STORED_AS
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


def _floating(name: str, arity: int, *flags: str) -> Any:
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


def _selected(comparison: str) -> Any:
    """Returns the selection of one of two floats by a comparison: of equal ones the second; NaN
    propagates."""

    @intrinsic
    def selected(typing_context: Any, x: Any, y: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            first, second = args
            chosen = builder.fcmp_ordered(comparison, first, second)
            chosen = builder.or_(chosen, builder.fcmp_unordered("uno", first, first))
            return builder.select(chosen, first, second)

        return x(x, x), generate

    return selected


greater = _selected(">")
lesser = _selected("<")
# Accumulated maxima and minima propagate NaN. They may lose the sign of a zero: keeping it slows a
# softmax down by a quarter.
maximum = _floating("maximum", 2, "nsz")
minimum = _floating("minimum", 2, "nsz")
square_root = _floating("sqrt", 1)
floor = _floating("floor", 1)
ceil = _floating("ceil", 1)
trunc = _floating("trunc", 1)
nearest = _floating("rint", 1)


def _accumulate(instruction: str, *flags: str) -> Any:
    @intrinsic
    def accumulate(typing_context: Any, total: Any, value: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return getattr(builder, instruction)(*args, flags=flags)

        return total(total, total), generate

    return accumulate


# Accumulations of sums and products. Only the terms of a sum may be reordered. Factors keep their
# order, because a partial product may overflow where the whole does not.
add_to = _accumulate("fadd", "reassoc", "contract")
multiply_to = _accumulate("fmul")


def _wrapping(instruction: str) -> Any:
    """Returns wrapping int64 arithmetic.

    Python's operators become `nsw` instructions. These hold for addresses and loop indices, but not
    for users' integers.
    """

    @intrinsic
    def wrapping(typing_context: Any, x: Any, y: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return getattr(builder, instruction)(*args)

        return types.int64(types.int64, types.int64), generate

    return wrapping


wrapping_add = _wrapping("add")
wrapping_sub = _wrapping("sub")
wrapping_mul = _wrapping("mul")


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
def brain_value(typing_context: Any, bits: Any) -> Any:
    """Converts a stored bfloat16 to float32."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        word = ir.IntType(32)
        wide = builder.shl(builder.zext(args[0], word), ir.Constant(word, 16))
        return builder.bitcast(wide, ir.FloatType())

    return types.float32(types.uint16), generate


@intrinsic
def brain_bits(typing_context: Any, value: Any) -> Any:
    """Rounds a float32 to a stored bfloat16, to nearest even; NaN stays NaN."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        word = ir.IntType(32)
        bits = builder.bitcast(args[0], word)
        shift = ir.Constant(word, 16)
        last = builder.and_(builder.lshr(bits, shift), ir.Constant(word, 1))
        rounded = builder.add(bits, builder.add(last, ir.Constant(word, 0x7FFF)))
        nan = builder.fcmp_unordered("uno", args[0], args[0])
        kept = builder.select(nan, ir.Constant(word, 0x7FC00000), rounded)
        return builder.trunc(builder.lshr(kept, shift), ir.IntType(16))

    return types.uint16(types.float32), generate


@intrinsic
def wide_vectors(typing_context: Any) -> Any:
    """Lets LLVM use 512-bit vectors in the calling function; on some CPUs it prefers 256 bits."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        # llvmlite rejects attributes with values, but prints every element of the set.
        set.add(builder.function.attributes, '"prefer-vector-width"="512"')
        return context.get_dummy_value()

    return types.void(), generate
