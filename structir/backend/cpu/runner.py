"""The plan runner: all kernels of a plan in one compiled call, and the addresses that go in."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "_nrt": False}
WORDS = types.Array(types.int64, 1, "C")


@intrinsic
def _call_kernel(typing_context: Any, code: Any, arguments: Any, low: Any, high: Any) -> Any:
    """Call a kernel at an address, in numba's convention: two result slots first, a status back."""

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


call_kernel: Any = _call_kernel  # the decorator hides the first parameter from its callers


@njit(types.int64(WORDS, WORDS, WORDS, WORDS), **OPTIONS)
def run_program(program: Any, arguments: Any, patches: Any, addresses: Any) -> Any:
    """Write the outside addresses into the argument block, then call the kernels in order.

    `program` holds rows of (code, arguments, low, high), `patches` pairs of (place in the block,
    which address). The result is 0, or 1 + the row at which a kernel failed.
    """
    for i in range(patches.size // 2):
        arguments[patches[2 * i]] = addresses[patches[2 * i + 1]]
    for i in range(program.size // 4):
        row = 4 * i
        status = call_kernel(program[row], program[row + 1], program[row + 2], program[row + 3])
        if status != 0:
            return i + 1
    return 0


def _data_address(array: Any) -> Any:
    return array.ctypes.data


@cache
def address_of(dtype: str, rank: int) -> Callable[[Any], int]:
    """A function from a C-contiguous array of this dtype and rank to its address.

    It raises TypeError for everything else: the check of an argument comes with the address.
    """
    element = numba.from_dtype(np.dtype(dtype))
    forms = [types.Array(element, rank, "C", readonly=readonly) for readonly in (False, True)]
    function: Callable[[Any], int] = njit([types.int64(form) for form in forms], **OPTIONS)(
        _data_address
    )
    return function
