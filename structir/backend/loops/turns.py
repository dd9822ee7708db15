"""The kernel of an in-register transpose: elements are read along one axis and written along
another, in tiles of equal sides."""

from __future__ import annotations

import attrs

from structir.backend.cpu.products import has_own_products
from structir.backend.loops.access import Address, address_of, joined_axes
from structir.backend.loops.as_kernel import ShownKernel
from structir.backend.loops.expression import Load
from structir.backend.loops.group import Group
from structir.backend.loops.library_nodes import Axes, LibraryNodeWriter
from structir.ir.kernel import Apply, Assign, KernelStatement, Local, While

TURNED = frozenset({"float32", "float64"})


@attrs.frozen
class Transpose:
    """A copy that reads along `turned` and writes along `last`; `others` are further axes."""

    copy: Load
    read: Address
    written: Address
    others: list[Axes]
    turned: Axes
    last: Axes


def transpose_of(group: Group) -> Transpose | None:
    """Returns the transpose that a group is; None for any other group."""
    stage = group.stages[0]
    copy = stage.body
    if len(group.stages) > 1 or not stage.direct or stage.reduce or not isinstance(copy, Load):
        return None
    if copy.buffer.dtype != stage.out.dtype or stage.out.dtype not in TURNED:
        return None
    read = address_of(copy.buffer, copy.entries, stage.axes)
    written = address_of(stage.out, stage.write, stage.axes)
    if read.data or read.pinned(stage.axes):
        return None
    *outer, last = joined_axes(stage.parallel, stage.extents, [read, written]) or [()]
    turned = [g for g in outer if read.coefficient(g[-1]) == 1]
    steps = [read.coefficient(last[-1]), written.coefficient(last[-1])] if last else [0, 0]
    if not turned or steps[1] != 1 or steps[0] in (0, 1) or not has_own_products(stage.out.dtype):
        return None
    others = [g for g in outer if g is not turned[0]]
    return Transpose(copy, read, written, others, turned[0], last)


def transpose_kernel(group: Group, transpose: Transpose, name: str) -> ShownKernel:
    """Returns the kernel of a transpose: with each call, as many neighbours along the transposed
    axis as the range has."""
    return _TransposeWriter(group, transpose, name).kernel()


class _TransposeWriter(LibraryNodeWriter):
    def __init__(self, group: Group, transpose: Transpose, name: str) -> None:
        super().__init__(group, name)
        self.transpose = transpose

    def write_group(self, into: list[KernelStatement]) -> None:
        found, out = self.transpose, self.stage.out
        rows = [*found.others, found.turned]
        extent = self.extent(tuple([axis for axes in rows for axis in axes]))
        low, high = self.part(extent, into)
        row, count = Local("r", "int64"), Local("count", "int64")
        body: list[KernelStatement] = []
        self.decode(row, rows, body)
        here = self.scalars.axes[found.turned[-1]]
        (length,) = self.integers(self.extent(found.turned))
        ends = [Apply("sub", pair, "int64") for pair in ((length, here), (high, row))]
        body.append(Assign(count, Apply("min", tuple(ends), "int64")))
        places = [
            self.flat_element(buffer, self.first_index(address, rows))
            for buffer, address in ((out, found.written), (found.copy.buffer, found.read))
        ]
        steps = found.written.coefficient(found.turned[-1]), found.read.coefficient(found.last[-1])
        integers = [count, *self.integers(self.extent(found.last), *steps)]
        body.append(self.call("transpose", places, integers))
        body.append(Assign(row, Apply("add", (row, count), "int64")))
        into += [Assign(row, low), While(Apply("lt", (row, high), "bool"), tuple(body))]
