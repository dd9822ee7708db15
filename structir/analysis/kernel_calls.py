"""Kernel calls: binds a kernel's dims to those of operands and results, and checks them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import attrs

from structir.analysis.calls import Binder, are_disjoint
from structir.analysis.lattice import FAIL_L1, base_check
from structir.errors import Diagnostic, StructInfoError
from structir.ir.binding_dims import own_dims
from structir.ir.dims import Dim, Sym, equal
from structir.ir.struct_info import (
    KernelStructInfo,
    PrimStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)


@attrs.frozen
class KernelSizeEquation:
    """An equation between a declared size of a kernel, in the caller's dims, and the actual one."""

    declared: Dim
    actual: Dim
    where: str


@attrs.frozen(eq=False)
class BoundKernel:
    """A kernel's own dims in terms of the caller's, with equations to check at run time."""

    sizes: Mapping[Sym, Dim]
    equations: tuple[KernelSizeEquation, ...]


def kernel_result(
    kernel: KernelStructInfo, operands: Sequence[StructInfo], declared: Sequence[StructInfo]
) -> StructInfo:
    """Returns the StructInfo of a kernel call: its declared result, or a tuple of several."""
    operand_count = len(kernel.params or ()) - kernel.results
    counts = (
        ("result", kernel.results, len(declared)),
        ("operand", operand_count, len(operands)),
    )
    for noun, expected, count in counts:
        if count != expected:
            message = f"expected {expected} {noun}{'s' * (expected != 1)}, found {count}"
            hint = "results are the last parameters, from the first one that the kernel writes"
            raise StructInfoError(Diagnostic(message, hint=hint, code="E0213"))
    for info in declared:
        complete = isinstance(info, TensorStructInfo) and type(info.dims) is tuple and info.element
        if not complete:
            hint = 'declare them: `out_sinfo=R.Tensor((n,), "float32")`'
            message = f"expected a result with known sizes and dtype, found {info}"
            raise StructInfoError(Diagnostic(message, hint=hint, code="E0214"))
    bind_kernel(kernel, [*operands, *declared])
    return declared[0] if len(declared) == 1 else TupleStructInfo(tuple(declared))


def bind_kernel(kernel: KernelStructInfo, actual: Sequence[StructInfo]) -> BoundKernel:
    """Binds a kernel's dims to operands and results.

    Raises StructInfoError if one of them does not match its parameter.
    """
    binder = Binder(kernel)
    equations: list[KernelSizeEquation] = []
    operands = len(actual) - kernel.results
    for index, (param, info) in enumerate(zip(kernel.params or (), actual, strict=True)):
        binder.bind(param, info)
        declared = binder.resolve(param, {})
        operand = f"operand {index}" if index < operands else f"result {index - operands}"
        pairs = list(_sizes(declared, info))
        differ = any(
            equal(declared_size, actual_size) is False for declared_size, actual_size in pairs
        )
        if differ or base_check(declared, info) <= FAIL_L1:
            raise _mismatch(operand, param, declared, info)
        equations += [
            KernelSizeEquation(declared_size, actual_size, f"{operand}, axis {axis}")
            for axis, (declared_size, actual_size) in enumerate(pairs)
            if not equal(declared_size, actual_size)
        ]
    dims = own_dims(kernel)
    sizes = {s: d for s, d in binder.sizes.items() if s in dims}
    return BoundKernel(sizes, tuple(equations))


def _sizes(declared: StructInfo, actual: StructInfo) -> Iterator[tuple[Dim, Dim]]:
    """Yields the pairs of sizes at the same positions."""
    match declared, actual:
        case PrimStructInfo(value=declared_size), PrimStructInfo(value=actual_size):
            if declared_size is not None and actual_size is not None:
                yield declared_size, actual_size
        case TensorStructInfo(dims=tuple() as declared_dims), TensorStructInfo(
            dims=tuple() as actual_dims
        ):
            yield from zip(declared_dims, actual_dims, strict=False)


def _mismatch(
    subject: str, param: StructInfo, declared: StructInfo, info: StructInfo
) -> StructInfoError:
    diagnostic = Diagnostic(f"{subject}: expected {declared}, found {info}", code="E0207")
    if declared != param:
        diagnostic = diagnostic.note(f"the parameter is {param}, with dims bound by the arguments")
    hint = f"change the operand, or annotate the parameter with {info}"
    if not are_disjoint(declared, info):
        hint = f"check the operand at run time: `R.match_cast(..., {declared})`"
    return StructInfoError(diagnostic.hinted(hint))
