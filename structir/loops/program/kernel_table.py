"""The table of a kernel: its arrays and sizes, in the order in which machine code finds them, and
the places that may fail."""

from __future__ import annotations

from copy import copy
from math import prod
from typing import Any

import attrs

from structir.errors import StructIRError
from structir.interpret.kernels import index_error, negative_size_error
from structir.ir import dims
from structir.ir.dims import Dim, Sym, syms
from structir.ir.expr import Var
from structir.ir.kernel import SHARED, Element, Kernel, Part, Scratch, nodes_of
from structir.ir.node import replace
from structir.ir.struct_info import KernelStructInfo, PrimStructInfo, TensorStructInfo


@attrs.frozen
class Site:
    """A check that may fail: of an index of an element, or of a size that may be negative."""

    kernel: Kernel
    element: Element | None
    axis: int
    array: Var

    @property
    def place(self) -> str:
        """The axis of the check."""
        if self.element is not None and self.element.flat:
            return f"{self.array.name}.flat"
        return f"axis {self.axis} of {self.array.name}"

    def error(self, index: int, size: int) -> StructIRError:
        """Returns the error of a failed check."""
        if self.element is not None:
            if self.element.indices[self.axis].dtype == "uint64":
                index %= 2**64  # it was checked as an int64
            return index_error(self.kernel, self.element, self.axis, index, size)
        return negative_size_error(self.kernel, self.array, self.axis, index)


class KernelTable:
    """The arrays and sizes of one kernel; every size has a symbol."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.infos = [_sized(param) for param in kernel.params]
        self.numbers: dict[Var, Sym] = {}  # integer parameters, which are among the sizes
        self.arrays: list[Var] = []  # parameters, then scratch
        self.shapes: dict[Var, tuple[Dim, ...]] = {}
        self.symbols: dict[Sym, None] = {}
        for param, info in zip(kernel.params, self.infos, strict=True):
            self._add_parameter(param, info)
        for node in nodes_of(kernel):
            if isinstance(node, Scratch) and node.space == SHARED:
                self.shapes[node.array] = node.array.struct_info.dims  # type: ignore[attr-defined]
            elif isinstance(node, Scratch):
                self.add_array(node.array)
            elif isinstance(node, Part):
                self.mention(node.extent)
        if kernel.blocks is not None:
            self.mention(kernel.blocks.dim)

    def copy(self) -> KernelTable:
        """Returns a table to which arrays can be added."""
        table = copy(self)
        table.arrays, table.shapes = list(self.arrays), dict(self.shapes)
        table.symbols = dict(self.symbols)
        return table

    @property
    def struct_info(self) -> KernelStructInfo:
        """The StructInfo of the kernel, with a symbol for every size."""
        return replace(self.kernel.struct_info, params=tuple(self.infos))

    def _add_parameter(self, param: Var, info: TensorStructInfo | PrimStructInfo) -> None:
        if isinstance(info, PrimStructInfo) and info.dtype == "int64":
            self.mention(info.value)
            self.numbers[param] = dims.as_sym(info.value)  # type: ignore[assignment,arg-type]
        else:
            self.add_array(param, info.dims if isinstance(info, TensorStructInfo) else ())

    def add_array(self, array: Var, shape: tuple[Dim, ...] | None = None) -> None:
        """Adds an array, of its own shape if none is stated."""
        self.arrays.append(array)
        self.shapes[array] = array.struct_info.dims if shape is None else shape  # type: ignore[attr-defined]
        for dim in self.shapes[array]:
            self.mention(dim)

    def mention(self, dim: Any) -> None:
        """Adds the symbols of a size."""
        self.symbols |= dict.fromkeys(sorted(syms(dim), key=lambda s: s.order))

    def elements(self, array: Var) -> Dim:
        """Returns the number of elements of an array."""
        return prod(self.shapes[array])


def table_of(kernel: Kernel) -> KernelTable:
    """Returns the table of a kernel; it is memoized, as are the symbols in it."""
    memo: dict[str, KernelTable] = kernel.__dict__
    if "_table" not in memo:
        memo["_table"] = KernelTable(kernel)
    return memo["_table"]


def dtype_of(array: Var) -> str:
    """Returns the dtype of an array's elements."""
    return str(array.struct_info.dtype)  # type: ignore[attr-defined]


def _sized(param: Var) -> TensorStructInfo | PrimStructInfo:
    """Returns the StructInfo of a parameter, with symbols for all sizes and integers."""
    info: Any = param.struct_info
    if isinstance(info, PrimStructInfo):
        known = info.value is not None and dims.as_sym(info.value) is not None
        if info.dtype != "int64" or known:
            return info
        return PrimStructInfo("int64", dims.sym(param.name))
    if info.dims is not None:
        return info  # type: ignore[no-any-return]
    shape = tuple([dims.sym(f"{param.name}_size{axis}") for axis in range(info.ndim)])
    return TensorStructInfo(shape, info.dtype)
