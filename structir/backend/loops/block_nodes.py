"""The nodes of products with fused maps and reductions, as users schedule and edit them: blocks of
rows, with right operands as they are in memory."""

from __future__ import annotations

import attrs

from structir.backend.loops.as_kernel import ShownKernel
from structir.backend.loops.as_scalar import NotShown
from structir.backend.loops.blocks import BlockSchedule
from structir.backend.loops.buffer import Buffer
from structir.backend.loops.expression import Entry, axis_dim
from structir.backend.loops.group import Group
from structir.backend.loops.library_nodes import FlatNodeWriter
from structir.backend.loops.stage import Stage
from structir.ir import dims
from structir.ir.expr import Var
from structir.ir.kernel import (
    Apply,
    Assign,
    KernelStatement,
    Literal,
    Local,
    LoopVariable,
    Scalar,
    Scratch,
)
from structir.ir.struct_info import TensorStructInfo


def product_rows_kernel(group: Group, name: str) -> ShownKernel:
    """Returns the kernel of a group with products of floats; NotShown for others."""
    return _BlockWriter(group, name).kernel()


class _BlockWriter(FlatNodeWriter):
    def __init__(self, group: Group, name: str) -> None:
        super().__init__(group, name)
        self.blocks = BlockSchedule(group, splits_columns=False)
        self.flat_axes = (*self.blocks.axes, self.blocks.start)
        self.inner: dict[Buffer, Var] = {}  # memory of one block of rows
        collapsed = [*self.blocks.batch, self.blocks.block]
        self.collapsed = frozenset([axis for axes in collapsed for axis in axes[:-1]])

    def write_group(self, into: list[KernelStatement]) -> None:
        blocks = self.blocks
        for stage, contraction in blocks.products.items():
            if contraction.windows or not stage.out.dtype.startswith("float"):
                self.stage = stage
                raise NotShown("a product of windows or of integers")
        for buffer, moved in blocks.writer.moved.items():
            info = TensorStructInfo(moved.place.shape, moved.place.dtype)
            self.inner[buffer] = Var(f"row{len(self.inner)}", info)
            self.scratch.append(Scratch(self.inner[buffer], zeros=False))
        if not blocks.batch:
            low, high = self.part(self.extent(blocks.block), into)
            self._blocks(low, high, into)
            return
        axes = tuple([axis for group in blocks.batch for axis in group])
        low, high = self.part(self.extent(axes), into)
        point, body = LoopVariable("g", "int64"), list[KernelStatement]()
        self.decode(point, blocks.batch, body)
        (rows,) = self.integers(self.extent(blocks.block))
        self._blocks(Literal(0, "int64"), rows, body)
        into.append(self.loop_over(point, low, high, body))

    def _blocks(self, low: Scalar, high: Scalar, into: list[KernelStatement]) -> None:
        blocks, whole = self.blocks, self.group
        start, stop = LoopVariable("i0", "int64"), Local("i1", "int64")
        self.scalars.axes[blocks.start] = start
        after = Apply("add", (start, Literal(blocks.height, "int64")), "int64")
        body: list[KernelStatement] = [Assign(stop, Apply("min", (after, high), "int64"))]
        count = Apply("sub", (stop, start), "int64")
        row = LoopVariable("r", "int64")
        for part in blocks.segments.parts:
            if isinstance(part, Stage):
                self.stage = part
                body.append(self._product(part, count))
                self.done.add(part.out)
            elif part:
                self.group = attrs.evolve(whole, stages=part)
                self.scalars.axes[blocks.block[-1]] = row
                inner: list[KernelStatement] = []
                self.row(inner)
                body.append(self.loop_over(row, start, stop, inner))
        into.append(self.loop_over(start, low, high, body, blocks.height))

    def _product(self, stage: Stage, count: Scalar) -> KernelStatement:
        contraction, block = self.blocks.products[stage], self.blocks.block[-1]
        operands = [
            (contraction.left.buffer, contraction.left.entries),
            (contraction.right.buffer, contraction.right.entries),
            (stage.out, stage.write),
        ]
        addresses = [self.address(*operand) for operand in operands]
        first = {block: axis_dim(self.blocks.start)}
        starts = [
            dims.substitute(self.position(a, (*contraction.n, *contraction.k)), first)
            for a in addresses
        ]
        places = [
            self.flat_element(buffer, self.scalars.index(start))
            for (buffer, _), start in zip(operands, starts, strict=True)
        ]
        left, right, out = addresses
        n, k = contraction.n[-1], contraction.k[-1]
        steps = [left.coefficient(block), left.coefficient(k)]
        steps += [right.coefficient(k), right.coefficient(n), out.coefficient(block)]
        sizes = self.integers(self.extent(contraction.n), self.extent(contraction.k), *steps)
        return self.call("tiled_product", places, [count, *sizes])

    def located(
        self, buffer: Buffer, entries: tuple[Entry, ...]
    ) -> tuple[Buffer, tuple[Entry, ...]]:
        return self.blocks.writer.located(buffer, entries)

    # ---- elements

    def array_of(self, buffer: Buffer) -> Var | None:
        return self.inner[buffer] if buffer in self.inner else super().array_of(buffer)
