"""Matrix products by SciPy's BLAS, called from kernels by symbol with row-major operands."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir

from structir.lazy import lazy_module
from structir.targets.cpu.arithmetic import declared
from structir.targets.cpu.kinds import INDEX, NOTHING, Intrinsic, Kind, element_of
from structir.targets.cpu.objects import require_symbol, symbol_builders

cython_blas = lazy_module("scipy.linalg.cython_blas")

ROUTINES = {"float32": "sgemm", "float64": "dgemm"}
BLAS_DTYPES = frozenset(ROUTINES)


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


def _layout(builder: Any, row: Any, column: Any, rows: Any, columns: Any) -> tuple[Any, Any]:
    """Emits the letter of an operand's layout, and its leading dimension."""
    one = ir.Constant(row.type, 1)
    # The stride of a single line is arbitrary; the other stride may be 1.
    flipped = builder.icmp_signed("==", row, one)
    flipped = builder.and_(flipped, builder.icmp_signed("!=", column, one))
    flipped = builder.and_(flipped, builder.icmp_signed(">", columns, one))
    plain = builder.not_(flipped)
    stride = builder.select(plain, row, column)
    line = builder.select(plain, columns, rows)
    letters = [ir.Constant(ir.IntType(8), ord(letter)) for letter in "NT"]
    return builder.select(plain, *letters), _at_least(builder, stride, line)


def _at_least(builder: Any, value: Any, other: Any) -> Any:
    one = ir.Constant(value.type, 1)
    larger = builder.select(builder.icmp_signed(">", value, other), value, other)
    return builder.select(builder.icmp_signed(">", larger, one), larger, one)


def _write_product(builder: Any, args: Sequence[Any], kinds: Sequence[Kind]) -> None:
    """Computes c[m, n] = a[m, k] @ b[k, n]; each operand has stride 1 along one axis.

    BLAS is column-major: c' = b' @ a'. Leading dimensions are at least the length of a line.
    """
    left, right, out, m, n, k, a_row, a_column, b_row, b_column, c_row = args
    real = left.type.pointee
    none = ir.Constant(k.type, 0)
    k = builder.select(builder.icmp_signed(">", k, none), k, none)  # no terms: zeros
    a_code, a_leading = _layout(builder, a_row, a_column, m, k)
    b_code, b_leading = _layout(builder, b_row, b_column, k, n)
    sizes = (n, m, k, b_leading, a_leading, _at_least(builder, c_row, n))
    words = [builder.trunc(v, ir.IntType(32)) for v in sizes]
    n_, m_, k_, ldb, lda, ldc = [_in_memory(builder, word) for word in words]
    alpha = _in_memory(builder, ir.Constant(real, 1.0))
    beta = _in_memory(builder, ir.Constant(real, 0.0))
    codes = [_in_memory(builder, b_code), _in_memory(builder, a_code)]
    passed = [*codes, n_, m_, k_, alpha, right, ldb, left, lda, beta, out, ldc]
    shape = ir.FunctionType(ir.VoidType(), [v.type for v in passed])
    routine = _registered(ROUTINES[element_of(kinds[0])])
    builder.call(declared(builder.module, shape, f"structir_{routine}"), passed)


multiply_matrices: Any = Intrinsic(
    lambda *kinds: (NOTHING, (*kinds[:3], *[INDEX] * 8)), _write_product
)
