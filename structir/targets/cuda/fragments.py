"""Warp-level products of small matrices (mma) of 16-bit floats, and of float32 with factors rounded
to 10 bits (tf32), as functions in LLVM IR.

A matrix is in the registers of a warp, one fragment per lane. A lane has four words of two elements
of 16 rows and 16 terms of the left factor, two words of 16 terms and 8 columns of the right one,
and four float32 of 16 rows and 8 columns of the result:

    at 0, 1   row lane // 4,      columns lane % 4 * 2 and the next one
    at 2, 3   row lane // 4 + 8,  the same columns

In tf32 a word is one element: a lane has four of 16 rows and 8 terms, and two of 8 terms and 8
columns. All lanes of a warp call these functions together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir
from numba import types

from structir.targets.cpu.arithmetic import declared
from structir.targets.cpu.operations import Operations, Typed, UntranslatedError
from structir.targets.cuda.threads import LANE, InlinedFunction


class Brain(ir.Type):  # type: ignore[misc]
    """LLVM's bfloat16, which llvmlite does not support."""

    def _to_string(self) -> str:
        return "bfloat"


SINGLE, HALVES = ir.FloatType(), ir.VectorType(ir.HalfType(), 2)
SHARED = 3  # LLVM's address space of shared memory
LOAD = "llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4{}.b16.p3"
PRODUCTS = {
    "float16": ("llvm.nvvm.mma.m16n8k16.row.col.f32.f32", HALVES),
    "bfloat16": ("llvm.nvvm.mma.m16n8k16.row.col.bf16", LANE),
    "tf32": ("llvm.nvvm.mma.m16n8k8.row.col.tf32", LANE),
}
ROUND = "llvm.nvvm.f2tf32.rna"
PAIRS = {
    "float16": ("llvm.nvvm.ff2f16x2.rn", HALVES),
    "bfloat16": ("llvm.nvvm.ff2bf16x2.rn", ir.VectorType(Brain(), 2)),
}
# Fragments of 16 x 16 elements of shared memory, from `at` on, with `step` elements from a line to
# the next one: `at` and `step` are multiples of 8. A line is a row of the left factor, or a term of
# the right one; turned, a term of the left one, or a column of the right one. Of the right factor
# these are two fragments, of 8 columns each. Of tf32 there are 16 rows, or 16 columns, of 8 terms,
# whose lines are multiples of 4 elements.
FIRST, SECOND = ("lane & 15", "lane >> 4"), ("lane & 7 | lane >> 4 << 3", "lane >> 3 & 1")
FRAGMENTS = {
    "left_fragment": ("four_matrices", *FIRST, 8),
    "left_fragment_turned": ("four_matrices_turned", *SECOND, 8),
    "right_fragments": ("four_matrices_turned", *FIRST, 8),
    "right_fragments_turned": ("four_matrices", *SECOND, 8),
    "left_fragment_tf32": ("four_matrices", *FIRST, 4),
    "right_fragments_tf32": ("four_matrices", *SECOND, 4),
}
FRAGMENT = """
def {name}(memory, at, step):
    lane = cuda.threadIdx.x & 31
    return {load}(memory, at + ({line}) * step + ({part}) * {width})
"""


# GPUs before sm_80 have no such instruction: lanes exchange their words by shuffles.
OLDER = {
    "multiply": """
def multiply_{dtype}(a0, a1, a2, a3, b0, b1, c0, c1, c2, c3):
    lane = cuda.threadIdx.x & 31
    for k in range(4):
        row, column = (lane & 28) + k, ((lane & 3) << 3) + k
        x0, x1 = shuffle_from_uint32(a0, row), shuffle_from_uint32(a1, row)
        x2, x3 = shuffle_from_uint32(a2, row), shuffle_from_uint32(a3, row)
        y0, y1 = shuffle_from_uint32(b0, column), shuffle_from_uint32(b1, column)
        z0, z1 = shuffle_from_uint32(b0, column + 4), shuffle_from_uint32(b1, column + 4)
        c0 = with_pairs_{dtype}(x2, y1, with_pairs_{dtype}(x0, y0, c0))
        c1 = with_pairs_{dtype}(x2, z1, with_pairs_{dtype}(x0, z0, c1))
        c2 = with_pairs_{dtype}(x3, y1, with_pairs_{dtype}(x1, y0, c2))
        c3 = with_pairs_{dtype}(x3, z1, with_pairs_{dtype}(x1, z0, c3))
    return c0, c1, c2, c3
""",
    "with_pairs": """
def with_pairs_{dtype}(x, y, total):
    total = total + {value}(uint16(x & 0xFFFF)) * {value}(uint16(y & 0xFFFF))
    return total + {value}(uint16(x >> 16)) * {value}(uint16(y >> 16))
""",
    "pair": """
def pair_{dtype}(low, high):
    return uint32(uint32({bits}(low)) | uint32({bits}(high)) << 16)
""",
}
OLDER_SINGLES = {
    "with_pairs_tf32": """
def with_pairs_tf32(x, y, total):
    return total + single_of_word(x) * single_of_word(y)
""",
    "rounded_tf32": """
def rounded_tf32(x):
    return x
""",
}


def functions_of_fragments(older: bool = False) -> dict[str, str]:
    """Returns the functions that load fragments with ldmatrix, and those that replace missing
    instructions on `older` GPUs."""
    functions = {
        name: FRAGMENT.format(name=name, load=load, line=line, part=part, width=width)
        for name, (load, line, part, width) in FRAGMENTS.items()
    }
    for dtype, kind in (("float16", "half"), ("bfloat16", "brain")) if older else ():
        facts = {"dtype": dtype, "value": f"{kind}_value", "bits": f"{kind}_bits"}
        functions |= {f"{name}_{dtype}": text.format(**facts) for name, text in OLDER.items()}
    if older:
        functions |= {"multiply_tf32": OLDER["multiply"].format(dtype="tf32"), **OLDER_SINGLES}
    return functions


def _four_matrices(turned: bool) -> InlinedFunction:
    """Loads four matrices of 8 x 8 elements from shared memory: eight lanes give the row addresses
    of each. A lane gets two neighbours of a row of each matrix, or if transposed, of a column."""

    def write(operations: Operations, args: Sequence[Typed]) -> Typed:
        (memory, place), builder = args, operations.builder
        single = getattr(memory.kind, "dtype", None) == types.float32 and not turned
        if getattr(memory.kind, "dtype", None) not in (types.uint16, types.int16) and not single:
            raise UntranslatedError(f"matrices of {memory.kind}")
        row = builder.gep(memory.value, [operations.cast(place, types.int64)])
        kind = ir.IntType(16).as_pointer(SHARED)
        if row.type.addrspace != SHARED:
            row = builder.addrspacecast(row, kind)
        row = builder.bitcast(row, kind)
        shape = ir.FunctionType(ir.LiteralStructType([LANE] * 4), [row.type])
        name = LOAD.format(".trans" if turned else "")
        return _taken_apart(operations, builder.call(declared(builder.module, shape, name), [row]))

    return InlinedFunction(write)


def _product(dtype: str) -> InlinedFunction:
    """Multiplies two fragments and adds the result's: `multiply_float16(a0, ..., a3, b0, b1, c0,
    ..., c3)` returns the new c0 to c3."""
    name, held = PRODUCTS[dtype]

    def write(operations: Operations, args: Sequence[Typed]) -> Typed:
        builder = operations.builder
        factors, totals = args[:6], [operations.cast(a, types.float32) for a in args[6:]]
        shape = ir.FunctionType(ir.LiteralStructType([SINGLE] * 4), [*[held] * 6, *[SINGLE] * 4])
        words = [operations.cast(a, types.uint32) for a in factors]
        words = [word if held is LANE else builder.bitcast(word, held) for word in words]
        result = builder.call(declared(builder.module, shape, name), [*words, *totals])
        return _taken_apart(operations, result, types.float32)

    return InlinedFunction(write)


def _pair(dtype: str) -> InlinedFunction:
    """Packs two float32 into a word of a fragment, the first one in its lower half."""
    name, held = PAIRS[dtype]

    def write(operations: Operations, args: Sequence[Typed]) -> Typed:
        builder = operations.builder
        low, high = [operations.cast(a, types.float32) for a in args]
        function = declared(builder.module, ir.FunctionType(held, [SINGLE] * 2), name)
        return Typed(builder.bitcast(builder.call(function, [high, low]), LANE), types.uint32)

    return InlinedFunction(write)


def _rounded(operations: Operations, args: Sequence[Typed]) -> Typed:
    """Rounds a float32 to 10 bits."""
    builder = operations.builder
    function = declared(builder.module, ir.FunctionType(LANE, [SINGLE]), ROUND)
    word = builder.call(function, [operations.cast(args[0], types.float32)])
    return Typed(builder.bitcast(word, SINGLE), types.float32)


def _single(operations: Operations, args: Sequence[Typed]) -> Typed:
    """Converts a word of a fragment to a float32."""
    word = operations.cast(args[0], types.uint32)
    return Typed(operations.builder.bitcast(word, SINGLE), types.float32)


def _taken_apart(operations: Operations, result: Any, kind: Any = types.uint32) -> Typed:
    parts = [operations.builder.extract_value(result, k) for k in range(4)]
    return operations.together([Typed(part, kind) for part in parts])


NAMES = {
    "four_matrices": _four_matrices(False),
    "four_matrices_turned": _four_matrices(True),
    **{f"multiply_{dtype}": _product(dtype) for dtype in PRODUCTS},
    **{f"pair_{dtype}": _pair(dtype) for dtype in PAIRS},
    "rounded_tf32": InlinedFunction(_rounded),
    "single_of_word": InlinedFunction(_single),
}
