"""What the text of a kernel mentions: its arrays and sizes, under names of its own, and the places
that may fail."""

from __future__ import annotations

from math import prod
from typing import Any

import attrs

from structir.backend.cpu.kernels import NAMES
from structir.backend.cpu.routines import routine_helpers
from structir.backend.cpu.scalars import helpers
from structir.backend.loops.index_proofs import IndexRanges
from structir.errors import StructIRError
from structir.interpret.kernels import index_error, negative_size_error
from structir.ir import dims
from structir.ir.dims import Dim, Sym, syms
from structir.ir.expr import Var
from structir.ir.kernel import Element, Kernel, Part, Scratch, nodes_of
from structir.ir.struct_info import PrimStructInfo, TensorStructInfo

OWN_NAMES = (
    *("kernel", "a", "lo", "hi", "step", "fill", "range", "abs", "min", "max", "inf", "nan"),
    *("report", "ahead", "near", "turned", "turned_row", "turned_to", "turned_from"),
)


@attrs.frozen
class Site:
    """An index that may be out of range: of an element, or of a size that may be negative."""

    kernel: Kernel
    element: Element | None
    axis: int
    array: Var

    def error(self, index: int, size: int) -> StructIRError:
        """What is said when it happens."""
        if self.element is not None:
            if self.element.indices[self.axis].dtype == "uint64":
                index %= 2**64  # it was checked as an int64
            return index_error(self.kernel, self.element, self.axis, index, size)
        return negative_size_error(self.kernel, self.array, self.axis, index)


class KernelNames:
    """The names of one kernel, in the making."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.taken = {*NAMES, *helpers(), *routine_helpers(), *OWN_NAMES}
        self.names: dict[Any, str] = {}
        self.infos = [_sized(param) for param in kernel.params]
        self.numbers: dict[Var, Sym] = {}  # integer parameters, which stand among the sizes
        self.arrays: list[Var] = []
        self.shapes: dict[Var, tuple[Dim, ...]] = {}
        self.symbols: dict[Sym, None] = {}
        self.computed: dict[Dim, Sym] = {}  # sizes that the host computes, by their names here
        for param, info in zip(kernel.params, self.infos, strict=True):
            self._parameter(param, info)
        for node in nodes_of(kernel):
            if isinstance(node, Scratch) and node.shared:
                self.shapes[node.array] = node.array.struct_info.dims  # type: ignore[attr-defined]
            elif isinstance(node, Scratch):
                self._array(node.array, node.array.struct_info.dims)  # type: ignore[attr-defined]
            elif isinstance(node, Part):
                self._mention(node.extent)
        self.ranges = IndexRanges(kernel, self.shapes)
        self.sites: list[Site] = []

    def _parameter(self, param: Var, info: TensorStructInfo | PrimStructInfo) -> None:
        if isinstance(info, PrimStructInfo) and info.dtype == "int64":
            self._mention(info.value)
            self.numbers[param] = dims.as_sym(info.value)  # type: ignore[assignment,arg-type]
        else:
            self._array(param, info.dims if isinstance(info, TensorStructInfo) else ())

    def _array(self, array: Var, shape: tuple[Dim, ...]) -> None:
        self.arrays.append(array)
        self.shapes[array] = shape
        for dim in shape:
            self._mention(dim)

    def _mention(self, dim: Any) -> None:
        self.symbols |= dict.fromkeys(sorted(syms(dim), key=lambda s: s.order))

    def name(self, item: Any) -> str:
        """The name of an array, a number or a size."""
        known = self.names.get(item)
        if known is None:
            known = item.name if item.name.isidentifier() else "value"
            while known in self.taken:
                known += "_"
            self.taken.add(known)
            self.names[item] = known
        return known

    def dim(self, dim: Dim) -> str:
        """A size as text. The host computes what is no symbol: there nothing wraps around."""
        if isinstance(dim, int):
            return str(dim)
        symbol = dims.as_sym(dim)
        if symbol is None:
            named = dims.as_sym(dims.sym(f"size{len(self.computed)}"))
            symbol = self.computed.setdefault(dim, named)  # type: ignore[arg-type]
        return self.name(symbol)

    def site(self, site: Site) -> int:
        """The number of a place that may fail."""
        self.sites.append(site)
        return len(self.sites)

    def elements(self, array: Var) -> Dim:
        """How many elements an array has."""
        return prod(self.shapes[array])


def dtype_of(array: Var) -> str:
    """The dtype of an array's elements."""
    return str(array.struct_info.dtype)  # type: ignore[attr-defined]


def _sized(param: Var) -> TensorStructInfo | PrimStructInfo:
    """The info of a parameter with a symbol for every size and integer that has none."""
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
