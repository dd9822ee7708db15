"""Indirect calls of kernels and C functions from compiled code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir

from structir.targets.cpu.kinds import (
    INDEX,
    Intrinsic,
    Kind,
    Signature,
    intrinsic,
    is_pointer,
)

WORD = ir.IntType(64)


@intrinsic(INDEX, INDEX, INDEX, INDEX, INDEX)
def call_kernel(builder: Any, args: Sequence[Any], kinds: Sequence[Kind]) -> Any:
    """Calls a kernel by address with its table and range; returns its status, 0 on success.

    The calling convention, which is numba's, has two result slots as the first parameters.
    """
    code, block, low, high = args
    pointer, table = ir.IntType(8).as_pointer(), WORD.as_pointer()
    slots = [pointer.as_pointer(), pointer.as_pointer()]
    shape = ir.FunctionType(ir.IntType(32), [*slots, table, WORD, WORD])
    function = builder.inttoptr(code, shape.as_pointer())
    with builder.goto_entry_block():
        result, error = builder.alloca(pointer), builder.alloca(pointer)
    status = builder.call(function, [result, error, builder.inttoptr(block, table), low, high])
    return builder.sext(status, WORD)


def _call_signature(code: Kind, fields: Kind) -> Signature:
    return INDEX, (INDEX, tuple([f if is_pointer(f) else INDEX for f in fields]))


def _write_call(builder: Any, args: Sequence[Any], kinds: Sequence[Kind]) -> Any:
    code, fields = args
    shape = ir.FunctionType(WORD, [field.type for field in fields])
    return builder.call(builder.inttoptr(code, shape.as_pointer()), fields)


# Calls a C function by address with a tuple of words and pointers; returns a word.
call_c: Any = Intrinsic(_call_signature, _write_call)
