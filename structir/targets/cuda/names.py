"""The names in the sources of GPU kernels: implementations that the CPU has, and intrinsics whose
arithmetic rounds and wraps as kernels do."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from structir.ir.kernel_functions import EIGHTHS
from structir.targets.cpu.intrinsics import (
    POINTERS,
    ceil,
    floating,
    floor,
    half_bits,
    half_value,
    maximum,
    minimum,
    nearest,
    offset_by,
    trunc,
)
from structir.targets.cpu.scalars import helpers
from structir.targets.cuda.integer_functions import integer_functions

square_root = floating("sqrt", 1)


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


NAMES: dict[str, Any] = {
    "add_to": add_to,
    "multiply_to": multiply_to,
    "wrapping_add": wrapping_add,
    "wrapping_sub": wrapping_sub,
    "wrapping_mul": wrapping_mul,
    "greater": greater,
    "lesser": lesser,
    "maximum": maximum,
    "minimum": minimum,
    "square_root": square_root,
    "floor": floor,
    "ceil": ceil,
    "trunc": trunc,
    "nearest": nearest,
    "half_value": half_value,
    "half_bits": half_bits,
    "brain_value": brain_value,
    "brain_bits": brain_bits,
    "offset_by": offset_by,
    "array_at": numba.carray,  # type: ignore[attr-defined]
    "inf": np.inf,
    "nan": np.nan,
    **{f"{dtype}_pointer": pointer for dtype, pointer in POINTERS.items()},
    **{
        dtype: getattr(np, dtype)
        for dtype in POINTERS
        if dtype not in ("bool", "bfloat16", *EIGHTHS)
    },
}


def kernel_names() -> dict[str, Any]:
    """Returns the implementations by name."""
    return {**NAMES, **helpers(), **integer_functions()}
