"""The schedule of an argmax or argmin: the extreme of each result's terms, then its first index.

Both passes are loops without branches, which LLVM vectorizes. Contiguous terms are read twice; if
results are contiguous, a block of them is in scratch memory and updated once per term.
"""

from __future__ import annotations

from math import prod

from structir.backend.loops.access import address_of, joined_axes
from structir.backend.loops.buffer import Buffer
from structir.backend.loops.expression import Load, axis_dim
from structir.backend.loops.group import Group
from structir.backend.loops.nest import nest_kernel
from structir.backend.loops.scalar_text import accumulation_text, number_text
from structir.backend.loops.stage import Stage
from structir.backend.loops.writer import SINGLE, KernelText, LoopScope, Writer, indented, loops
from structir.ir.dims import Dim, Sym
from structir.ir.dtype import is_float
from structir.ir.kernel import computed_in
from structir.projections.monoid import MONOIDS

BLOCK = 1024  # results at once: their extremes and indices fit into the first cache
PICKS = {"argmax": ("max", ">"), "argmin": ("min", "<")}


def pick_kernel(group: Group) -> KernelText:
    """Returns the source of a stage in its own loops, vectorized for an argmax or argmin of
    elements."""
    stage = group.stages[0]
    plain = stage.unique and stage.exists is None and not stage.guards
    if plain and stage.monoid in PICKS and type(stage.body) is Load and stage.body.dtype != "bool":
        return PickSchedule(stage, stage.body).text()
    return nest_kernel(group)


class PickSchedule:
    """Writes the kernel of an argmax or argmin."""

    def __init__(self, stage: Stage, read: Load) -> None:
        self.stage = stage
        self.dtype = computed_in(read.dtype)
        self.extreme, self.sign = PICKS[stage.monoid or ""]
        address = address_of(read.buffer, read.entries, stage.axes)
        addresses = [address, address_of(stage.out, stage.write, stage.axes)]
        self.rows = joined_axes(stage.parallel, stage.extents, addresses)
        self.terms = joined_axes(stage.reduce, stage.extents, [address])
        along_terms = address.coefficient(self.terms[-1][-1]) == 1
        along_rows = bool(self.rows) and address.coefficient(self.rows[-1][-1]) == 1
        self.vector = self.rows.pop() if along_rows and not along_terms else ()
        self.outer = frozenset(a for group in self.rows for a in group)
        self.writer = Writer(stage.axes, self.outer)
        names = [f"r{i}" for i in range(len(self.rows))] if len(self.rows) > 1 else ["r"]
        self.writer.name_axes(self.rows, names[: len(self.rows)])
        self.writer.name_axes(self.terms, [f"u{i}" for i in range(len(self.terms))])
        if self.vector:
            self.writer.name_axes([self.vector], ["j"])

    def text(self) -> KernelText:
        """Returns the source of the kernel: the rows are the range, or without rows the results of
        a block."""
        if not self.vector:
            lines = self._row()
        elif not self.rows:
            return self._finished(self._blocks("lo", "hi"), self._extent(self.vector))
        else:
            lines = self._blocks("0", self.writer.size(self._extent(self.vector)))
        if not self.rows:
            return self._finished([SINGLE, *indented(lines)], 1)
        sizes = [self.writer.size(self._extent(group)) for group in self.rows[1:]]
        lines = [*self.writer.decoded(self.rows, ["", *sizes], "r"), *lines]
        whole = prod(self._extent(group) for group in self.rows)
        return self._finished(["for r in range(lo, hi):", *indented(lines)], whole)

    def _finished(self, lines: list[str], extent: Dim) -> KernelText:
        return self.writer.finish(lines, extent, self.stage.origins)

    def _extent(self, axes: tuple[Sym, ...]) -> Dim:
        return prod(self.stage.extents[axis] for axis in axes)

    def _over_terms(self, body: list[str]) -> list[str]:
        sizes = [self.writer.size(self._extent(group)) for group in self.terms]
        return loops([f"u{i}" for i in range(len(self.terms))], sizes, body)

    def _place(self) -> str:
        """Returns the linear index of a term in the order of the reduced axes."""
        place: Dim = 0
        for group in self.terms:
            place = place * self._extent(group) + axis_dim(group[-1])
        return self.writer.index_text(place)

    def _identity(self) -> str:
        return number_text(MONOIDS[self.stage.monoid or ""].identity(self.dtype), self.dtype)

    def _term(self, axes: frozenset[Sym]) -> tuple[list[str], str]:
        """Returns lines that load a term, and its name."""
        scope = LoopScope(axes)
        value = self.writer.value(self.stage.body, [scope])
        return scope.lines, value

    def _stored(self, value: str, axes: frozenset[Sym]) -> list[str]:
        scope = LoopScope(axes)
        self.writer.store(self.stage.out, self.stage.write, value, [scope])
        return scope.lines

    def _row(self) -> list[str]:
        """Writes one result: its extreme, then the first index that has it; NaN is the extreme."""
        inner = self.outer | set(self.stage.reduce)
        lines, value = self._term(inner)
        first = [*lines, f"total = {accumulation_text(self.extreme, self.dtype, 'total', value)}"]
        count = self.writer.size(self._extent(self.stage.reduce))
        lines, value = self._term(inner)
        holds = f"{value} == total"
        if is_float(self.dtype):
            holds = f"({holds}) | ({value} != {value})"
        second = [*lines, f"at = min(at, {self._place()} if {holds} else {count})"]
        return [
            f"total = {self._identity()}",
            *self._over_terms(first),
            f"at = {count}",
            *self._over_terms(second),
            *self._stored(f"{self.stage.out.dtype}(at)", self.outer),
        ]

    def _blocks(self, low: str, high: str) -> list[str]:
        """Writes the results of the innermost axis, a block at a time."""
        totals = Buffer((BLOCK,), self.dtype, "scratch")
        places = Buffer((BLOCK,), "int64", "scratch")
        self.writer.scratch += [totals, places]
        total, at = (f"{self.writer.pointer(b)}[j - j0]" for b in (totals, places))
        everything = frozenset(self.stage.axes)
        lines, value = self._term(everything)
        better = f"{value} {self.sign} total"
        if is_float(self.dtype):
            better = f"({better}) | (({value} != {value}) & (total == total))"
        lines += [
            f"total = {total}",
            f"at = {at}",
            f"better = {better}",
            f"{total} = {value} if better else total",
            f"{at} = {self._place()} if better else at",
        ]
        each = "for j in range(j0, j1):"
        block = [
            each,
            *indented([f"{total} = {self._identity()}", f"{at} = 0"]),
            *self._over_terms([each, *indented(lines)]),
            each,
            *indented(self._stored(f"{self.stage.out.dtype}({at})", self.outer | {*self.vector})),
        ]
        head = [f"for j0 in range({low}, {high}, {BLOCK}):", f"    j1 = min(j0 + {BLOCK}, {high})"]
        return [*head, *indented(block)]
