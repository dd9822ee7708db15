"""What the schedules of products have in common: the axes of rows, columns and terms, operands, and
what is stored at each point of the result."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from structir.backend.cuda.by_library import described
from structir.backend.cuda.device_text import Product
from structir.backend.cuda.epilogue import Results
from structir.backend.cuda.operand import OperandSource
from structir.backend.cuda.places import RUN, AxisGroups, Groups, taken_apart
from structir.backend.cuda.products import axes_read
from structir.backend.loops.access import Address, address_of, joined_axes
from structir.backend.loops.contraction import Contraction
from structir.backend.loops.expression import (
    Load,
    Operation,
    Position,
    load,
    loads_of,
    walk,
)
from structir.backend.loops.scalar_text import rounded_text
from structir.backend.loops.simplify import simplified
from structir.backend.loops.stage import Stage
from structir.backend.loops.writer import LoopScope, Writer, indented
from structir.ir import dims
from structir.ir.dims import Dim, Sym
from structir.ir.kernel import computed_in

LONG = 16  # terms that lie side by side, from which on a kernel takes slices of them alone
WAIT = "cuda.syncthreads()"
HEAD = (
    "across = cuda.threadIdx.x % tile_side",
    "down = cuda.threadIdx.x // tile_side",
    f"near, far = across * {RUN}, tile_side * {RUN}",
    f"quarter = cuda.threadIdx.x % (tile_side // {RUN})",
    f"line = cuda.threadIdx.x // (tile_side // {RUN})",
    f"part = quarter * {RUN}",
)


class ProductSchedule:
    """A product on its way to text. Rows and columns have letters; of both, a thread has some."""

    def __init__(
        self, stage: Stage, found: Contraction, results: Results, rows: int, columns: int
    ) -> None:
        self.stage, self.found, self.extents = stage, found, stage.extents
        self.written = results  # as the program has them
        self.results = [(out, simplified(body)) for out, body in results]
        self.writer, self.dtype = Writer(stage.axes), computed_in(stage.out.dtype)
        self.addresses = [found.left_address, found.right_address, found.out_address]
        bodies = [body for _, body in self.results]
        reads = dict.fromkeys(read for body in bodies for read in loads_of(body))
        self.addresses += [address_of(x.buffer, x.entries, stage.axes) for x in reads]
        nodes = [node for body in bodies for node in walk(body)]
        fixed = [dims.syms(guard.value) for guard in stage.guards]
        fixed += [dims.syms(node.dim) for node in nodes if isinstance(node, Position)]
        self.pinned = frozenset().union(*fixed) & frozenset(stage.axes)
        self.outer = self._joined(found.batch)
        self.rows = self._places("a", found.m, rows)
        self.columns = self._places("b", found.n, columns)
        self.taps, self.terms = self._terms()

    def _joined(self, axes: Iterable[Sym]) -> Groups:
        return joined_axes(axes, self.extents, self.addresses, self.pinned)

    def _places(self, letter: str, axes: tuple[Sym, ...], reach: int) -> AxisGroups:
        return AxisGroups(letter, self._joined(axes), reach, self.extents, self.writer)

    def extent(self, axes: Iterable[Sym]) -> Dim:
        """How many points some axes have together."""
        return prod(self.extents[axis] for axis in axes)

    def size(self, axes: Iterable[Sym]) -> str:
        """That as text."""
        return self.writer.size(self.extent(axes))

    def _terms(self) -> tuple[Groups, tuple[Sym, ...]]:
        """Groups of axes of which the kernel takes one point after the other, and the axes of which
        it takes slices: if many terms lie side by side in an operand, these alone."""
        groups, operands = self._joined(self.found.k), self.addresses[:2]
        for group in groups:
            count = self.extent(group)
            long = not isinstance(count, int) or count >= LONG
            beside = any(place.coefficient(group[-1]) == 1 for place in operands)
            if beside and long and not self.pinned & set(group):
                return [other for other in groups if other is not group], group
        return [], self.found.k

    def source(self, read: Load, address: Address) -> OperandSource:
        """An operand where the program has it, with the guards that are about it."""
        body, axes = self.stage.body, frozenset(self.stage.axes)
        assert isinstance(body, Operation)
        value = next(factor for factor in body.args if loads_of(factor) == [read])
        known = axes_read(value, axes)
        own = [guard for guard in self.stage.guards if dims.syms(guard.value) & axes <= known]
        return OperandSource(value, address, tuple(own), self.terms)

    @property
    def sides(self) -> tuple[tuple[Sym, ...], ...]:
        """The axes outside, those of rows, and those of columns."""
        return (self.found.batch, self.found.m, self.found.n)

    def product(self) -> Product | None:
        """What a library has to know, if it can make all that the kernel makes."""
        return described(self.stage, self.found, self.written, self.writer)

    def named(self, groups: Groups, letter: str, number: str) -> list[str]:
        """Lines that name joined axes at a point of some number."""
        if not groups:
            return []
        names = [f"{letter}{k}" for k in range(len(groups))] if len(groups) > 1 else [letter]
        self.writer.name_axes(groups, names)
        return taken_apart(number, names, [self.size(group) for group in groups])

    def results_at(self, parked: str, before: str = "") -> list[str]:
        """The result of number `each` to where it belongs, from memory that all threads of a block
        see and that holds rows of a tile from a first one on: neighbouring threads have
        neighbours."""
        writer = self.writer
        places = [
            *self.rows.named("row", f"{before}times(each, b_wide)"),
            *self.columns.named("column", "left_over(each, b_wide)"),
        ]
        rows, columns = [writer.size(places.extent) for places in (self.rows, self.columns)]
        return [
            *places,
            f"if row < {rows} and column < {columns}:",
            *indented([f"total = {parked}[each]", *self.stored()]),
        ]

    def stored(self) -> list[str]:
        """What is made of a `total`, and where it goes."""
        writer, scope = self.writer, LoopScope(frozenset(self.stage.parallel))
        scope.made[load(self.stage.out, self.stage.write)] = "total"
        scope.lines.append(f"total = {rounded_text(self.stage.out.dtype, 'total')}")
        for out, body in self.results:
            writer.store(out, self.stage.write, writer.value(body, [scope]), [scope])
        return scope.lines
