"""Kernels of groups around calls of library functions: over collapsed axes, with flat indices."""

from __future__ import annotations

from collections.abc import Container, Sequence
from math import prod

from structir.ir import dims
from structir.ir.dims import Dim, Sym
from structir.ir.expr import Var
from structir.ir.kernel import (
    Apply,
    Assign,
    Element,
    For,
    KernelStatement,
    LibraryCall,
    Literal,
    Local,
    Part,
    Scalar,
    computed_in,
)
from structir.loops.emit.code import KernelCode, code_of
from structir.loops.fusion.group import Group
from structir.loops.kernel.as_kernel import KernelNodeWriter, ShownKernel
from structir.loops.lower.as_scalar import NO_PARAMETERS, NotShown
from structir.loops.products.packing import packed_buffer
from structir.loops.program.access import Address, address_of
from structir.loops.program.buffer import Buffer
from structir.loops.program.cost import estimate_of
from structir.loops.program.expression import Entry, Expression, axis_dim
from structir.loops.program.kernel_text import KernelText
from structir.loops.program.stage import extents_of

Axes = tuple[Sym, ...]  # that are collapsed: the last one represents them


class LibraryNodeWriter(KernelNodeWriter):
    """Writes a kernel whose range is a linear index over some axes."""

    def __init__(self, group: Group, name: str) -> None:
        super().__init__([group], name, NO_PARAMETERS)
        self.extents = extents_of(group.stages)

    def extent(self, axes: Axes) -> Dim:
        """Returns the number of points along collapsed axes."""
        return prod(self.extents[axis] for axis in axes)

    def part(self, extent: Dim, into: list[KernelStatement]) -> tuple[Local, Local]:
        """Writes the range of the kernel; returns its bounds."""
        low, high = Local("low", "int64"), Local("high", "int64")
        into.append(Part(low, high, extent))
        return low, high

    def unused(self, stem: str) -> str:
        """Returns an unused name."""
        return self.scalars.local(stem, "int64").name

    @staticmethod
    def loop_over(
        variable: Local,
        low: Scalar,
        high: Scalar,
        body: Sequence[KernelStatement],
        step: int = 1,
        kind: str = "",
    ) -> For:
        """Returns a loop."""
        return For(variable, low, high, step, tuple(body), kind=kind)

    def decode(self, row: Local, groups: Sequence[Axes], into: list[KernelStatement]) -> None:
        """Splits a linear index into positions along collapsed axes."""
        rest: Scalar = row
        for group in groups[:0:-1]:
            extent = self.divisor(self.extent(group))
            place = self.scalars.local("g", "int64")
            into.append(Assign(place, Apply("mod", (rest, extent), "int64")))
            self.scalars.axes[group[-1]] = place
            rest = Apply("floordiv", (rest, extent), "int64")
        if groups:
            self.scalars.axes[groups[0][-1]] = rest

    def divisor(self, size: Dim) -> Scalar:
        """Returns a size as a divisor, at least 1: plain divisions are faster to compile."""
        (scalar,) = self.integers(size)
        if dims.at_least(size, 1) is True:
            return scalar
        return Apply("max", (scalar, Literal(1, "int64")), "int64")

    def flat_element(self, buffer: Buffer, index: Scalar) -> Element:
        """Returns an element by its flat index."""
        array = self.array_of(buffer)
        array = self.parameter(buffer) if array is None else array
        return Element(array, (index,), computed_in(buffer.dtype), flat=True)

    def located(
        self, buffer: Buffer, entries: tuple[Entry, ...]
    ) -> tuple[Buffer, tuple[Entry, ...]]:
        """Returns the memory of an element of a buffer, and its indices there."""
        return buffer, entries

    def first_element(
        self, buffer: Buffer, entries: tuple[Entry, ...], axes: Sequence[Sym] = ()
    ) -> Element:
        """Returns the element at 0 along some axes, by its flat index."""
        at = dict.fromkeys(axes, 0)
        memory, places = self.located(buffer, entries)
        index: Dim = 0
        for entry, stride in zip(places, memory.strides, strict=True):
            if isinstance(entry, Expression):
                raise NotShown("a region at an index from data")
            index = index + dims.substitute(entry, at) * stride
        return self.flat_element(buffer, self.scalars.index(index))

    def first_index(self, address: Address, groups: Sequence[Axes]) -> Scalar:
        """Returns the flat index of the first element at a point of collapsed axes."""
        index = address.rest
        for axes in groups:
            index = index + axis_dim(axes[-1]) * address.coefficient(axes[-1])
        return self.scalars.index(index)

    def integers(self, *sizes: Dim) -> list[Scalar]:
        """Returns sizes and strides as operands of a library function."""
        return [self.scalars.index(size) for size in sizes]

    @staticmethod
    def call(name: str, places: Sequence[Scalar], integers: Sequence[Scalar]) -> LibraryCall:
        return LibraryCall(name, (*places, *integers))


class FlatNodeWriter(LibraryNodeWriter):
    """Writes elements by flat indices, over collapsed axes."""

    flat_axes: Axes  # of the group,
    collapsed: frozenset[Sym]  # and those of them that others represent

    def address(self, buffer: Buffer, entries: Sequence[Entry]) -> Address:
        """Returns the address of an element in its memory."""
        return address_of(*self.located(buffer, tuple(entries)), self.flat_axes)

    def position(self, address: Address, without: Sequence[Sym] = ()) -> Dim:
        """Returns the part of a flat index that loops determine, without some axes."""
        index = address.rest
        for axis, step in address.coefficients.items():
            if axis not in self.collapsed and axis not in without:
                index = index + axis_dim(axis) * step
        return index

    def index(self, position: Dim) -> Scalar:
        """Returns the flat index of an element of a map or of a reduction."""
        return self.scalars.index(position)

    def element_at(
        self, array: Var, buffer: Buffer, entries: Sequence[Entry], into: list[KernelStatement]
    ) -> Element:
        address = self.address(buffer, entries)
        index = self.index(self.position(address))
        for stride, entry in address.data:
            term = Apply("mul", (self.scalars.place(entry, into), *self.integers(stride)), "int64")
            index = Apply("add", (index, term), "int64")
        return Element(array, (index,), computed_in(buffer.dtype), flat=True)


def arrays_together(shown: ShownKernel) -> tuple[tuple[Var, Var], ...]:
    """Returns the arrays of a kernel whose memory is that of a result, each with that result."""
    results = dict(zip([b.root for b in shown.fills], shown.kernel.results, strict=True))
    arrays = [*zip(shown.kernel.operands, shown.reads, strict=False)]
    arrays += zip(shown.kernel.results, shown.fills, strict=True)
    pairs = [(array, results.get(buffer.root, array)) for array, buffer in arrays]
    return tuple([(array, result) for array, result in pairs if result is not array])


def code_of_group(
    shown: ShownKernel, shares_numbers: bool, varying: Container[int] | None = None
) -> KernelCode:
    """Returns the code of the kernel of a group."""
    kernel = shown.kernel
    operands = zip(kernel.operands, shown.reads, strict=False)
    constants = frozenset([param for param, b in operands if b.root.data is not None])
    return code_of(kernel, constants, True, arrays_together(shown), shares_numbers, varying)


def text_of(
    shown: ShownKernel,
    group: Group,
    shares_numbers: bool = True,
    varying: Container[int] | None = None,
) -> KernelText:
    """Returns the kernel of a group as LLVM IR; constants are packed."""
    kernel = shown.kernel
    buffers: dict[Var, Buffer] = dict(zip(kernel.operands, shown.reads, strict=False))
    buffers |= dict(zip(kernel.results, shown.fills, strict=True))
    code = code_of_group(shown, shares_numbers, varying)
    pointers, scratch = list[Buffer](), list[Buffer]()
    for array in code.arrays:
        if array in code.panels:
            source, form, packing = code.panels[array]
            pointers.append(packed_buffer(buffers[source].root, form, packing).root)
        elif array in buffers:
            pointers.append(buffers[array].root)
        else:
            scratch.append(Buffer(code.shapes[array], array.struct_info.dtype, "scratch"))  # type: ignore[attr-defined]
            pointers.append(scratch[-1])
    length: Dim = 1 if kernel.part is None else kernel.part.extent
    return KernelText(
        code.key,
        tuple(pointers),
        code.sizes,
        length,
        tuple(scratch),
        group.origins,
        code=code,
        estimate=estimate_of(kernel, {}, code.sizes, length),
    )
