"""Warp-level products of small matrices on the simulator: threads exchange values through shared
memory where the lanes of a warp would. All threads of a block call these functions together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from structir.ir.dtype import numpy_dtype
from structir.targets.cuda.fragments import PAIRS, PRODUCTS, functions_of_fragments

LOAD = """
def {name}(memory, place):
    places = cuda.shared.array(1024, int64)
    thread = cuda.threadIdx.x
    cuda.syncthreads()
    places[thread] = place
    cuda.syncthreads()
    rows = [places[(thread & ~31) + lane] for lane in range(32)]
    return words_of_{name}(memory, rows, thread & 31)
"""
PRODUCT = """
def multiply_{dtype}(*own):
    words = cuda.shared.array(6144, uint32)
    thread = cuda.threadIdx.x
    cuda.syncthreads()
    for k in range(6):
        words[thread * 6 + k] = own[k]
    cuda.syncthreads()
    warp = [words[(thread & ~31) * 6 + k] for k in range(192)]
    return product_of_{dtype}(warp, thread & 31, own[6:])
"""
LOADS = {"four_matrices": False, "four_matrices_turned": True}
GROUP, MEMBER = np.divmod(np.arange(32), 4)  # the position of a lane in its warp


def functions_of_warps(text: str) -> dict[str, str]:
    """Returns the functions of warps as source, if a kernel calls any."""
    functions = {name: LOAD.format(name=name) for name in LOADS}
    functions |= {f"multiply_{dtype}": PRODUCT.format(dtype=dtype) for dtype in PRODUCTS}
    functions |= functions_of_fragments()
    return functions if any(name in text for name in functions) else {}


def names() -> dict[str, Callable[..., Any]]:
    """Returns the helpers of these functions, and those that a lane runs alone."""
    functions: dict[str, Any] = {f"words_of_{name}": partial(_words, LOADS[name]) for name in LOADS}
    for dtype in PAIRS:
        functions[f"product_of_{dtype}"] = partial(_product, numpy_dtype(dtype))
        functions[f"pair_{dtype}"] = partial(_pair, numpy_dtype(dtype))
    return functions | {"product_of_tf32": _product_of_singles, "rounded_tf32": _rounded}


def _words(turned: bool, memory: Any, rows: Sequence[int], lane: int) -> tuple[Any, ...]:
    """Returns a lane's words of four matrices, whose rows start at these places."""
    line, pair = divmod(lane, 4)
    single = isinstance(memory[rows[0]], np.float32)
    if any(row % (4 if single else 8) for row in rows):
        raise ValueError("a row of a matrix begins at no multiple of 16 bytes")
    if single:
        return tuple([memory[rows[8 * k + line] + pair].view(np.uint32) for k in range(4)])
    words = []
    for matrix in (rows[:8], rows[8:16], rows[16:24], rows[24:]):
        both = (2 * pair, 2 * pair + 1)
        places = [matrix[b] + line if turned else matrix[line] + b for b in both]
        low, high = [np.uint32(memory[place]) for place in places]
        words.append(low | high << np.uint32(16))
    return tuple(words)


def _product(dtype: Any, warp: Sequence[Any], lane: int, totals: Sequence[Any]) -> tuple[Any, ...]:
    """Returns a lane's part of the product of two matrices, plus its part of a third one."""
    held = np.array(warp, np.uint32).view(dtype).astype(np.float32).reshape(32, 6, 2)
    left, right = np.empty((16, 16), np.float32), np.empty((16, 8), np.float32)
    for pair in range(2):
        for word in range(4):
            left[GROUP + word % 2 * 8, MEMBER * 2 + word // 2 * 8 + pair] = held[:, word, pair]
        for word in range(2):
            right[MEMBER * 2 + word * 8 + pair, GROUP] = held[:, 4 + word, pair]
    row, column = GROUP[lane], MEMBER[lane] * 2
    tile = left[[row, row + 8]] @ right[:, [column, column + 1]]
    return tuple([np.float32(a + b) for a, b in zip(tile.ravel(), totals, strict=True)])


def _product_of_singles(warp: Sequence[Any], lane: int, totals: Sequence[Any]) -> tuple[Any, ...]:
    """Does the same with factors of 10 bits; lower bits are ignored."""
    held = (np.array(warp, np.uint32) & 0xFFFFE000).view(np.float32).reshape(32, 6)
    left, right = np.empty((16, 8), np.float32), np.empty((8, 8), np.float32)
    for word in range(4):
        left[GROUP + word % 2 * 8, MEMBER + word // 2 * 4] = held[:, word]
    for word in range(2):
        right[MEMBER + word * 4, GROUP] = held[:, 4 + word]
    row, column = GROUP[lane], MEMBER[lane] * 2
    tile = left[[row, row + 8]] @ right[:, [column, column + 1]]
    return tuple([np.float32(a + b) for a, b in zip(tile.ravel(), totals, strict=True)])


def _rounded(value: Any) -> Any:
    bits = np.float32(value).view(np.uint32)
    return ((np.uint64(bits) + 0x1000) & 0xFFFFE000).astype(np.uint32).view(np.float32)


def _pair(dtype: Any, low: Any, high: Any) -> Any:
    return np.array([low, high], np.float32).astype(dtype).view(np.uint32)[0]
