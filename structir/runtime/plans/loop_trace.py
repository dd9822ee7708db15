"""Traces loops into step instructions: the body is traced once with abstract values."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from structir.interpret.scope import Closure, Value
from structir.ir.bodies import bindings_of
from structir.ops.loop import LoopSpec
from structir.runtime.plans.growing import LIST, OUTPUT, ROWS, Growing, Grown
from structir.runtime.plans.instructions import (
    PART,
    WORD,
    Append,
    Clear,
    CopyInstruction,
    InstructionBlock,
    LoopInstruction,
    MemoryCell,
    NotPlannedError,
    RowInstruction,
    Slot,
    leaves,
    map_leaves,
)
from structir.runtime.program import rows_added

MAX_OUTPUT_BYTES = 1 << 26  # bytes of an output that is allocated completely at the start
BOOL, INT64 = np.dtype(bool), np.dtype(np.int64)
TRUE = np.asarray(True)


def is_array(value: Value) -> bool:
    """Whether a value is an array, at compile time or at run time."""
    return isinstance(value, Slot | np.ndarray | np.generic)


def is_empty(value: Value) -> bool:
    """Whether a value is an empty list."""
    return isinstance(value, tuple) and not value


def is_never(value: Value) -> bool:
    """Whether a condition of a loop is known to be false, or the trip count is zero."""
    return value is not None and not isinstance(value, Slot) and not np.asarray(value) > 0


def may_grow(function: Any, steps: LoopSpec) -> frozenset[int]:
    """Returns the indices of carried values that may grow: empty lists, and tensors that the body
    appends rows to."""
    if not isinstance(function, Closure):
        return frozenset()
    params = function.function.params[0 if steps.read else 2 :]
    appends = [rows_added(binding.value) for binding in bindings_of(function.function)]
    added = {rows[0] for rows in appends if rows is not None}
    pairs = enumerate(zip(params, steps.carried, strict=False))
    return frozenset([k for k, (param, value) in pairs if is_empty(value) or param in added])


def require_flag(value: Slot) -> None:
    """Checks that a condition is a boolean."""
    if value.dtype != BOOL or prod(value.shape) != 1:
        raise NotPlannedError("a condition that is not a boolean")


class LoopTrace:
    """Traces one loop; `growing` are the indices of carried values that grow."""

    def __init__(
        self, tracer: Any, function: Any, steps: LoopSpec, growing: frozenset[int] = frozenset()
    ) -> None:
        self.tracer, self.function, self.steps, self.growing = tracer, function, steps, growing
        self.limit = None if steps.trips is None else tracer.slot(steps.trips)
        self.going = None if steps.going is None else tracer.slot(steps.going)
        if self.limit is not None and self.limit.dtype != INT64:
            raise NotPlannedError("a loop counter of another dtype")
        if self.going is not None:
            require_flag(self.going)
        self.counter = Slot(MemoryCell(WORD), (), INT64)
        self.swapped: list[tuple[MemoryCell, MemoryCell]] = []
        self.around: InstructionBlock = tracer.blocks[-1]
        self.outermost = len(tracer.blocks) == 1

    def trace(self) -> tuple[tuple[Value, ...], list[Value]]:
        """Traces the loop and returns its results."""
        carried = tuple([self._initial(*item) for item in enumerate(self.steps.carried)])
        with self.tracer.inside() as body:
            elements = [self._element(value) for value in self.steps.read]
            items = [item for _, item in elements]
            value = self._result(self.steps.given(self.counter, TRUE, carried, items))
            going, after, outputs = self.steps.taken(value)
            condition = self._condition(going, body)
            grown = [self._output(output, condition) for output in outputs]
            before, results = list(leaves(carried)), list(leaves(after))
            if len(before) != len(results):
                raise NotPlannedError("a list that the body changes")
            for start, end in zip(before, results, strict=True):
                self._carry(start, end, body)
        self.around.fresh |= {g.cell for g in grown if isinstance(g, Slot)}
        if condition is not None:
            first = self.tracer.slot(TRUE) if self.going is None else self.going
            self.tracer.step(CopyInstruction(condition, first.cell))
        limit = None if self.limit is None else self.limit.cell
        rows, swapped = tuple([row for row, _ in elements]), tuple(self.swapped)
        self.tracer.step(LoopInstruction(self.counter.cell, limit, condition, rows, body, swapped))
        return map_leaves(carried, lambda v: v.growing.value if isinstance(v, Grown) else v), grown

    def _initial(self, index: int, value: Value) -> Value:
        """Returns a carried value before the first step."""
        return (
            self._start_growing(value)
            if index in self.growing
            else map_leaves(value, self._copy_in)
        )

    def _start_growing(self, value: Value) -> Value:
        """Returns a growing carried value that starts from the value before the loop."""
        if is_empty(value):
            return self._open(Growing(LIST, self.tracer.append)).value
        first = self.tracer.slot(value)
        growing = Growing(ROWS, self.tracer.append, (first.shape[1:], first.dtype))
        if not growing.fits(*(first.shape[1:], first.dtype)):
            raise NotPlannedError("elements of an empty value")
        self._open(growing)
        self.tracer.step(Append(growing.cell, first.cell, growing.filled))
        return growing.value

    def _open(self, growing: Growing) -> Growing:
        if not self.outermost:
            raise NotPlannedError("a value of a size known only at run time")
        self.tracer.growing.append(growing)
        self.around.steps.append(Clear(growing.filled))
        return growing

    def _result(self, args: tuple[Value, ...]) -> Value:
        if isinstance(self.function, Closure):
            return self.tracer.run(self.tracer.entered(self.function, args))
        return self.function(*args)

    def _copy_in(self, value: Value) -> Value:
        """Copies a carried value to a new cell."""
        if not is_array(value):  # including one that grows in an enclosing loop
            return value
        first = self.tracer.slot(value)
        slot = Slot(MemoryCell(first.cell.root.bytes), first.shape, first.dtype)
        self.tracer.step(CopyInstruction(slot.cell, first.cell))
        return slot

    def _element(self, value: Value) -> tuple[RowInstruction, Value]:
        """Returns the instruction that loads the element of a step, and the element."""
        source = self.tracer.slot(value)
        size = prod(source.shape[1:]) * source.dtype.itemsize
        cell = MemoryCell(size, PART, enclosing=source.cell)
        return RowInstruction(cell, source.cell, self.counter.cell), Slot(
            cell, source.shape[1:], source.dtype
        )

    def _condition(self, going: Value, body: InstructionBlock) -> MemoryCell | None:
        """Returns the cell of the loop condition; None if all steps run."""
        if not isinstance(going, Slot | np.ndarray):
            raise NotPlannedError("a condition that is not a tensor")
        condition = self.tracer.slot(going)
        require_flag(condition)
        is_constant = not isinstance(going, Slot)
        if is_constant and going and not isinstance(self.steps.going, Slot):
            return None
        cell = MemoryCell(1)
        if not (is_constant and going):
            body.steps.append(CopyInstruction(cell, condition.cell))
        return cell

    def _output(self, output: Value, condition: MemoryCell | None) -> Value:
        """Returns an output whose memory is allocated completely, or one that grows in the loop."""
        element = self.tracer.slot(output)
        size = element.cell.root.bytes
        is_bounded = condition is None and not isinstance(self.steps.trips, Slot | None)
        trips = int(self.steps.trips) if is_bounded else 0
        if not is_bounded or trips * size > MAX_OUTPUT_BYTES:
            return self.tracer.append(
                self._open(Growing(OUTPUT, self.tracer.append)).value, element
            )
        outputs, filled = (
            Slot(MemoryCell(trips * size), (trips, *element.shape), element.dtype),
            MemoryCell(WORD),
        )
        self.around.steps.append(Clear(filled))
        self.tracer.step(Append(outputs.cell, element.cell, filled, trips * size))
        return outputs

    def _carry(self, before: Value, after: Value, body: InstructionBlock) -> None:
        """Assigns the results of a step to the carried values of the next one."""
        if isinstance(before, Grown) and isinstance(after, Grown):
            same = after.growing is before.growing and after.kind == before.kind
            if not same or after.version != before.growing.version:
                raise NotPlannedError("a value whose memory has been reused")
            return
        if not is_array(before) or not is_array(after):
            if type(before) is not type(after) or before != after:
                raise NotPlannedError("a carried value that is not a tensor")
            return
        source = self.tracer.slot(after)
        if source.shape != before.shape or source.dtype != before.dtype:
            raise NotPlannedError("a carried value that changes its shape or dtype")
        if source.cell.root is before.cell:
            return
        target = source.cell.root
        if not body.claim(target, before.cell.bytes):
            target = MemoryCell(before.cell.bytes)
            body.steps.append(CopyInstruction(target, source.cell))
        self.swapped.append((before.cell, target))
