"""Indirect calls of kernels and C functions from compiled code."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic


@intrinsic
def _call_kernel(typing_context: Any, code: Any, arguments: Any, low: Any, high: Any) -> Any:
    """Calls a kernel by address; returns its status, 0 on success.

    numba's calling convention has two result slots as the first parameters.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        word, pointer = ir.IntType(64), ir.IntType(8).as_pointer()
        table = word.as_pointer()
        slots = [pointer.as_pointer(), pointer.as_pointer()]
        shape = ir.FunctionType(ir.IntType(32), [*slots, table, word, word])
        function = builder.inttoptr(args[0], shape.as_pointer())
        with builder.goto_entry_block():
            result, error = builder.alloca(pointer), builder.alloca(pointer)
        block = builder.inttoptr(args[1], table)
        status = builder.call(function, [result, error, block, args[2], args[3]])
        return builder.sext(status, word)

    return types.int64(types.int64, types.int64, types.int64, types.int64), generate


@intrinsic
def _call_c(typing_context: Any, code: Any, args: Any) -> Any:
    """Calls a C function by address with a tuple of words; returns a word."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        word = ir.IntType(64)
        fields = [builder.extract_value(values[1], i) for i in range(len(args.types))]
        shape = ir.FunctionType(word, [word] * len(fields))
        return builder.call(builder.inttoptr(values[0], shape.as_pointer()), fields)

    return types.int64(types.int64, args), generate


call_kernel: Any = _call_kernel  # typed as Any, because callers omit the typing context
call_c: Any = _call_c
