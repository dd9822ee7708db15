"""Row fusion: the order of the loops over the inner axes of a row, and the values that are stored
between them."""

from __future__ import annotations

import attrs

from structir.ir.dims import Dim, Sym
from structir.ir.kernel import computed_in
from structir.loops.lower.rounding import rounded
from structir.loops.program.buffer import Buffer
from structir.loops.program.expression import (
    Expression,
    Load,
    Operation,
    axis_dim,
    cost_of,
    load,
    parts_of,
    rebuilt,
    total,
)
from structir.loops.program.stage import Stage
from structir.loops.rewrite.view_inlining import value_at

RECOMPUTE_BELOW = 4.0  # an addition is 1
LOAD_COST = 0.5


@attrs.frozen
class Kept:
    """A value of a row that later loops of the row load from memory: from `place`, at inner axes.

    `of_stage` is the stage whose result row is borrowed; without one the place is scratch memory.
    """

    place: Buffer
    of_stage: Stage | None = None


class Phases:
    """The stages of a row group, in loops.

    A loop of one phase computes the stages with one inner space; a stage that needs all elements of
    another along the inner axes belongs to the next phase.
    """

    def __init__(
        self,
        stages: tuple[Stage, ...],
        rows: tuple[Sym, ...],
        extents: dict[Sym, Dim],
        stored: frozenset[Buffer],
        large: frozenset[Buffer] = frozenset(),
        recompute_below: float = RECOMPUTE_BELOW,
    ) -> None:
        self.recompute_below = recompute_below
        self.stages, self.rows, self.extents, self.stored = stages, rows, extents, stored
        self.large = large  # results that are written only once
        writers: dict[Buffer, list[Stage]] = {}
        for stage in stages:
            writers.setdefault(stage.out, []).append(stage)
        self.producers = {b: w[0] for b, w in writers.items() if len(w) == 1 and w[0].direct}
        self.inner = {s: tuple(a for a in s.axes if a not in rows) for s in stages}
        self.phase: dict[Stage, int] = {}
        self.available: dict[Stage, int] = {}
        for stage in stages:
            self._place(stage)
        self.costs: dict[Stage, float] = {}
        self.kept: dict[Buffer, Kept] = {}
        self._choose_kept()
        self._borrow_rows()
        self._resolved: dict[tuple[Expression, int], Expression] = {}

    def _place(self, stage: Stage) -> None:
        phase = 0
        for read in stage.loads:
            producer = self.producers.get(read.buffer)
            if producer is not None and producer is not stage:
                same = self._at_own_point(read, producer, stage)
                phase = max(phase, self.phase[producer] if same else self.available[producer])
        self.phase[stage] = phase
        self.available[stage] = phase + 1 if self.inner[stage] else phase

    def _at_own_point(self, read: Load, producer: Stage, stage: Stage) -> bool:
        inner = self.inner[producer]
        same_space = bool(inner) and set(inner) == set(self.inner[stage])
        return same_space and not producer.reduce and read.entries == producer.write

    def _choose_kept(self) -> None:
        """Chooses the stored values: those that later phases read and that are expensive to
        recompute, the last ones first, because a stored value needs none of its operands any
        more."""
        readers = self._reading_phases()
        for stage in reversed(self.stages):
            local = not stage.reduce and self.inner[stage] and stage.out not in self.stored
            late = any(phase > self.phase[stage] for phase in readers.get(stage, ()))
            if (
                local
                and late
                and stage.out in self.producers
                and self.cost(stage) > self.recompute_below
            ):
                shape = tuple(self.extents[a] for a in self.inner[stage])
                place = Buffer(shape, computed_in(stage.out.dtype), "scratch")
                self.kept[stage.out] = Kept(place)
                self.costs.clear()
                readers = self._reading_phases()

    def _reading_phases(self) -> dict[Stage, set[int]]:
        """Returns for each stage the phases whose loops use its value, directly or through
        others."""
        phases_of: dict[Stage, set[int]] = {}
        for stage in self.stages:
            if not self.inner[stage]:
                continue
            todo, seen = [stage], {stage}
            while todo:
                for read in todo.pop().loads:
                    producer = self.producers.get(read.buffer)
                    if producer is None or producer in seen:
                        continue
                    seen.add(producer)
                    phases_of.setdefault(producer, set()).add(self.phase[stage])
                    held = producer.out in self.stored or producer.out in self.kept
                    if not producer.reduce and not (
                        held and self.phase[producer] < self.phase[stage]
                    ):
                        todo.append(producer)
        return phases_of

    def cost(self, stage: Stage) -> float:
        """Returns the cost of an element of a stage, with all operands that are not stored."""
        known = self.costs.get(stage)
        if known is None:
            self.costs[stage] = 0.0
            known = self.costs[stage] = self._expression_cost(stage.body)
        return known

    def _expression_cost(self, root: Expression) -> float:
        seen: set[Expression] = set()
        todo, cost = [root], 0.0
        while todo:
            node = todo.pop()
            if node in seen:
                continue
            seen.add(node)
            todo += parts_of(node)
            if isinstance(node, Operation):
                cost += cost_of(node.fn)
            elif isinstance(node, Load):
                producer = self.producers.get(node.buffer)
                again = producer is not None and not producer.reduce and bool(self.inner[producer])
                again = again and node.buffer not in self.stored and node.buffer not in self.kept
                cost += self.cost(producer) if again and producer is not None else LOAD_COST
        return cost

    def _borrow_rows(self) -> None:
        """Stores a value in the row of a result that is written later, and read by nothing
        before."""
        borrowed: set[Stage] = set()
        for buffer in list(self.kept):
            producer = self.producers[buffer]
            for stage in self.stages:
                fits = stage.out in self.stored and stage not in borrowed
                if fits and self._can_borrow(producer, stage):
                    borrowed.add(stage)
                    self.kept[buffer] = Kept(stage.out, stage)
                    break

    def _can_borrow(self, producer: Stage, stage: Stage) -> bool:
        same = stage.parallel == producer.parallel and stage.write == producer.write
        same = same and not stage.reduce and stage.out in self.producers
        same = same and stage.out not in self.large
        same = same and stage.out.base is None  # else the base is still read
        same = same and stage.out.dtype == computed_in(producer.out.dtype)
        if not same or self.phase[stage] <= self.phase[producer]:
            return False
        written = False
        for reader in self.stages:
            for read in reader.loads:
                if read.buffer is not producer.out:
                    continue
                late = self.phase[reader] > self.phase[stage] or not self.inner[reader]
                last = self.phase[reader] == self.phase[stage]
                elsewhere = set(self.inner[reader]) != set(self.inner[stage])
                if late or (last and (written or elsewhere or read.entries != producer.write)):
                    return False
            written = written or reader is stage  # a later reader in its loop finds the result
        return self._read_directly(producer)

    def _read_directly(self, producer: Stage) -> bool:
        """Whether no reader of the value may be recomputed in a later loop than its own."""
        for reader in self.stages:
            if any(r.buffer is producer.out for r in reader.loads):
                last = reader.reduce or reader.out in self.stored or reader.out in self.kept
                if not last and self.inner[reader]:
                    return False
        return True

    def resolved(self, root: Expression, phase: int) -> Expression:
        """Returns an expression as a loop of this phase computes it: stored values are loaded,
        totals are used, and everything else is inlined."""

        def leaf(node: Expression) -> Expression:
            if not isinstance(node, Load):
                return node
            entries = tuple(
                [rebuilt(e, leaf) if isinstance(e, Expression) else e for e in node.entries]
            )
            return self._resolved_load(load(node.buffer, entries), phase)

        return rebuilt(root, leaf)

    def _resolved_load(self, read: Load, phase: int) -> Expression:
        key = (read, phase)
        if key not in self._resolved:
            self._resolved[key] = self._found(read, phase)
        return self._resolved[key]

    def _found(self, read: Load, phase: int) -> Expression:
        producer = self.producers.get(read.buffer)
        if producer is None:
            return read
        if producer.reduce:
            return rounded(total(read.buffer), read.buffer.dtype)
        ready = bool(self.inner[producer]) and self.phase[producer] < phase
        if ready and read.buffer in self.stored:
            return read
        if ready and read.buffer in self.kept:
            return self.kept_load(producer, read)
        value = value_at(producer, read.entries)
        return read if value is None else self.resolved(value, phase)

    def kept_load(self, producer: Stage, read: Load) -> Load:
        """Returns the load of a stored value."""
        kept = self.kept[read.buffer]
        if kept.of_stage is not None:
            return load(kept.place, read.entries)
        at = dict(zip(producer.write, read.entries, strict=True))
        return load(kept.place, tuple(at[axis_dim(a)] for a in self.inner[producer]))
