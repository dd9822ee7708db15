"""Intrinsics for kernels: pointers from addresses, and single LLVM instructions."""

from __future__ import annotations

from typing import Any

import numba
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from structir.ir.kernel_functions import EIGHTHS
from structir.loops.program.buffer import STORED_AS
from structir.targets.cpu.arithmetic import declared
from structir.targets.cpu.features import converts_float16
from structir.targets.cpu.float16 import float16_to_float32, float32_to_float16


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
