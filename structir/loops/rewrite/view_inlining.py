"""View inlining: reads of stages that only move elements become reads of their operands."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from math import prod

import attrs

from structir.ir import dims
from structir.ir.dims import Dim, Sym
from structir.loops.lower.rounding import rounded
from structir.loops.products.contraction import Contraction, contraction_of
from structir.loops.program.access import split
from structir.loops.program.buffer import Buffer
from structir.loops.program.expression import (
    Entry,
    Expression,
    Load,
    Operation,
    axis_dim,
    load,
    loads_of,
    rebuilt,
    substituted,
)
from structir.loops.program.routine import Routine
from structir.loops.program.stage import LoopProgram, Stage
from structir.loops.rewrite.window_sums import sum_of_windows

LEAST_ROWS = 16  # rows of a group that is multiplied alone
LEAST_COLUMNS = 128  # columns of a product whose left operand is worth a copy
ProductOf = Callable[[Stage], Contraction | None]  # returns the matrix product that a stage is


def with_inlined_views(
    program: LoopProgram,
    product_of: ProductOf = contraction_of,
    windows_of: Callable[[Stage], object] = sum_of_windows,
) -> LoopProgram:
    """Inlines views into their readers, and removes unused stages. Products, and sums over windows,
    keep their form."""
    stages, changed = list(program.stages), True
    before: BufferTable | None = None
    unchanged: set[Stage] = set()  # stages without change in the last round
    while changed:
        table = BufferTable(program, stages, product_of, windows_of)
        differing = set[Buffer]() if before is None else table.differing(before)
        composed_stages = [
            stage
            if stage in unchanged and not table.touches(stage, differing)
            else _composed_stage(stage, table)
            for stage in stages
        ]
        before = table
        unchanged = {a for a, b in zip(stages, composed_stages, strict=True) if a is b}
        if any(a is not b for a, b in zip(composed_stages, stages, strict=True)):
            table = BufferTable(program, composed_stages, product_of, windows_of)
        composed_stages = _written_through(composed_stages, table)
        kept = live_stages(program, composed_stages)
        changed = len(kept) < len(stages) or any(
            a is not b for a, b in zip(composed_stages, stages, strict=True)
        )
        stages = kept
    return attrs.evolve(program, stages=tuple(stages))


def live_stages(program: LoopProgram, stages: list[Stage]) -> list[Stage]:
    """Returns the stages that an output depends on, and routines that reject operands, in order."""
    needed = {b.root for b in program.outputs}
    kept = []
    for stage in reversed(stages):
        if stage.out.root in needed or (
            isinstance(stage.routine, Routine) and stage.routine.rejects
        ):
            kept.append(stage)
            needed |= {load.buffer.root for load in stage.loads}
    return kept[::-1]


class BufferTable:
    """Def-use information of buffers: their writers, the number of reads, and whether they are
    stored."""

    def __init__(
        self,
        program: LoopProgram,
        stages: list[Stage],
        product_of: ProductOf,
        windows_of: Callable[[Stage], object],
    ) -> None:
        self.product_of, self.windows_of = product_of, windows_of
        self.writers: dict[Buffer, list[Stage]] = {}
        self.maps: dict[Buffer, Stage | None] = {}
        self.uses: Counter[Buffer] = Counter()
        self.kept = {b.root for b in program.outputs}
        for stage in stages:
            self.writers.setdefault(stage.out, []).append(stage)
            for buffer in [x.buffer for x in stage.loads]:
                self.uses[buffer] = self.uses.get(buffer, 0) + 1
                if buffer.base is not None:
                    self.kept.add(buffer.root)
        self.added_up = _added_up_in_columns(stages)

    def differing(self, before: BufferTable) -> set[Buffer]:
        """Returns the buffers of which anything is different in an earlier table."""
        buffers = {*self.writers, *before.writers, *self.uses, *before.uses}
        return (self.kept ^ before.kept).union(
            b
            for b in buffers
            if self.writers.get(b) != before.writers.get(b) or self.uses[b] != before.uses[b]
        )

    def touches(self, stage: Stage, buffers: Collection[Buffer]) -> bool:
        """Whether a stage, or a stage that it reads from, reads one of some buffers."""
        return any(
            read.buffer in buffers
            or any(x.buffer in buffers for m in self.writers.get(read.buffer, ()) for x in m.loads)
            for read in stage.loads
        )

    def map_into(self, buffer: Buffer) -> Stage | None:
        """Returns the only writer of a buffer, if it is a map that writes each element in place."""
        if buffer not in self.maps:
            self.maps[buffer] = self._map_into(buffer)
        return self.maps[buffer]

    def _map_into(self, buffer: Buffer) -> Stage | None:
        writers = self.writers.get(buffer, [])
        if len(writers) != 1 or buffer.base is not None or self._gathers(writers[0]):
            return None
        return writers[0] if writers[0].direct and not writers[0].reduce else None

    def _gathers(self, stage: Stage) -> bool:
        """Whether a stage removes the gaps between the columns of a product; the two stay
        together."""
        if not isinstance(stage.body, Load):
            return False
        contractions = [self.product_of(m) for m in self.writers.get(stage.body.buffer, [])]
        return any(c is not None and c.windows for c in contractions)

    def loses_form(self, stage: Stage, composed_stage: Stage) -> bool:
        """Whether inlining destroys the form of a matrix product, or of a sum over windows."""
        before, after = self.product_of(stage), self.product_of(composed_stage)
        if before is not None and (after is None or after.windows > before.windows):
            return True
        return self.windows_of(stage) is not None and self.windows_of(composed_stage) is None

    def splits_rows(self, stage: Stage, composed_stage: Stage) -> bool:
        """Whether inlining splits the contiguous rows of a product with many columns into groups
        that may be small: each group reads the right operand again."""
        before, after = self.product_of(stage), self.product_of(composed_stage)
        if before is None or after is None or after.windows or len(after.m) >= len(before.m):
            return False
        rows, columns = (prod(stage.extents[x] for x in axes) for axes in (after.m, after.n))
        return (
            dims.at_least(rows, LEAST_ROWS) is not True
            and dims.at_least(columns, LEAST_COLUMNS) is True
        )

    def spreads_columns(self, stage: Stage, read: Load, value: Expression) -> bool:
        """Whether inlining a transposition makes a reduction of columns, which reads neighbours in
        its inner loop, read with steps, and each element several times. Products copy such operands
        themselves."""
        adds_columns = stage.reduce or stage.out in self.added_up
        if not adds_columns or not isinstance(value, Load):
            return False
        if self.product_of(stage) is not None or self.windows_of(stage) is not None:
            return False
        places = [entry for entry in read.entries if not isinstance(entry, Expression)]
        repeats = not {axis for place in places for axis in dims.syms(place)}.issuperset(stage.axes)
        keeps = _reads_neighbours(stage, read) and not _reads_neighbours(stage, value)
        return repeats and keeps

    def is_epilogue(self, stage: Stage) -> bool:
        """Whether a map uses the result of a reduction at its own point: it becomes its
        epilogue."""
        own = set(stage.parallel)
        for read in loads_of(stage.body):
            producers = self.writers.get(read.buffer, [])
            if producers and producers[0].reduce and own <= _unit_axes(read):
                return True
        return False


def _added_up_in_columns(stages: list[Stage]) -> set[Buffer]:
    """Returns the buffers that are reduced, directly or by way of maps, along another axis than
    their last."""
    reduced = set[Buffer]()
    for stage in reversed(stages):
        if stage.reduce or stage.out in reduced:
            reduced.update(read.buffer for read in stage.loads if _reads_neighbours(stage, read))
    return reduced


def _reads_neighbours(stage: Stage, read: Load) -> bool:
    """Whether neighbours along the last axis of a stage read neighbouring elements."""
    if not read.entries or not stage.parallel or isinstance(read.entries[-1], Expression):
        return False
    return dims.as_sym(read.entries[-1]) == stage.parallel[-1]


def _unit_axes(read: Load) -> set[Sym]:
    symbols = [dims.as_sym(e) for e in read.entries if not isinstance(e, Expression)]
    return {s for s in symbols if s is not None}


def _written_through(stages: list[Stage], table: BufferTable) -> list[Stage]:
    """Lets matrix products whose result is only moved write to the destination."""
    moved: dict[Stage, Stage] = {}
    for mover in stages:
        body = mover.body
        if not (isinstance(body, Load) and mover.direct and not mover.reduce):
            continue
        producers = table.writers.get(body.buffer, [])
        alone = (
            len(producers) == len(table.writers[mover.out]) == 1
            and table.uses[body.buffer] == 1
            and producers[0] not in moved
        )
        if alone and body.buffer not in table.kept and body.buffer.base is None:
            moved_stage = _writing_as(producers[0], mover, body, table)
            if moved_stage is not None:
                moved[producers[0]] = moved_stage
    gone = {moved_stage.out for moved_stage in moved.values()}
    kept = [s for s in stages if s.out not in gone]
    return [moved.get(s, s) for s in kept]


def _writing_as(producer: Stage, mover: Stage, read: Load, table: BufferTable) -> Stage | None:
    """Returns a matrix product that writes to the destination of a moving stage."""
    if (
        table.product_of(producer) is None
        or not producer.direct
        or mover.out.dtype != producer.out.dtype
    ):
        return None
    units = [None if isinstance(e, Expression) else dims.as_sym(e) for e in read.entries]
    at: dict[Sym, Dim] = {}
    for written, unit in zip(producer.write, units, strict=True):
        own = None if isinstance(written, Expression) else dims.as_sym(written)
        if own is None or unit is None or unit in at or unit not in mover.extents:
            return None
        if mover.extents[unit] != producer.extents[own]:
            return None
        at[unit] = axis_dim(own)
    if set(at) != set(mover.parallel):
        return None
    write = tuple([e if isinstance(e, Expression) else dims.substitute(e, at) for e in mover.write])
    rewritten = attrs.evolve(producer, out=mover.out, write=write)
    contraction = table.product_of(rewritten)
    return rewritten if contraction is not None and not contraction.windows else None


def _as_product(stage: Stage, table: BufferTable) -> Stage | None:
    """Returns a sum of products that another stage computes as a matrix product of their factors;
    None if it is no such sum. Without rows and columns there is nothing to reuse."""
    read = stage.body
    if not isinstance(read, Load) or stage.monoid != "sum" or table.uses[read.buffer] != 1:
        return None
    producer = table.map_into(read.buffer)
    if producer is None or read.buffer in table.kept or not _multiplies(producer.body):
        return None
    value = value_at(producer, read.entries)
    if value is None:
        return None
    rewritten = attrs.evolve(stage, body=value)
    product = table.product_of(rewritten)
    return rewritten if product is not None and product.m and not product.windows else None


def _multiplies(body: Expression) -> bool:
    """Whether an expression is the product of two elements."""
    return (
        isinstance(body, Operation)
        and body.fn == "mul"
        and all(isinstance(x, Load) for x in body.args)
    )


def _composed_stage(stage: Stage, table: BufferTable) -> Stage:
    product = _as_product(stage, table)
    if product is not None:
        return product
    if stage.routine is not None or not any(_moved(stage, x, table) for x in stage.loads):
        return stage

    def leaf(node: Expression) -> Expression:
        if not isinstance(node, Load):
            return node
        entries: list[Entry] = [
            rebuilt(e, leaf) if isinstance(e, Expression) else e for e in node.entries
        ]
        node = load(node.buffer, tuple(entries))
        return _composed_load(stage, node, table) or node

    body = rebuilt(stage.body, leaf)
    if body is stage.body:
        return stage
    rewritten = attrs.evolve(stage, body=body)
    if table.loses_form(stage, rewritten) or table.splits_rows(stage, rewritten):
        return _composed_factors(stage, leaf, table)
    return rewritten


def _composed_factors(stage: Stage, leaf: object, table: BufferTable) -> Stage:
    """Inlines views into the factors of a product one by one, as far as it remains a product."""
    for factor in loads_of(stage.body):
        body = rebuilt(stage.body, lambda n, f=factor: leaf(n) if n is f else n)  # type: ignore[operator,misc]
        rewritten = attrs.evolve(stage, body=body)
        if (
            body is stage.body
            or table.loses_form(stage, rewritten)
            or table.splits_rows(stage, rewritten)
        ):
            continue
        return rewritten
    return stage


def _composed_load(stage: Stage, read: Load, table: BufferTable) -> Expression | None:
    producer = _moved(stage, read, table)
    value = None if producer is None else value_at(producer, read.entries)
    return None if value is None or table.spreads_columns(stage, read, value) else value


def _moved(stage: Stage, read: Load, table: BufferTable) -> Stage | None:
    """Returns the stage that computes a read element, if it is recomputed at the read."""
    producer = table.map_into(read.buffer)
    if producer is None or producer is stage:
        return None
    only_moves = isinstance(producer.body, Load)
    return producer if only_moves or _moves_along(stage, read, producer, table) else None


def value_at(producer: Stage, entries: tuple[Entry, ...], exact: bool = True) -> Expression | None:
    """Returns the value of a direct map at other entries of its result, rounded to its dtype; with
    `exact` false, in the dtype in which the map computes it."""
    axes: dict[Sym, Dim] = {}
    data: dict[Sym, Expression] = {}
    for written, entry in zip(producer.write, entries, strict=True):
        symbol = None if isinstance(written, Expression) else dims.as_sym(written)
        if symbol is None:
            continue
        if isinstance(entry, Expression):
            data[symbol] = entry
        else:
            axes[symbol] = entry
    body = rounded(producer.body, producer.out.dtype) if exact else producer.body
    return substituted(body, axes, data)


def _moves_along(stage: Stage, read: Load, producer: Stage, table: BufferTable) -> bool:
    """Whether a map can be inlined into its only reader, which reads it in another order or with
    steps, without computing anything twice."""
    if table.uses[read.buffer] != 1 or read.buffer in table.kept or table.is_epilogue(producer):
        return False
    if table.product_of(stage) is not None or not stage.simple:
        return False
    return not stage.reads_in_order(read) and _each_once(stage, read)


def _each_once(stage: Stage, read: Load) -> bool:
    """Whether no two points of a stage read the same element: each axis changes one index, and the
    axes of one index do not overlap, unlike those of a window."""
    collected: list[Sym] = []
    for entry in read.entries:
        if isinstance(entry, Expression):
            continue
        steps, rest = split(entry, stage.axes)
        if dims.syms(rest) & set(stage.axes):
            return False
        collected += steps
        inner: Sym | None = None
        for axis in sorted(steps, key=lambda a: _size_of(steps[a])):
            if inner is not None:
                over = steps[inner] * stage.extents[inner]
                if dims.at_least(steps[axis], over) is not True:
                    return False
            inner = axis
    return set(collected) >= set(stage.axes)


def _size_of(step: Dim) -> int:
    """Returns a key that orders steps by size."""
    return (
        step if isinstance(step, int) else dims.evaluate(step, {s: 1009 for s in dims.syms(step)})
    )
