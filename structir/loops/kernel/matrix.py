"""The kernel of a single matrix product: one call for each point of the batch axes."""

from __future__ import annotations

from structir.ir.dims import Dim
from structir.ir.kernel import Apply, KernelStatement, LoopVariable, Scalar
from structir.loops.fusion.group import Group
from structir.loops.kernel.as_kernel import ShownKernel
from structir.loops.kernel.library_nodes import Axes, LibraryNodeWriter
from structir.loops.kernel.nest import nest_nodes
from structir.loops.products.contraction import Contraction, contraction_of
from structir.loops.program.access import joined_axes


def product_kernel(group: Group, name: str) -> ShownKernel:
    """Returns the nodes of a matrix product."""
    product = _product_of(group)
    if product.windows:
        return nest_nodes(group, name)
    return _ProductWriter(group, product, name).kernel()


def _product_of(group: Group) -> Contraction:
    contraction = contraction_of(group.stages[0])
    if contraction is None:
        raise TypeError(f"{group.stages[0]} is no matrix product")
    return contraction


class _ProductWriter(LibraryNodeWriter):
    def __init__(self, group: Group, product: Contraction, name: str) -> None:
        super().__init__(group, name)
        self.product = product
        addresses = [product.left_address, product.right_address, product.out_address]
        self.batch = joined_axes(product.batch, self.extents, addresses)

    def write_group(self, into: list[KernelStatement]) -> None:
        contraction, batch = self.product, self.batch
        if not batch:
            low, high = self.part(self.extent(contraction.m), into)
            if contraction.m:
                self.scalars.axes[contraction.m[-1]] = low
            count = Apply("sub", (high, low), "int64")
            into.append(self._call([contraction.m] if contraction.m else [], count))
            return
        low, high = self.part(self.extent(tuple([a for axes in batch for a in axes])), into)
        index = LoopVariable("g", "int64")
        body: list[KernelStatement] = []
        self.decode(index, batch, body)
        (rows,) = self.integers(self.extent(contraction.m))
        body.append(self._call(batch, rows))
        into.append(self.loop_over(index, low, high, body))

    def _call(self, groups: list[Axes], rows: Scalar) -> KernelStatement:
        contraction = self.product
        pairs = [
            (contraction.left.buffer, contraction.left_address),
            (contraction.right.buffer, contraction.right_address),
            (self.stage.out, contraction.out_address),
        ]
        places = [
            self.flat_element(buffer, self.first_index(address, groups))
            for buffer, address in pairs
        ]
        sizes = self.extent(contraction.n), self.extent(contraction.k), *strides(contraction)
        return self.call("tiled_product", places, [rows, *self.integers(*sizes)])


def strides(contraction: Contraction) -> list[Dim]:
    """Returns the strides of the operands and of the rows of the result."""
    n, k = contraction.n[-1], contraction.k[-1]
    left, right, out = contraction.left_address, contraction.right_address, contraction.out_address
    return [
        left.coefficient(contraction.m[-1]) if contraction.m else 0,
        left.coefficient(k),
        right.coefficient(k),
        right.coefficient(n),
        out.coefficient(contraction.m[-1]) if contraction.m else 0,
    ]
