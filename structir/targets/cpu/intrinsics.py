"""Intrinsics for kernels: pointers from addresses, and single LLVM instructions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir

from structir.ir.kernel_functions import EIGHTHS
from structir.loops.program.buffer import STORED_AS
from structir.targets.cpu.arithmetic import declared
from structir.targets.cpu.features import converts_float16
from structir.targets.cpu.float16 import float16_to_float32, float32_to_float16
from structir.targets.cpu.kinds import (
    INDEX,
    Intrinsic,
    Kind,
    intrinsic,
    llvm_type,
    of_operands,
)


def _pointer(element: str) -> Any:
    kind = f"{element}*"

    @intrinsic(kind, INDEX)
    def pointer(builder: Any, args: Sequence[Any], kinds: Sequence[Kind]) -> Any:
        return builder.inttoptr(args[0], llvm_type(kind))

    return pointer


POINTERS = {
    dtype: _pointer(STORED_AS.get(dtype, dtype))
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

# Returns a pointer advanced by some elements.
offset_by: Any = Intrinsic(
    lambda pointer, elements: (pointer, (pointer, INDEX)),
    lambda builder, args, kinds: builder.gep(args[0], [args[1]]),
)


def floating(name: str, arity: int, *flags: str) -> Any:
    """Returns an LLVM intrinsic on operands of one float type, in reverse order.

    The first operand is often a total in memory. Code that keeps the first operand where it is NaN
    would become a masked store of the total, which is slow on AMD's processors.
    """

    @of_operands(arity)
    def call(builder: Any, args: Sequence[Any], kinds: Sequence[Kind]) -> Any:
        kind = args[0].type
        suffix = "f32" if kinds[0] == "float32" else "f64"
        function = declared(
            builder.module, ir.FunctionType(kind, [kind] * arity), f"llvm.{name}.{suffix}"
        )
        return builder.call(function, args[::-1], fastmath=flags)

    return call


# Accumulated maxima and minima propagate NaN. They may lose the sign of a zero: keeping it slows a
# softmax down by a quarter.
maximum = floating("maximum", 2, "nsz")
minimum = floating("minimum", 2, "nsz")
floor = floating("floor", 1)
ceil = floating("ceil", 1)
trunc = floating("trunc", 1)
nearest = floating("rint", 1)


@of_operands(2)
def remainder_toward_zero(builder: Any, args: Sequence[Any], kinds: Sequence[Kind]) -> Any:
    """Computes the remainder of two floats, with the sign of the first."""
    return builder.frem(*args)


@intrinsic("float32", "uint16")
def half_value(builder: Any, args: Sequence[Any], kinds: Sequence[Kind]) -> Any:
    """Converts a stored float16 to float32."""
    if not converts_float16():
        return float16_to_float32(builder, args[0])
    return builder.fpext(builder.bitcast(args[0], ir.HalfType()), ir.FloatType())


@intrinsic("uint16", "float32")
def half_bits(builder: Any, args: Sequence[Any], kinds: Sequence[Kind]) -> Any:
    """Rounds a float32 to a stored float16."""
    if not converts_float16():
        return float32_to_float16(builder, args[0])
    return builder.bitcast(builder.fptrunc(args[0], ir.HalfType()), ir.IntType(16))
