"""Ops on the rows of ragged tensors, as kernels that loop over rows around the kernels of one row.

An op with the hook `row` is defined by dense ops on one row of unknown length: `row(values)`
returns their expression. It is fused and scheduled like any program, and the kernels of one row
become the body of a loop over rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from math import prod
from typing import Any, NoReturn

import attrs

from structir.ir import dims
from structir.ir.binding_dims import bound_dims
from structir.ir.dims import Dim, Sym
from structir.ir.expr import Var
from structir.ir.kernel import (
    REGISTERS,
    Apply,
    Assign,
    Element,
    Kernel,
    KernelStatement,
    Literal,
    Local,
    LoopVariable,
    Part,
    Prefetch,
    Scalar,
    Scratch,
    Size,
)
from structir.ir.node import replace
from structir.ir.struct_info import PrimStructInfo, TensorStructInfo
from structir.loops.fusion.group import Group
from structir.loops.kernel.schedule import scheduled_kernel, settled_groups
from structir.loops.lower.as_scalar import NotShown, Scalars
from structir.loops.lower.rounding import roundings
from structir.loops.program.buffer import Buffer
from structir.loops.program.expression import Entry, Expression, NoKernelError, substituted
from structir.loops.program.stage import KernelCall, LoopProgram, Stage, routine_stages
from structir.loops.regions.row_order import RowLoops
from structir.loops.regions.row_totals import RowMemory
from structir.loops.regions.row_vectors import BEHIND, BLOCK, VectorBlocks
from structir.loops.schedule.edits import calculate, integer, substitute

SLICE = 128  # maximum elements of local arrays in registers


@attrs.frozen(eq=False)
class RowOperand:
    """A buffer of all rows, and the part of a row: `unit` names the offset along axis 0, or is None
    if all rows share the buffer."""

    buffer: Buffer
    unit: str | None = None


@attrs.frozen(eq=False)
class RowCall:
    """A program of one row, and the buffers of all rows to which it is applied.

    `sizes` maps the symbol of the number of rows to 1, and that of the length of a row to the
    number of values of all rows.
    """

    program: LoopProgram
    sizes: Mapping[Sym, Dim]
    starts: Buffer
    limits: Buffer
    operands: Mapping[Buffer, RowOperand]  # by the inputs of the program
    results: Mapping[Buffer, RowOperand]  # by its outputs
    origin: str

    def stages(self, routine: KernelCall) -> list[Stage]:
        """Returns the stages that run a loop over rows."""
        reads = [self.starts, self.limits, *[o.buffer for o in self.operands.values()]]
        outs = [result.buffer for result in self.results.values()]
        return routine_stages(list(dict.fromkeys(reads)), outs, routine, self.origin)


def row_loop(call: RowCall) -> KernelCall:
    """Returns the loop over all rows; raises NoKernelError if kernels cannot express a row."""
    try:
        with roundings(skipped=False):
            return _RowLoop(call).kernel_call()
    except NotShown as refused:
        raise NoKernelError(str(refused)) from refused


class _RowLoop:
    """Writes the kernel of a loop over rows."""

    def __init__(self, call: RowCall) -> None:
        self.call = call
        (self.one, _), (self.length, self.total) = call.sizes.items()
        pairs = [*call.operands.items(), *call.results.items()]
        self.parts = {buffer.root: operand for buffer, operand in pairs}
        if len(self.parts) < len(pairs):
            raise NoKernelError("a result of a row is an operand, or another result")
        self.arrays: dict[Buffer, Var] = {}  # of buffers of all rows,
        self.rooms: dict[Buffer, Var] = {}  # and of those that only the loop has
        self.scratch: list[Scratch] = []
        self.scalars = Scalars(unread)
        self.row, self.first = LoopVariable("row", "int64"), Local("first", "int64")
        self.count = Local("length", "int64")
        self.scalars.axes = {self.one: integer(1), self.length: self.count}

    def kernel_call(self) -> KernelCall:
        """Returns the kernel, called with the buffers of all rows."""
        groups = map(self._of_one_row, settled_groups(self.call.program))
        kernels = [_RowKernel(self, group, number) for number, group in enumerate(groups)]
        rows = self.call.starts.shape[0]
        low, high = Local("low", "int64"), Local("high", "int64")
        body = [s for kernel in kernels for s in kernel.statements()]
        for result in self.call.results.values():
            self.array(result.buffer)
        loops = self._loops()
        whole = self._in_blocks(tuple(body))
        if whole is None:
            return self._call((Part(low, high, rows), loops.checked(low, high, body)), rows)
        return self._call((Part(low, high, rows), *loops.in_order(low, high, *whole, BLOCK)), rows)

    def _loops(self) -> RowLoops:
        """Returns the loops over rows. Results have memory behind a row only where another row
        follows."""
        tables = (self.call.starts, self.call.limits)
        start_of, limit_of = [partial(self._table, table) for table in tables]
        is_written = any(result.unit == "first" for result in self.call.results.values())
        total = self.scalars.index(self.total)
        return RowLoops(self.row, self.first, self.count, start_of, limit_of, total, is_written)

    def _in_blocks(
        self, body: Sequence[KernelStatement]
    ) -> tuple[Sequence[KernelStatement], Sequence[KernelStatement]] | None:
        """Returns the statements of a row in blocks of whole vectors, and as they are on the same
        memory; None if they have no form in blocks."""
        values = [part.buffer for part in self.parts.values() if part.unit == "first"]
        places = frozenset([self.array(buffer) for buffer in values])
        rooms = frozenset([scratch.array for scratch in self.scratch])
        blocks = VectorBlocks(RowMemory(self.first, self.count, places, rooms))
        whole = blocks.statements(body)
        if whole is None:
            return None
        longer = {room: _longer(room) for room in rooms}

        def change(node: Any) -> Any:
            is_room = isinstance(node, Element | Prefetch) and node.array in longer
            return replace(node, array=longer[node.array]) if is_room else None

        of_rooms = [replace(room, array=longer[room.array]) for room in self.scratch]
        self.scratch = [*of_rooms, *blocks.totals]
        first, second = [[substitute(s, change) for s in each] for each in (whole, body)]
        return first, second

    def _call(self, body: Sequence[KernelStatement], rows: Dim) -> KernelCall:
        results = [operand.buffer for operand in self.call.results.values()]
        for result in results:
            self.array(result)
        return rows_call(self.arrays, results, (*self.scratch, *body), self.scalars, rows)

    def _of_one_row(self, group: Group) -> Group:
        """Returns a group with 1 as the number of rows; maps lose the axis of rows."""
        extents = {
            axis: dims.substitute(extent, {self.one: 1})
            for stage in group.stages
            for axis, extent in stage.extents.items()
        }
        rows = tuple([axis for axis in group.rows if extents[axis] != 1])
        gone = {*group.rows} - {*rows} if rows and group.kind == "rows" else set()
        zeros: dict[Sym, Dim] = dict.fromkeys(gone, 0)

        def at_zero(entry: Entry) -> Entry:
            if isinstance(entry, Expression):
                return substituted(entry, zeros) or entry
            return dims.substitute(entry, zeros)

        stages = [
            attrs.evolve(
                stage,
                parallel=tuple([axis for axis in stage.parallel if axis not in gone]),
                extents={axis: extents[axis] for axis in stage.extents if axis not in gone},
                body=substituted(stage.body, zeros) or stage.body,
                write=tuple(map(at_zero, stage.write)),
            )
            for stage in group.stages
        ]
        return attrs.evolve(group, stages=tuple(stages), rows=rows if gone else group.rows)

    # ---- arrays

    def _table(self, table: Buffer, row: Scalar) -> Scalar:
        """Returns the start or the limit of a row."""
        element = Element(self.array(table), (row,), table.dtype)
        return element if table.dtype == "int64" else Apply("cast", (element,), "int64")

    def array(self, buffer: Buffer) -> Var:
        """Returns the array of a buffer of all rows."""
        if buffer not in self.arrays:
            info = TensorStructInfo(buffer.shape, buffer.dtype)
            self.arrays[buffer] = Var(f"x{len(self.arrays)}", info)
        return self.arrays[buffer]

    def room(self, buffer: Buffer) -> Var:
        """Returns the array of an intermediate value of a row."""
        if buffer not in self.rooms:
            self.rooms[buffer] = self.new_room(buffer.shape, buffer.dtype)
        return self.rooms[buffer]

    def new_room(self, shape: Sequence[Dim], dtype: str, space: str = "") -> Var:
        """Allocates memory for the longest row that there may be."""
        sizes = tuple([dims.substitute(size, self.call.sizes) for size in shape])
        array = Var(f"room{len(self.scratch)}", TensorStructInfo(sizes, dtype))
        self.scratch.append(Scratch(array, zeros=False, space=space))
        return array

    # ---- elements

    def element(
        self, buffer: Buffer, indices: tuple[Scalar, ...], flat: bool
    ) -> tuple[Var, tuple[Scalar, ...], bool]:
        """Returns the array and the indices of an element of a row, and whether they are flat."""
        root = buffer.root
        index = indices[0] if flat else self.flat(indices, buffer.shape)
        flat = flat or buffer is not root
        part = RowOperand(root) if root.origin == "constant" else self.parts.get(root)
        if part is None:
            places = (index,) if flat else indices
            return self.in_room(self.room(root), buffer.shape, places, flat)
        array, inner = self.array(part.buffer), part.buffer.shape[1:]
        if part.unit is None:
            same = part.buffer.shape == buffer.shape and not flat
            return (array, indices, False) if same else (array, (index,), True)
        first, own = (self.first, 2) if part.unit == "first" else (self.row, 1)
        if not flat and buffer.shape[own:] == inner:
            place = calculate("add", first, indices[1]) if own == 2 else first
            return array, (place, *indices[own:]), False
        offset = calculate("mul", first, self.scalars.index(prod(inner)))
        return array, (calculate("add", offset, index),), True

    def in_room(
        self, room: Var, shape: Sequence[Dim], indices: tuple[Scalar, ...], flat: bool
    ) -> tuple[Var, tuple[Scalar, ...], bool]:
        """Returns an element of memory that is larger than that of the row."""
        longer = [k for k, size in enumerate(shape) if self.length in dims.syms(size)]
        outer = [dims.substitute(size, self.call.sizes) for size in shape[: max(longer, default=0)]]
        if not flat and all(size == 1 for size in outer):
            return room, indices, False
        return room, indices if flat else (self.flat(indices, shape),), True

    def flat(self, indices: Sequence[Scalar], shape: Sequence[Dim]) -> Scalar:
        """Returns the index in the memory of one row."""
        total: Scalar = integer(0)
        for index, size in zip(indices, shape, strict=True):
            total = calculate("add", calculate("mul", total, self.scalars.index(size)), index)
        return total


class _RowKernel:
    """The kernel of a group of one row, on the memory of all rows."""

    def __init__(self, loop: _RowLoop, group: Group, number: int) -> None:
        shown = scheduled_kernel([group], "row")
        self.loop, self.kernel, self.suffix = loop, shown.kernel, f"_{number}" if number else ""
        operands, results = self.kernel.operands, self.kernel.results
        self.buffers: dict[Var, Buffer] = dict(zip(operands, shown.reads, strict=False))
        self.buffers |= dict(zip(results, shown.fills, strict=True))
        part = self.kernel.part
        self.locals: dict[Local, Scalar] = {} if part is None else {part.low: integer(0)}
        self.rooms: dict[Var, Var] = {}

    def statements(self) -> Iterator[KernelStatement]:
        """Yields the statements of the kernel."""
        for statement in self.kernel.body:
            if isinstance(statement, Part):
                extent = self.loop.scalars.index(statement.extent)
                if isinstance(extent, Literal | Local):
                    self.locals[statement.high] = extent
                else:
                    yield Assign(self._local(statement.high), extent)
            elif isinstance(statement, Scratch):
                self._allocate(statement)
            else:
                yield self._changed(statement)

    def _allocate(self, scratch: Scratch) -> None:
        if scratch.zeros:
            raise NoKernelError("a row needs memory with zeros")
        array: Any = scratch.array
        shape, dtype = shape_of(array), array.struct_info.dtype
        space = scratch.space or (REGISTERS if prod(shape) in range(SLICE + 1) else "")
        self.rooms[array] = self.loop.new_room(shape, dtype, space)

    def _changed(self, node: Any) -> Any:
        return substitute(node, self._change)

    def _change(self, node: Any) -> Any:
        if isinstance(node, Local):
            return self._local(node)
        if isinstance(node, Size):
            return self.loop.scalars.index(node.dim)
        if not isinstance(node, Element | Prefetch):
            return None
        indices = tuple([self._changed(index) for index in node.indices])
        if node.array in self.rooms:
            room, shape = self.rooms[node.array], shape_of(node.array)
            places = self.loop.in_room(room, shape, indices, node.flat)
        else:
            places = self.loop.element(self.buffers[node.array], indices, node.flat)
        array, indices, flat = places
        if isinstance(node, Prefetch):
            return Prefetch(array, indices, flat)
        return Element(array, indices, node.dtype, flat=flat)

    def _local(self, local: Local) -> Any:
        if local not in self.locals:
            self.locals[local] = type(local)(f"{local.name}{self.suffix}", local.dtype)
        return self.locals[local]


def _longer(room: Var) -> Var:
    """Returns memory for a row with values behind it that its last block may overwrite."""
    *outer, last = shape_of(room)
    dtype = room.struct_info.dtype  # type: ignore[attr-defined]
    return Var(room.name, TensorStructInfo((*outer, last + BEHIND), dtype))


def rows_call(
    arrays: Mapping[Buffer, Var],
    results: Sequence[Buffer],
    body: Sequence[KernelStatement],
    scalars: Scalars,
    rows: Dim,
) -> KernelCall:
    """Returns the kernel of a body, called with the buffers of the arrays that it accesses."""
    buffers = [b for b in arrays if b not in results]
    parameters = [arrays[b] for b in (*buffers, *results)]
    memory = [*parameters, *[s.array for s in body if isinstance(s, Scratch)]]
    sizes = [rows, *[dim for array in memory for dim in shape_of(array)]]
    symbols = dict(scalars.symbols)
    for size in sizes:
        symbols |= dict.fromkeys(sorted(dims.syms(size), key=lambda s: s.order))
    bound = bound_dims([array.struct_info for array in parameters])
    numbers = {
        Var(f"{s.name}_", PrimStructInfo("int64", dims.as_dim(s))): dims.as_dim(s)
        for s in symbols
        if s not in bound
    }
    params = (*parameters[: len(buffers)], *numbers, *parameters[len(buffers) :])
    kernel = Kernel(params, tuple(body), "rows")
    values: dict[Var, Buffer | Dim] = dict(zip(parameters, (*buffers, *results), strict=True))
    known = {s: dims.as_dim(s) for s in symbols}
    return KernelCall(kernel, values | numbers, known, is_generated=True)


def shape_of(array: Var) -> tuple[Dim, ...]:
    """Returns the shape of an array."""
    return array.struct_info.dims  # type: ignore[attr-defined, no-any-return]


def unread(*_: object) -> NoReturn:
    """Rejects a size that is read from data."""
    raise NotShown("a size that is read from data")
