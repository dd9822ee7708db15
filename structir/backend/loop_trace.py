"""Loops on their way to steps: a body is run once on forms, and what it hands on goes round."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from structir.backend.steps import (
    OUTSIDE,
    PART,
    WORD,
    Append,
    Block,
    Cell,
    Copy,
    Growing,
    Loop,
    NotPlannedError,
    Part,
    Slot,
    leaves,
    mapped,
)
from structir.interpret.scope import Closure, Value
from structir.ops.loop import Steps

MOST_OUTPUT = 1 << 26  # bytes of an output that has all its room from the start
BOOL, INT64 = np.dtype(bool), np.dtype(np.int64)
TRUE = np.asarray(True)


def is_array(value: Value) -> bool:
    """Whether a value lies in memory, or will."""
    return isinstance(value, Slot | np.ndarray | np.generic)


def is_never(value: Value) -> bool:
    """Whether something that a loop needs is known to be false, or no step."""
    return value is not None and not isinstance(value, Slot) and not np.asarray(value) > 0


def require_flag(value: Slot) -> None:
    """What is looked at to choose must be a boolean."""
    if value.dtype != BOOL or prod(value.shape) != 1:
        raise NotPlannedError("a choice by something else than a boolean")


class LoopTrace:
    """One loop on its way to steps."""

    def __init__(self, tracer: Any, function: Any, steps: Steps) -> None:
        self.tracer, self.function, self.steps = tracer, function, steps
        self.limit = None if steps.trips is None else tracer.slot(steps.trips)
        self.going = None if steps.going is None else tracer.slot(steps.going)
        if self.limit is not None and self.limit.dtype != INT64:
            raise NotPlannedError("steps counted in another dtype")
        if self.going is not None:
            require_flag(self.going)
        self.counter = Slot(Cell(WORD), (), INT64)
        self.swapped: list[tuple[Cell, Cell]] = []

    def made(self) -> tuple[tuple[Value, ...], list[Value]]:
        """The steps of the loop, and what comes of it."""
        carried = mapped(self.steps.carried, self._entering)
        around, outermost = self.tracer.blocks[-1], len(self.tracer.blocks) == 1
        with self.tracer.inside() as body:
            part, element = self._element()
            found = self._result(self.steps.given(self.counter, TRUE, carried, element))
            going, after, outputs = self.steps.taken(found)
            condition = self._condition(going, body)
            grown = [self._grown(output, condition, body, outermost) for output in outputs]
            before, now = list(leaves(carried)), list(leaves(after))
            if len(before) != len(now):
                raise NotPlannedError("a list that grows")
            for one, other in zip(before, now, strict=True):
                self._handed_on(one, other, body)
        around.fresh |= {g.cell for g in grown if isinstance(g, Slot)}
        if condition is not None:
            first = self.tracer.slot(TRUE) if self.going is None else self.going
            self.tracer.step(Copy(condition, first.cell))
        limit = None if self.limit is None else self.limit.cell
        self.tracer.step(Loop(self.counter.cell, limit, condition, part, body, tuple(self.swapped)))
        return carried, grown

    def _result(self, args: tuple[Value, ...]) -> Value:
        if isinstance(self.function, Closure):
            return self.tracer.run(self.tracer.entered(self.function, args))
        return self.function(*args)

    def _entering(self, value: Value) -> Value:
        """A carried value in a cell of its own."""
        if not is_array(value):
            return value
        first = self.tracer.slot(value)
        made = Slot(Cell(first.cell.root.bytes), first.shape, first.dtype)
        self.tracer.step(Copy(made.cell, first.cell))
        return made

    def _element(self) -> tuple[Part | None, Value]:
        if self.steps.read is None:
            return None, None
        whole = self.tracer.slot(self.steps.read)
        size = prod(whole.shape[1:]) * whole.dtype.itemsize
        cell = Cell(size, PART, around=whole.cell)
        return Part(cell, whole.cell, self.counter.cell), Slot(cell, whole.shape[1:], whole.dtype)

    def _condition(self, going: Value, body: Block) -> Cell | None:
        """The cell that is looked at before each step; None where all steps are made."""
        if not isinstance(going, Slot | np.ndarray):
            raise NotPlannedError("a condition that is no tensor")
        next_one = self.tracer.slot(going)
        require_flag(next_one)
        known = not isinstance(going, Slot)
        if known and going and not isinstance(self.steps.going, Slot):
            return None
        cell = Cell(1)
        if not (known and going):
            body.steps.append(Copy(cell, next_one.cell))
        return cell

    def _grown(self, output: Value, condition: Cell | None, body: Block, outermost: bool) -> Value:
        """An output with all its room, or one that grows as long as the loop does."""
        one = self.tracer.slot(output)
        size = one.cell.root.bytes
        known = condition is None and not isinstance(self.steps.trips, Slot | None)
        trips = int(self.steps.trips) if known else 0
        if known and trips * size <= MOST_OUTPUT:
            whole: Any = Slot(Cell(trips * size), (trips, *one.shape), one.dtype)
        elif outermost and self.tracer.open_outputs:
            whole = Growing(Cell(0, OUTSIDE), self.counter.cell, one.shape, one.dtype)
        else:
            raise NotPlannedError("an output of a size that only running tells")
        body.steps.append(Append(whole.cell, one.cell, self.counter.cell, trips, size))
        return whole

    def _handed_on(self, before: Value, after: Value, body: Block) -> None:
        """What a step hands on is what the next one is given."""
        if not is_array(before) or not is_array(after):
            if type(before) is not type(after) or before != after:
                raise NotPlannedError("a value that changes beside tensors")
            return
        source = self.tracer.slot(after)
        if source.shape != before.shape or source.dtype != before.dtype:
            raise NotPlannedError("a carried value that changes its form")
        if source.cell.root is before.cell:
            return
        made = source.cell.root
        if not body.taken(made, before.cell.bytes):
            made = Cell(before.cell.bytes)
            body.steps.append(Copy(made, source.cell))
        self.swapped.append((before.cell, made))
