"""Schemes of kernels: the relation of their parameters between operands and results."""

from __future__ import annotations

from structir.ir.struct_info import KernelStructInfo, StructInfo, TensorStructInfo
from structir.solver.constraints.scheme import Scheme
from structir.solver.domains.terms import Row
from structir.solver.program.generalisation import scheme_of_type
from structir.solver.propagation.arithmetic import fresh


def kernel_scheme(kernel: KernelStructInfo, labelled: bool) -> Scheme:
    """Returns the scheme of a kernel, whose own dims are instantiated in each call; `labelled`
    states whether axes of the program have labels."""
    rows = tuple([_row(param) for param in kernel.params or ()])
    count = len(rows) - kernel.results
    return scheme_of_type(rows, count, labelled)


def _row(info: StructInfo) -> Row:
    """Returns the sizes of a parameter; a scalar has none."""
    if not isinstance(info, TensorStructInfo):
        return ()
    if type(info.dims) is tuple:
        return info.dims
    return tuple([fresh() for _ in range(info.ndim or 0)])
