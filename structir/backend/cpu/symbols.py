"""Calls of functions by symbol."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from structir.backend.cpu.objects import require_symbol
from structir.backend.math.bits import declared


def extern(name: str) -> Any:
    """Returns a function at a symbol, for compiled code, which passes a tuple of arguments."""

    @intrinsic
    def call(typing_context: Any, args: Any) -> Any:
        require_symbol(name)
        return types.void(args), call_with_fields(name, len(args.types))

    return call


def call_with_fields(name: str, count: int) -> Any:
    """Returns the code generation of an intrinsic that calls a symbol with the fields of a
    tuple."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        fields = [builder.extract_value(values[0], i) for i in range(count)]
        shape = ir.FunctionType(ir.VoidType(), [v.type for v in fields])
        builder.call(declared(builder.module, shape, name), fields)
        return context.get_dummy_value()

    return generate
