"""Calls of kernels: what operands and results say of a kernel's dims, and whether they fit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import attrs

from structir.analysis.calls import Binder
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
    """A size that a kernel states, in the caller's dims, and the one given: equal when it runs."""

    stated: Dim
    given: Dim
    where: str


@attrs.frozen(eq=False)
class BoundKernel:
    """A kernel's own dims in the caller's, and what must hold for them to be right."""

    sizes: Mapping[Sym, Dim]
    equations: tuple[KernelSizeEquation, ...]


def kernel_result(
    kernel: KernelStructInfo, operands: Sequence[StructInfo], stated: Sequence[StructInfo]
) -> StructInfo:
    """The StructInfo of a call: the stated results, one, or several as a tuple."""
    operand_count = len(kernel.params or ()) - kernel.results
    counts = (
        ("fills", "result", kernel.results, len(stated), "stated"),
        ("takes", "operand", operand_count, len(operands), "given"),
    )
    for verb, what, wanted, count, given in counts:
        if count != wanted:
            message = f"the kernel {verb} {wanted} {what}{'s' * (wanted != 1)}, but {count} "
            message += f"{'is' if count == 1 else 'are'} {given}"
            hint = "results are the last parameters, from the first one that the kernel writes to"
            raise StructInfoError(Diagnostic(message, hint=hint))
    for info in stated:
        known = isinstance(info, TensorStructInfo) and type(info.dims) is tuple and info.dtype
        if not known:
            hint = 'write R.Tensor((n,), "float32")'
            message = "the sizes and the dtype of a result must be stated"
            raise StructInfoError(Diagnostic(message, hint=hint).note(f"stated: {info}"))
    bind_kernel(kernel, [*operands, *stated])
    return stated[0] if len(stated) == 1 else TupleStructInfo(tuple(stated))


def bind_kernel(kernel: KernelStructInfo, given: Sequence[StructInfo]) -> BoundKernel:
    """The kernel's dims as operands and results of these infos bind them; StructInfoError where
    one cannot fit."""
    binder = Binder(kernel)
    equations: list[KernelSizeEquation] = []
    operands = len(given) - kernel.results
    for place, (param, info) in enumerate(zip(kernel.params or (), given, strict=True)):
        binder.bind(param, info)
        stated = binder.known(param, {})
        what = f"operand {place}" if place < operands else f"result {place - operands}"
        pairs = list(_sizes(stated, info))
        apart = any(equal(left, right) is False for left, right in pairs)
        if apart or base_check(stated, info) <= FAIL_L1:
            raise _misfit(what, param, stated, info)
        equations += [
            KernelSizeEquation(left, right, f"{what}, axis {axis}")
            for axis, (left, right) in enumerate(pairs)
            if not equal(left, right)
        ]
    own = own_dims(kernel)
    return BoundKernel({s: d for s, d in binder.sizes.items() if s in own}, tuple(equations))


def _sizes(stated: StructInfo, given: StructInfo) -> Iterator[tuple[Dim, Dim]]:
    """The sizes at the same places of two infos."""
    match stated, given:
        case PrimStructInfo(value=left), PrimStructInfo(value=right):
            if left is not None and right is not None:
                yield left, right
        case TensorStructInfo(dims=tuple() as lefts), TensorStructInfo(dims=tuple() as rights):
            yield from zip(lefts, rights, strict=False)


def _misfit(what: str, param: StructInfo, stated: StructInfo, info: StructInfo) -> StructInfoError:
    diagnostic = Diagnostic(f"{what} does not fit its parameter", code="E0207").note(
        f"parameter: {param}"
    )
    if stated != param:
        diagnostic = diagnostic.note(f"here it is: {stated}")
    hint = "give what the kernel's parameters ask for, or match_cast a value known better"
    return StructInfoError(diagnostic.note(f"given: {info}").hinted(hint))
