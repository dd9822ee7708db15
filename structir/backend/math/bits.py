"""The single instructions that the math functions need: bit casts, fused multiply-add, scaling."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic


def declared(module: Any, shape: Any, name: str) -> Any:
    """A function of the module by name, declared where it is not yet."""
    return module.globals.get(name) or ir.Function(module, shape, name)


def _bit_cast(source: Any, target: Any) -> Any:
    @intrinsic
    def cast(typing_context: Any, value: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return builder.bitcast(args[0], context.get_value_type(target))

        return target(source), generate

    return cast


def _fused(kind: Any) -> Any:
    @intrinsic
    def fma(typing_context: Any, a: Any, b: Any, c: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return builder.fma(*args)

        return kind(kind, kind, kind), generate

    return fma


bits_of_single = _bit_cast(types.float32, types.int32)
single_of_bits = _bit_cast(types.int32, types.float32)
bits_of_double = _bit_cast(types.float64, types.int64)
double_of_bits = _bit_cast(types.int64, types.float64)
fma_single = _fused(types.float32)
fma_double = _fused(types.float64)


@intrinsic
def scale_single(typing_context: Any, value: Any, exponent: Any) -> Any:
    """value * 2**exponent, rounded once, subnormals included."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        single, integer = ir.FloatType(), ir.IntType(32)
        shape = ir.FunctionType(single, [single, integer])
        scale = declared(builder.module, shape, "llvm.ldexp.f32.i32")
        return builder.call(scale, args)

    return types.float32(types.float32, types.int32), generate
