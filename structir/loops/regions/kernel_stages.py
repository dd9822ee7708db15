"""Lowers calls of the program's own kernels to stages."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from structir.analysis.kernel_calls import KernelSizeEquation, bind_kernel
from structir.ir.dims import Dim
from structir.ir.kernel import Kernel
from structir.ir.struct_info import PrimStructInfo, StructInfo, TensorStructInfo
from structir.loops.program.buffer import Buffer
from structir.loops.program.expression import NoKernelError
from structir.loops.program.kernel_table import table_of
from structir.loops.program.stage import KernelCall, Stage, routine_stages

KernelOperand = Buffer | Dim  # a tensor, or an integer of a size


@attrs.frozen(eq=False)
class LoweredCall:
    """The stages of a call, the buffers that they fill, and the sizes that must be equal."""

    stages: list[Stage]
    results: list[Buffer]
    equations: tuple[KernelSizeEquation, ...]


def lowered_call(
    kernel: Kernel,
    operands: Sequence[KernelOperand],
    result_shapes: Sequence[tuple[Dim, ...]],
    origin: str,
) -> LoweredCall:
    """Lowers a call on these buffers and integers, with results of the declared sizes."""
    table = table_of(kernel)
    results = [
        Buffer(shape, result.struct_info.dtype)  # type: ignore[attr-defined]
        for shape, result in zip(result_shapes, kernel.results, strict=True)
    ]
    filled: list[KernelOperand] = [*operands, *results]
    infos = [_info(param, value) for param, value in zip(table.infos, filled, strict=True)]
    bound = bind_kernel(table.struct_info, infos)
    if any(symbol not in bound.sizes for symbol in table.symbols):
        raise NoKernelError("a size that is computed in the kernel")
    call = KernelCall(kernel, dict(zip(kernel.params, filled, strict=True)), bound.sizes)
    reads = [value for value in operands if isinstance(value, Buffer)]
    return LoweredCall(routine_stages(reads, results, call, origin), results, bound.equations)


def _info(param: StructInfo, value: KernelOperand) -> StructInfo:
    """Returns the StructInfo of an argument; for a number in memory, that of its parameter."""
    if not isinstance(value, Buffer):
        return PrimStructInfo("int64", value)
    return (
        param if isinstance(param, PrimStructInfo) else TensorStructInfo(value.shape, value.dtype)
    )
