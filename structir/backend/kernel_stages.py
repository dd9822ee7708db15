"""Lowers calls of the program's own kernels to stages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from structir.analysis.kernel_calls import KernelSizeEquation, bind_kernel
from structir.backend.loops.buffer import Buffer
from structir.backend.loops.from_point import NoKernelError
from structir.backend.loops.packing import constant_panels
from structir.backend.loops.routine import KernelCode, code_of
from structir.backend.loops.stage import Routine, Stage, routine_stages
from structir.ir import dims
from structir.ir.dims import Dim, Sym
from structir.ir.kernel import Kernel
from structir.ir.struct_info import PrimStructInfo, StructInfo, TensorStructInfo

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
    pairs = zip(kernel.operands, operands, strict=True)
    constant = [p for p, b in pairs if isinstance(b, Buffer) and b.root.data is not None]
    code = code_of(kernel, frozenset(constant))
    results = [
        Buffer(shape, result.struct_info.dtype)  # type: ignore[attr-defined]
        for shape, result in zip(result_shapes, kernel.results, strict=True)
    ]
    filled: list[KernelOperand] = [*operands, *results]
    infos = [
        _info(param, value) for param, value in zip(code.info.params or (), filled, strict=True)
    ]
    bound = bind_kernel(code.info, infos)
    if any(symbol not in bound.sizes for symbol in code.symbols):
        raise NoKernelError("a size that is computed in the kernel")
    by_param = dict(zip(kernel.params, filled, strict=True))
    routine = _routine(code, by_param, bound.sizes)
    reads = [value for value in operands if isinstance(value, Buffer)]
    stages = routine_stages(reads, results, routine, origin)
    return LoweredCall(stages, results, bound.equations)


def _info(param: StructInfo, value: KernelOperand) -> StructInfo:
    """Returns the StructInfo of an argument; for a number in memory, that of its parameter."""
    if not isinstance(value, Buffer):
        return PrimStructInfo("int64", value)
    return (
        param if isinstance(param, PrimStructInfo) else TensorStructInfo(value.shape, value.dtype)
    )


def _routine(
    code: KernelCode, values: Mapping[Any, KernelOperand], sizes: Mapping[Sym, Dim]
) -> Routine:
    scratch: list[Buffer] = []
    buffers: list[Buffer] = []
    for array in code.arrays:
        value = values.get(array)
        if array in code.panels:
            source, form = code.panels[array]
            original = values[source]
            assert isinstance(original, Buffer)
            value = constant_panels(original, form)
        if not isinstance(value, Buffer):
            shape = tuple([dims.substitute(dim, sizes) for dim in code.shapes[array]])
            value = Buffer(shape, array.struct_info.dtype, "scratch")  # type: ignore[attr-defined]
            scratch.append(value)
        buffers.append(value.root)
    routine_sizes = tuple([dims.substitute(dim, sizes) for dim in code.sizes])
    parted = code.part is not None
    launch = code.launch and (dims.substitute(code.launch[0], sizes), code.launch[1])
    return Routine(
        code.lines,
        tuple(buffers),
        tuple(scratch),
        routine_sizes,
        code.sites,
        code.names,
        range=1 if code.part is None else dims.substitute(code.part, sizes),
        spread=code.spread,
        parted=parted,
        launch=launch,
        zeroed=len(code.zeroed),
    )
