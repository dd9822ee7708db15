"""Intrinsics of the math functions: bit casts, fused multiply-add, scaling, table lookup."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from structir.backend.cpu.features import has_fused


def declared(module: Any, shape: Any, name: str) -> Any:
    """Returns a function of the module by name, and declares it if necessary."""
    return module.globals.get(name) or ir.Function(module, shape, name)


def _bit_cast(source: Any, target: Any) -> Any:
    @intrinsic
    def cast(typing_context: Any, value: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return builder.bitcast(args[0], context.get_value_type(target))

        return target(source), generate

    return cast


def _fused(kind: Any) -> Any:
    @intrinsic
    def fma(typing_context: Any, a: Any, b: Any, c: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            if has_fused():
                return builder.fma(*args)
            wide = [builder.fpext(arg, ir.DoubleType()) for arg in args]
            total = builder.fadd(builder.fmul(*wide[:2]), wide[2])
            return builder.fptrunc(total, context.get_value_type(kind))

        return kind(kind, kind, kind), generate

    return fma


bits_of_single = _bit_cast(types.float32, types.int32)
single_of_bits = _bit_cast(types.int32, types.float32)
bits_of_double = _bit_cast(types.float64, types.int64)
double_of_bits = _bit_cast(types.int64, types.float64)
fma_single = _fused(types.float32)
fma_double = _fused(types.float64)


@intrinsic
def scale_single(typing_context: Any, value: Any, exponent: Any) -> Any:
    """Computes value * 2**exponent with one rounding, including subnormal results."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        single, integer = ir.FloatType(), ir.IntType(32)
        shape = ir.FunctionType(single, [single, integer])
        scale = declared(builder.module, shape, "llvm.ldexp.f32.i32")
        return builder.call(scale, args)

    return types.float32(types.float32, types.int32), generate


def table_lookup(name: str, values: Sequence[float]) -> Any:
    """Returns an intrinsic that loads an entry of a table of doubles; the index must be valid."""
    kind = ir.ArrayType(ir.DoubleType(), len(values))
    constant = ir.Constant(kind, [ir.Constant(kind.element, value) for value in values])

    @intrinsic
    def entry(typing_context: Any, index: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            table = context.insert_unique_const(builder.module, TABLES + name, constant)
            value = builder.load(builder.gep(table, [ir.Constant(ir.IntType(32), 0), args[0]]))
            value.set_metadata("alias.scope", _tables(builder.module))
            return value

        return types.float64(index), generate

    return entry


ACCESSES = (ir.LoadInstr, ir.StoreInstr)
TABLES = "structir.table."  # prefix of the names of tables


def _tables(module: Any) -> Any:
    """Returns the alias scope of all tables, for LLVM's alias analysis."""
    domain = module.add_metadata(["structir"])
    return module.add_metadata([module.add_metadata(["tables", domain])])


def apart_from_tables(function: Any) -> None:
    """Marks all other memory accesses of a function as not aliasing a table, so that loops that
    read tables can be vectorized."""
    if not any(name.startswith(TABLES) for name in function.module.globals):
        return
    scope = _tables(function.module)
    for instruction in [i for block in function.blocks for i in block.instructions]:
        if isinstance(instruction, ACCESSES) and "alias.scope" not in instruction.metadata:
            instruction.set_metadata("noalias", scope)
