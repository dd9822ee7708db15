"""Traces loops whose carried values may change their sizes in each iteration."""

from __future__ import annotations

from math import prod
from typing import Any

import attrs
import numpy as np

from structir.interpret.scope import Closure, Value
from structir.ir import dims
from structir.ir.dims import Dim, Sym
from structir.ops.loop import LoopSpec
from structir.runtime.plans.instructions import (
    PART,
    CopyInstruction,
    InstructionBlock,
    MemoryCell,
    NotPlannedError,
    Slot,
    leaves,
    map_leaves,
)
from structir.runtime.plans.loop_trace import INT64, TRUE, is_array, require_flag
from structir.runtime.plans.sized_code import (
    AssignSizes,
    LoopElement,
    Require,
    SizedAppend,
    SizedLoop,
)
from structir.runtime.plans.sized_plan import size_register


@attrs.frozen(eq=False)
class Carried:
    """A carried array: its value before a step, and the symbols of the axes that change."""

    slot: Slot
    changing: dict[int, Sym]


class SizeChangeError(Exception):
    """An axis of a carried value changes its size: the loop is traced again with a new symbol."""


class SizedLoopTrace:
    """Traces one loop. `changing` are the axes of carried values whose sizes change."""

    def __init__(self, tracer: Any, function: Any, steps: LoopSpec) -> None:
        self.tracer, self.function, self.steps = tracer, function, steps
        self.limit = None if steps.trips is None else tracer.slot(steps.trips)
        self.going = None if steps.going is None else tracer.slot(steps.going)
        if self.limit is not None and self.limit.dtype != INT64:
            raise NotPlannedError("a loop counter of another dtype")
        if self.going is not None:
            require_flag(self.going)
        self.changing: set[tuple[int, int]] = set()
        self.around: InstructionBlock = tracer.blocks[-1]
        self.first = [tracer.slot(v) if is_array(v) else None for v in leaves(steps.carried)]

    def trace(self) -> tuple[tuple[Value, ...], list[Value]]:
        """Traces the loop and returns its results."""
        before = len(self.around.steps)
        while True:
            try:
                return self._traced()
            except SizeChangeError:
                del self.around.steps[before:]

    def _traced(self) -> tuple[tuple[Value, ...], list[Value]]:
        (counter,), (start,) = dims.syms(dims.sym("step")), dims.syms(dims.sym("start"))
        carried = self._started()
        values = iter(carried)
        given = map_leaves(self.steps.carried, lambda v: self._given(v, next(values)))
        index = Slot(size_register(counter), (), INT64)
        swapped: list[tuple[MemoryCell, MemoryCell]] = []
        with self.tracer.inside() as body:
            elements = [self._element(value) for value in self.steps.read]
            items = [item for _, item in elements]
            going, after, outputs = self.steps.taken(
                self._result(self.steps.given(index, TRUE, given, items))
            )
            condition = self._condition(going, body)
            ends = self._ends(list(leaves(given)), list(leaves(after)), carried)
            grown = [self._output(output, start) for output in outputs]
            symbols, sizes = self._next_sizes(carried, ends)
            for value, end in zip(carried, ends, strict=True):
                if value is not None and end is not None:
                    self._carry(value.slot, end, body, swapped)
            if symbols:
                body.steps.append(AssignSizes(symbols, sizes))
        if condition is not None:
            first = self.tracer.slot(TRUE) if self.going is None else self.going
            self.tracer.step(CopyInstruction(condition, first.cell))
        limit = None if self.limit is None else self.limit.cell
        loaded = tuple([element for element, _ in elements])
        self.tracer.step(SizedLoop(counter, limit, condition, loaded, body, tuple(swapped)))
        count = dims.as_dim(counter)
        if grown:  # an empty output has another shape
            self.tracer.step(Require(dims.compare(">=", count, 1), "a loop without steps"))
        return given, [Slot(g.cell, (count, *g.shape), g.dtype) for g in grown]

    def _started(self) -> list[Carried | None]:
        """Emits the carried values before the first step; None for those that are no arrays."""
        symbols: list[Sym] = []
        sizes: list[Dim] = []
        carried: list[Carried | None] = []
        for number, first in enumerate(self.first):
            if first is None:
                carried.append(None)
                continue
            shape, changing = list(first.shape), {}
            for axis in range(len(shape)):
                if (number, axis) in self.changing:
                    sizes.append(shape[axis])
                    shape[axis] = dims.sym("size")
                    (changing[axis],) = dims.syms(shape[axis])
                    symbols.append(changing[axis])
            slot = Slot(MemoryCell(nbytes(first)), tuple(shape), first.dtype)
            self.tracer.step(CopyInstruction(slot.cell, first.cell))
            carried.append(Carried(slot, changing))
        if symbols:
            self.tracer.step(AssignSizes(tuple(symbols), tuple(sizes)))
        return carried

    @staticmethod
    def _given(value: Value, carried: Carried | None) -> Value:
        return value if carried is None else carried.slot

    def _result(self, args: tuple[Value, ...]) -> Value:
        if isinstance(self.function, Closure):
            return self.tracer.run(self.tracer.entered(self.function, args))
        return self.function(*args)

    def _element(self, value: Value) -> tuple[LoopElement, Value]:
        source = self.tracer.slot(value)
        item = Slot(MemoryCell(0, PART, enclosing=source.cell), source.shape[1:], source.dtype)
        return LoopElement(item.cell, source.cell, nbytes(item)), item

    def _condition(self, going: Value, body: InstructionBlock) -> MemoryCell | None:
        """Returns the cell of the loop condition; None if all steps run."""
        if not isinstance(going, Slot | np.ndarray):
            raise NotPlannedError("a condition that is not a tensor")
        condition = self.tracer.slot(going)
        require_flag(condition)
        is_true = not isinstance(going, Slot) and bool(going)
        if is_true and not isinstance(self.steps.going, Slot):
            return None
        cell = MemoryCell(1)
        body.steps.append(CopyInstruction(cell, condition.cell))
        return cell

    def _ends(
        self, before: list[Value], after: list[Value], carried: list[Carried | None]
    ) -> list[Slot | None]:
        """Returns the carried values after a step. Raises SizeChangeError for a new change."""
        if len(before) != len(after):
            raise NotPlannedError("a list that the body changes")
        ends: list[Slot | None] = []
        known = len(self.changing)
        for number, (start, end, value) in enumerate(zip(before, after, carried, strict=True)):
            if value is None:
                if is_array(end) or type(start) is not type(end) or start != end:
                    raise NotPlannedError("a carried value that is not a tensor")
                ends.append(None)
                continue
            if not is_array(end):
                raise NotPlannedError("a carried value that is not a tensor")
            slot = self.tracer.slot(end)
            if len(slot.shape) != len(value.slot.shape) or slot.dtype != value.slot.dtype:
                raise NotPlannedError("a carried value that changes its rank or dtype")
            sizes = zip(value.slot.shape, slot.shape, strict=True)
            for axis, pair in enumerate(sizes):
                if axis not in value.changing and len(set(self.tracer.simplified_shape(pair))) > 1:
                    self.changing.add((number, axis))
            ends.append(slot)
        if len(self.changing) > known:
            raise SizeChangeError
        return ends

    @staticmethod
    def _next_sizes(
        carried: list[Carried | None], ends: list[Slot | None]
    ) -> tuple[tuple[Sym, ...], tuple[Dim, ...]]:
        """Returns the symbols of the changing sizes, and their values for the next step."""
        symbols: list[Sym] = []
        sizes: list[Dim] = []
        for value, end in zip(carried, ends, strict=True):
            if value is not None and end is not None:
                symbols += value.changing.values()
                sizes += [end.shape[axis] for axis in value.changing]
        return tuple(symbols), tuple(sizes)

    def _carry(
        self,
        before: Slot,
        after: Slot,
        body: InstructionBlock,
        swapped: list[tuple[MemoryCell, MemoryCell]],
    ) -> None:
        """Assigns the result of a step to a carried value of the next one."""
        target = after.cell.root
        if target is before.cell:
            return
        if target in body.fresh:
            body.fresh.discard(target)
        else:
            target = MemoryCell(nbytes(after))
            body.steps.append(CopyInstruction(target, after.cell))
        swapped.append((before.cell, target))

    def _output(self, output: Value, start: Sym) -> Slot:
        """Appends an element to an output, which is empty before the loop."""
        element = self.tracer.slot(output)
        shape = self.tracer.simplified_shape(element.shape)
        if any(s.order > start.order for d in shape for s in dims.syms(d)):
            raise NotPlannedError("a loop output whose elements change their shape")
        (filled,) = dims.syms(dims.sym("filled"))
        self.around.steps.append(AssignSizes((filled,), (0,)))
        cell = MemoryCell(nbytes(element))
        self.tracer.step(SizedAppend(cell, element.cell, filled, cell.bytes))
        return Slot(cell, shape, element.dtype)


def nbytes(slot: Slot) -> Dim:
    """Returns the size of a value in bytes."""
    size: Dim = prod(slot.shape) * slot.dtype.itemsize
    return size
