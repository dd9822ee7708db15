"""Sequentially consistent atomic operations on 64-bit words, for compiled code."""

from __future__ import annotations

from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from structir.targets.cpu.arithmetic import declared

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
def _atomic_replace(typing_context: Any, pointer: Any, expected: Any, value: Any) -> Any:
    """Emits a compare-and-swap; whether it has written the value."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pair = builder.cmpxchg(*args, ORDER, ORDER)
        return builder.extract_value(pair, 1)

    return types.boolean(pointer, types.int64, types.int64), generate


@intrinsic
def _pause(typing_context: Any) -> Any:
    """Emits a spin-wait hint (`pause` on x86)."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        if llvm.get_process_triple().startswith("x86_64"):
            shape = ir.FunctionType(ir.VoidType(), [])
            builder.call(declared(builder.module, shape, "llvm.x86.sse2.pause"), [])
        return context.get_dummy_value()

    return types.void(), generate


# `intrinsic` passes the typing context itself; callers omit it, which type checkers do not see.
atomic_read: Any = _atomic_read
atomic_write: Any = _atomic_write
atomic_replace: Any = _atomic_replace
atomic_add: Any = _exchange("add")  # returns the previous value
atomic_set: Any = _exchange("xchg")  # returns the previous value
pause: Any = _pause
