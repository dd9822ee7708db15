"""Sequentially consistent atomic operations on 64-bit words, for compiled code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir

from structir.targets.cpu.arithmetic import declared
from structir.targets.cpu.kinds import BOOLEAN, INDEX, NOTHING, WORDS, Kind, intrinsic

WORD_BYTES = 8
ORDER = "seq_cst"


@intrinsic(INDEX, WORDS)
def atomic_read(builder: Any, args: Sequence[Any], kinds: Sequence[Kind]) -> Any:
    """Emits a load."""
    return builder.load_atomic(args[0], ORDER, WORD_BYTES)


@intrinsic(NOTHING, WORDS, INDEX)
def atomic_write(builder: Any, args: Sequence[Any], kinds: Sequence[Kind]) -> Any:
    """Emits a store."""
    builder.store_atomic(args[1], args[0], ORDER, WORD_BYTES)


def _exchange(operation: str) -> Any:
    """Returns the intrinsic of an operation that returns the previous value."""

    @intrinsic(INDEX, WORDS, INDEX)
    def exchange(builder: Any, args: Sequence[Any], kinds: Sequence[Kind]) -> Any:
        return builder.atomic_rmw(operation, *args, ORDER)

    return exchange


@intrinsic(BOOLEAN, WORDS, INDEX, INDEX)
def atomic_replace(builder: Any, args: Sequence[Any], kinds: Sequence[Kind]) -> Any:
    """Emits a compare-and-swap of a pointer, an expected value and a new one; whether it has
    written."""
    return builder.extract_value(builder.cmpxchg(*args, ORDER, ORDER), 1)


@intrinsic(NOTHING)
def pause(builder: Any, args: Sequence[Any], kinds: Sequence[Kind]) -> Any:
    """Emits a spin-wait hint (`pause` on x86)."""
    if llvm.get_process_triple().startswith("x86_64"):
        shape = ir.FunctionType(ir.VoidType(), [])
        builder.call(declared(builder.module, shape, "llvm.x86.sse2.pause"), [])


atomic_add: Any = _exchange("add")
atomic_set: Any = _exchange("xchg")
