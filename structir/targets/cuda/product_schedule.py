"""The common parts of product schedules: axes of rows, columns and terms, operands, and stores at
each point of the result."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from structir.ir import dims
from structir.ir.dims import Dim, Sym
from structir.ir.kernel import computed_in
from structir.loops.fusion.simplify import simplified
from structir.loops.products.contraction import Contraction
from structir.loops.program.access import Address, address_of, joined_axes
from structir.loops.program.expression import (
    Load,
    Operation,
    Position,
    load,
    loads_of,
    walk,
)
from structir.loops.program.stage import Stage
from structir.targets.cuda.by_library import described
from structir.targets.cuda.device_text import Product
from structir.targets.cuda.epilogue import Results
from structir.targets.cuda.operand import OperandSource
from structir.targets.cuda.places import RUN, AxisGroups, Groups, taken_apart
from structir.targets.cuda.products import axes_read
from structir.targets.cuda.scalar_text import rounded_text
from structir.targets.cuda.writer import LoopScope, Writer, indented

LONG = 16  # contiguous terms from which on a kernel slices only these
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
    """Writes the kernel of a product. Rows and columns have letters; a thread has some of both."""

    def __init__(
        self, stage: Stage, contraction: Contraction, results: Results, rows: int, columns: int
    ) -> None:
        self.stage, self.contraction, self.extents = stage, contraction, stage.extents
        self.written = results  # in the program's order
        self.results = [(out, simplified(body)) for out, body in results]
        self.writer, self.dtype = Writer(stage.axes), computed_in(stage.out.dtype)
        self.addresses = [
            contraction.left_address,
            contraction.right_address,
            contraction.out_address,
        ]
        bodies = [body for _, body in self.results]
        reads = dict.fromkeys(read for body in bodies for read in loads_of(body))
        self.addresses += [address_of(x.buffer, x.entries, stage.axes) for x in reads]
        nodes = [node for body in bodies for node in walk(body)]
        fixed = [dims.syms(guard.value) for guard in stage.guards]
        fixed += [dims.syms(node.dim) for node in nodes if isinstance(node, Position)]
        self.pinned = frozenset().union(*fixed) & frozenset(stage.axes)
        self.outer = self._joined(contraction.batch)
        self.rows = self._places("a", contraction.m, rows)
        self.columns = self._places("b", contraction.n, columns)
        self.taps, self.terms = self._terms()

    def _joined(self, axes: Iterable[Sym]) -> Groups:
        return joined_axes(axes, self.extents, self.addresses, self.pinned)

    def _places(self, letter: str, axes: tuple[Sym, ...], reach: int) -> AxisGroups:
        return AxisGroups(letter, self._joined(axes), reach, self.extents, self.writer)

    def extent(self, axes: Iterable[Sym]) -> Dim:
        """Returns the number of points of some axes."""
        return prod(self.extents[axis] for axis in axes)

    def size(self, axes: Iterable[Sym]) -> str:
        """Returns that number as source."""
        return self.writer.size(self.extent(axes))

    def _terms(self) -> tuple[Groups, tuple[Sym, ...]]:
        """Returns the groups of axes that the kernel iterates point by point, and the axes that it
        slices: only the contiguous ones, if an operand has many contiguous terms."""
        groups, operands = self._joined(self.contraction.k), self.addresses[:2]
        for group in groups:
            count = self.extent(group)
            long = not isinstance(count, int) or count >= LONG
            beside = any(place.coefficient(group[-1]) == 1 for place in operands)
            if beside and long and not self.pinned & set(group):
                return [other for other in groups if other is not group], group
        return [], self.contraction.k

    def source(self, read: Load, address: Address) -> OperandSource:
        """Returns an operand at its address in the program, with its guards."""
        body, axes = self.stage.body, frozenset(self.stage.axes)
        assert isinstance(body, Operation)
        value = next(factor for factor in body.args if loads_of(factor) == [read])
        known = axes_read(value, axes)
        own = [guard for guard in self.stage.guards if dims.syms(guard.value) & axes <= known]
        return OperandSource(value, address, tuple(own), self.terms)

    @property
    def sides(self) -> tuple[tuple[Sym, ...], ...]:
        """The outer axes, those of rows, and those of columns."""
        return (self.contraction.batch, self.contraction.m, self.contraction.n)

    def product(self) -> Product | None:
        """The description for a library, if it can compute everything that the kernel computes."""
        return described(self.stage, self.contraction, self.written, self.writer)

    def named(self, groups: Groups, letter: str, number: str) -> list[str]:
        """Returns lines that name collapsed axes at a linear index."""
        if not groups:
            return []
        names = [f"{letter}{k}" for k in range(len(groups))] if len(groups) > 1 else [letter]
        self.writer.name_axes(groups, names)
        return taken_apart(number, names, [self.size(group) for group in groups])

    def results_at(self, parked: str, before: str = "") -> list[str]:
        """Returns lines that store the result number `each` from shared memory, which holds rows of
        a tile from a first one on; neighbouring threads store neighbours."""
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
        """Returns lines that apply the epilogue to a `total` and store it."""
        writer, scope = self.writer, LoopScope(frozenset(self.stage.parallel))
        scope.made[load(self.stage.out, self.stage.write)] = "total"
        scope.lines.append(f"total = {rounded_text(self.stage.out.dtype, 'total')}")
        for out, body in self.results:
            writer.store(out, self.stage.write, writer.value(body, [scope]), [scope])
        return scope.lines
