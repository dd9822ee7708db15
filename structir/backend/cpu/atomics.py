"""What threads say to each other: single words that are read and written in one order for all."""

from __future__ import annotations

from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from structir.backend.math.bits import declared

WORD_BYTES = 8
ORDER = "seq_cst"


@intrinsic
def _atomic_read(typing_context: Any, pointer: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load_atomic(args[0], ORDER, WORD_BYTES)

    return types.int64(pointer), generate


@intrinsic
def _atomic_write(typing_context: Any, pointer: Any, value: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.store_atomic(args[1], args[0], ORDER, WORD_BYTES)
        return context.get_dummy_value()

    return types.void(pointer, types.int64), generate


def _exchange(operation: str) -> Any:
    @intrinsic
    def exchange(typing_context: Any, pointer: Any, value: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return builder.atomic_rmw(operation, args[0], args[1], ORDER)

        return types.int64(pointer, types.int64), generate

    return exchange


@intrinsic
def _pause(typing_context: Any) -> Any:
    """A hint that this thread waits for another one."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        if llvm.get_process_triple().startswith("x86_64"):
            shape = ir.FunctionType(ir.VoidType(), [])
            builder.call(declared(builder.module, shape, "llvm.x86.sse2.pause"), [])
        return context.get_dummy_value()

    return types.void(), generate


# The decorator hides the first parameter from the callers of these.
atomic_read: Any = _atomic_read
atomic_write: Any = _atomic_write
atomic_add: Any = _exchange("add")  # the value before
atomic_set: Any = _exchange("xchg")  # the value before
pause: Any = _pause
