"""The kernel of a sum over windows: one library call for each plane."""

from __future__ import annotations

from structir.ir.kernel import KernelStatement, LibraryCall, LoopVariable
from structir.loops.fusion.group import Group
from structir.loops.kernel.as_kernel import ShownKernel
from structir.loops.kernel.library_nodes import LibraryNodeWriter
from structir.loops.program.access import address_of
from structir.loops.program.stage import Stage
from structir.loops.rewrite.window_sums import POOLS, sum_of_windows, window_of


def window_sums_nodes(group: Group, name: str) -> ShownKernel:
    """Returns the nodes of a stage that is a sum over windows."""
    return _WindowWriter(group, name).kernel()


class _WindowWriter(LibraryNodeWriter):
    def write_group(self, into: list[KernelStatement]) -> None:
        windows = sum_of_windows(self.stage)
        assert windows is not None
        low, high = self.part(self.extent(windows.outer), into)
        point, body = LoopVariable("g", "int64"), list[KernelStatement]()
        self.decode(point, [(axis,) for axis in windows.outer], body)
        body.append(window_call(self, self.stage))
        into.append(self.loop_over(point, low, high, body))


def window_call(writer: LibraryNodeWriter, stage: Stage) -> LibraryCall:
    """Returns the call that computes one plane of a sum over windows."""
    windows = sum_of_windows(stage)
    assert windows is not None
    row, column, image, weights = windows.row, windows.column, windows.image, windows.weights
    plane = (row.entry, column.entry)
    corner = tuple([0 if k in plane else entry for k, entry in enumerate(image.entries)])
    places = [
        writer.first_element(stage.out, stage.write, (row.axis, column.axis)),
        writer.first_element(image.buffer, corner),
    ]
    out = address_of(*writer.located(stage.out, stage.write), stage.axes)
    shape = [image.buffer.shape[k] for k in plane]
    sizes = [stage.extents[row.axis], stage.extents[column.axis], *shape]
    sizes += [row.before, column.before, image.buffer.strides[row.entry], out.coefficient(row.axis)]
    name = POOLS.get(stage.monoid or "", "")
    if weights is not None:
        name, taps = "window_products", address_of(weights.buffer, weights.entries, stage.axes)
        places.append(writer.first_element(weights.buffer, weights.entries, (row.tap, column.tap)))
        sizes += [taps.coefficient(row.tap), taps.coefficient(column.tap)]
    return writer.call(name, places, writer.integers(*sizes, *window_of(row, column)))
