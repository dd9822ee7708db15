"""Runs kernels that the host calls outside of any region."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import numpy as np

from structir.interpret.kernels import run_kernel
from structir.interpret.scope import Activation, Value
from structir.ir import dims
from structir.ir.dims import Dim
from structir.ir.kernel import Kernel
from structir.ir.struct_info import PrimStructInfo, StructInfo, TensorStructInfo
from structir.loops.program.buffer import Buffer
from structir.loops.program.kernel_table import table_of
from structir.loops.program.stage import LoopProgram
from structir.loops.regions.kernel_stages import KernelOperand, lowered_call
from structir.loops.regions.region import LoweredRegion, checks_of
from structir.runtime.compiled_region import CompiledRegion, lowered_region


@attrs.frozen(eq=False)
class KernelRunner:
    """Runs kernels for the host; each is compiled at its first call."""

    regions: dict[Kernel, CompiledRegion] = attrs.Factory(dict)

    def __call__(self, kernel: Kernel, values: Sequence[Value], scope: Activation) -> None:
        """Fills the arrays of the results; kernels with GPU threads are interpreted."""
        if kernel.blocks is not None:
            run_kernel(kernel, values, scope)
            return
        if kernel not in self.regions:
            self.regions[kernel] = lowered_region(_alone(kernel))
        region, table = self.regions[kernel], table_of(kernel)
        operands = set(kernel.operands)
        arrays, sizes = [], dict(scope.sizes)
        for param, info, value in zip(kernel.params, table.infos, values, strict=True):
            if isinstance(info, PrimStructInfo) and info.dtype == "int64":
                sizes[dims.as_sym(info.value)] = int(value)  # type: ignore[arg-type]
            elif param in operands:
                number = isinstance(info, PrimStructInfo)
                arrays.append(np.asarray(value, _dtype(info)) if number else value)
        results = list(values[len(kernel.operands) :])
        dense = [r if r.flags.c_contiguous else np.empty(r.shape, r.dtype) for r in results]
        region(arrays, sizes, out=dense)
        for result, buffer in zip(results, dense, strict=True):
            if result is not buffer:
                result[...] = buffer


def _dtype(info: StructInfo) -> str:
    return str(info.dtype)  # type: ignore[attr-defined]


def _alone(kernel: Kernel) -> LoweredRegion:
    """Returns a kernel as a region over its own parameters."""
    read = set(kernel.operands)
    operands: list[KernelOperand] = []
    shapes: list[tuple[Dim, ...]] = []
    for param, info in zip(kernel.params, table_of(kernel).infos, strict=True):
        if isinstance(info, PrimStructInfo):
            if info.dtype == "int64" and info.value is not None:
                operands.append(info.value)
            else:
                operands.append(Buffer((), str(info.dtype), "input", name=param.name))
        elif isinstance(info, TensorStructInfo) and param in read:
            operands.append(Buffer(info.dims, str(info.dtype), "input", name=param.name))
        elif isinstance(info, TensorStructInfo):
            shapes.append(info.dims)
    call = lowered_call(kernel, operands, shapes, kernel.name)
    inputs = tuple([value for value in operands if isinstance(value, Buffer)])
    program = LoopProgram(inputs, (), tuple(call.results), tuple(call.stages))
    return LoweredRegion(program, (), tuple(call.results), checks_of(kernel, call))
