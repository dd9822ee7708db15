"""Single instructions for cards, and the names in kernels' texts over them, compiled by
numba-cuda."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from types import FunctionType
from typing import Any

from llvmlite import ir
from numba import cuda
from numba.cuda import types
from numba.cuda.extending import intrinsic
from numba.cuda.np.numpy_support import carray

from structir.backend.cpu.functions import rebuilt_function
from structir.backend.cuda.numbers import shared_names
from structir.backend.loops.scalar_text import LIBRARY, OF_TWO
from structir.backend.math.bits import declared

ROUNDINGS = {
    "square_root": "sqrt",
    "floor": "floor",
    "ceil": "ceil",
    "trunc": "trunc",
    "nearest": "rint",
}


def _of_library(stem: str, arity: int) -> Any:
    """A function of NVIDIA's math library, on floats of either width."""

    def typed(kind: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            value = context.get_value_type(signature.return_type)
            single = signature.return_type == types.float32
            shape = ir.FunctionType(value, [value] * arity)
            name = f"__nv_{stem}{'f' if single else ''}"
            return builder.call(declared(builder.module, shape, name), args)

        return kind(*[kind] * arity), generate

    if arity == 1:

        @intrinsic  # type: ignore[untyped-decorator,unused-ignore]
        def unary(typing_context: Any, x: Any) -> Any:
            return typed(x)

        return unary

    @intrinsic  # type: ignore[untyped-decorator,unused-ignore]
    def binary(typing_context: Any, x: Any, y: Any) -> Any:
        return typed(x)

    return binary


def _cast(source: Any, target: Any, write: Callable[[Any, Any], Any]) -> Any:
    @intrinsic  # type: ignore[untyped-decorator,unused-ignore]
    def cast(typing_context: Any, value: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return write(builder, args[0])

        return target(source), generate

    return cast


@intrinsic  # type: ignore[untyped-decorator,unused-ignore]
def _offset_by(typing_context: Any, pointer: Any, elements: Any) -> Any:
    """The pointer some elements further on."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.gep(args[0], [args[1]])

    return pointer(pointer, types.int64), generate


def _half_value(builder: Any, bits: Any) -> Any:
    return builder.fpext(builder.bitcast(bits, ir.HalfType()), ir.FloatType())


def _half_bits(builder: Any, value: Any) -> Any:
    return builder.bitcast(builder.fptrunc(value, ir.HalfType()), ir.IntType(16))


def on_card(function: Any) -> Any:
    """A plain function as kernels can call it."""
    jit: Any = cuda.jit
    return jit(device=True)(function)


@cache
def routine_on_card(function: Any) -> Any:
    """A function over whole axes, with those that it calls."""
    plain: FunctionType = rebuilt_function(function, routine_on_card)
    return on_card(plain)


@cache
def names_on_card() -> dict[str, Any]:
    """What the names in the texts of kernels stand for."""
    own: dict[str, Any] = {
        "bits_of_single": _cast(
            types.float32, types.int32, lambda b, x: b.bitcast(x, ir.IntType(32))
        ),
        "single_of_bits": _cast(
            types.int32, types.float32, lambda b, x: b.bitcast(x, ir.FloatType())
        ),
        "half_value": _cast(types.uint16, types.float32, _half_value),
        "half_bits": _cast(types.float32, types.uint16, _half_bits),
        "offset_by": _offset_by,
        "array_at": carray,
    }
    own |= {name: _of_library(stem, 1) for name, stem in ROUNDINGS.items()}
    for name in LIBRARY:
        made = _of_library(name, 2 if name in OF_TWO else 1)
        own |= {f"{name}_{dtype}": made for dtype in ("float32", "float64")}
    return {**own, **shared_names(own, on_card), "cuda": cuda}
