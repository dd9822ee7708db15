"""Matrix products by SciPy's BLAS, called from kernels by symbol with row-major operands."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from structir.lazy import lazy_module
from structir.targets.cpu.arithmetic import declared
from structir.targets.cpu.objects import require_symbol, symbol_builders

cython_blas = lazy_module("scipy.linalg.cython_blas")

ROUTINES = {types.float32: "sgemm", types.float64: "dgemm"}
BLAS_DTYPES = frozenset({"float32", "float64"})


def _capsule_address(capsule: Any) -> int:
    api = ctypes.pythonapi
    name = api.PyCapsule_GetName
    name.restype, name.argtypes = ctypes.c_char_p, [ctypes.py_object]
    pointer = api.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return int(pointer(capsule, name(capsule)))


@cache
def register_blas() -> None:
    """Registers the BLAS routines as LLVM symbols named `structir_<routine>`."""
    capsules: Any = cython_blas.__pyx_capi__
    for routine in ROUTINES.values():
        address = _capsule_address(capsules[routine])
        llvm.add_symbol(f"structir_{routine}", address)


symbol_builders |= dict.fromkeys(
    [f"structir_{routine}" for routine in ROUTINES.values()], register_blas
)


def _registered(routine: str) -> str:
    """Registers a routine as an LLVM symbol; returns its name."""
    require_symbol(f"structir_{routine}")
    return routine


def _in_memory(builder: Any, value: Any) -> Any:
    with builder.goto_entry_block():
        slot = builder.alloca(value.type)
    builder.store(value, slot)
    return slot


@intrinsic
def multiply_matrices(
    typing_context: Any,
    a: Any,
    b: Any,
    c: Any,
    m: Any,
    n: Any,
    k: Any,
    a_row: Any,
    a_column: Any,
    b_row: Any,
    b_column: Any,
    c_row: Any,
) -> Any:
    """Computes c[m, n] = a[m, k] @ b[k, n]; each operand has stride 1 along one axis.

    BLAS is column-major: c' = b' @ a'. Leading dimensions are at least the length of a line.
    """
    routine = _registered(ROUTINES[a.dtype])

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        left, right, out, m, n, k, a_row, a_column, b_row, b_column, c_row = args
        integer, letter = ir.IntType(32), ir.IntType(8)
        real = context.get_value_type(signature.args[0].dtype)
        one, none = ir.Constant(m.type, 1), ir.Constant(k.type, 0)
        k = builder.select(builder.icmp_signed(">", k, none), k, none)  # no terms: zeros

        def at_least(value: Any, other: Any) -> Any:
            larger = builder.select(builder.icmp_signed(">", value, other), value, other)
            return builder.select(builder.icmp_signed(">", larger, one), larger, one)

        def layout(row: Any, column: Any, rows: Any, columns: Any) -> tuple[Any, Any]:
            # The stride of a single line is arbitrary; the other stride may be 1.
            plain = builder.icmp_signed("==", column, one)
            plain = builder.or_(plain, builder.icmp_signed("<=", columns, one))
            flipped = builder.icmp_signed("==", row, one)
            flipped = builder.and_(flipped, builder.icmp_signed("!=", column, one))
            flipped = builder.and_(flipped, builder.icmp_signed(">", columns, one))
            plain = builder.not_(flipped)
            stride = builder.select(plain, row, column)
            line = builder.select(plain, columns, rows)
            code = builder.select(
                plain, ir.Constant(letter, ord("N")), ir.Constant(letter, ord("T"))
            )
            return code, at_least(stride, line)

        a_code, a_leading = layout(a_row, a_column, m, k)
        b_code, b_leading = layout(b_row, b_column, k, n)
        leading = at_least(c_row, n)
        sizes = [builder.trunc(v, integer) for v in (n, m, k, b_leading, a_leading, leading)]
        n_, m_, k_, ldb, lda, ldc = [_in_memory(builder, v) for v in sizes]
        alpha = _in_memory(builder, ir.Constant(real, 1.0))
        beta = _in_memory(builder, ir.Constant(real, 0.0))
        codes = [_in_memory(builder, b_code), _in_memory(builder, a_code)]
        passed = [*codes, n_, m_, k_, alpha, right, ldb, left, lda, beta, out, ldc]
        shape = ir.FunctionType(ir.VoidType(), [v.type for v in passed])
        builder.call(declared(builder.module, shape, f"structir_{routine}"), passed)
        return context.get_dummy_value()

    return types.void(a, b, c, *[types.int64] * 8), generate
