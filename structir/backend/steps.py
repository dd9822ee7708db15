"""Steps between kernels: plans to run, choices, loops; written out as words for the runner."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import attrs
import numpy as np

from structir.backend.cpu.steps import KIND, STEP_WORDS
from structir.backend.memory import ALIGNMENT
from structir.backend.plan import BoundPlan
from structir.errors import DiagnosticError, Span, StructIRError
from structir.interpret.scope import ForeignTensor
from structir.planning import layout

VALUE, OUTSIDE, CONSTANT, PART = "value", "outside", "constant", "part"  # where a cell lies
WORD = 8  # bytes


class NotPlannedError(Exception):
    """What steps cannot do, and where the program asks for it: it is left to the host."""

    def __init__(self, reason: str, span: Span | None = None) -> None:
        super().__init__(reason)
        self.span = span


GIVEN_UP = (NotPlannedError, StructIRError)  # at these sizes; any other error is a defect


def reason_of(error: Exception) -> str:
    """Why there is no plan, in one line."""
    told, span = getattr(error, "message", str(error)), getattr(error, "span", None)
    if isinstance(error, DiagnosticError):
        told, span = error.diagnostics[0].message, error.diagnostics[0].span
    told = told.partition("\n")[0]
    return told if span is None else f"{told} (at {span})"


@attrs.define(eq=False)
class MemoryCell:
    """The memory of a value; where it lies is told when it runs."""

    bytes: int
    origin: str = VALUE  # of the plan's own; inputs and results lie outside, a part within another
    data: Any = None  # of a constant
    around: MemoryCell | None = None  # of a part
    same: MemoryCell | None = None  # the one that it has become

    @property
    def root(self) -> MemoryCell:
        """The cell that stands for this one."""
        found = self
        while found.same is not None:
            found = found.same
        return found


class Slot(ForeignTensor):
    """A value of which only the form is known before it runs."""

    __slots__ = ("cell", "dtype", "shape")

    def __init__(self, cell: MemoryCell, shape: Sequence[int], dtype: Any) -> None:
        self.cell, self.shape, self.dtype = cell, tuple(shape), dtype

    def reshape(self, shape: Sequence[int]) -> Slot:
        """The same value under another shape."""
        return Slot(self.cell, shape, self.dtype)

    def _unknown(self, *_: Any, **__: Any) -> Any:
        raise NotPlannedError("a value that only running tells")

    __array__ = __bool__ = __int__ = __float__ = __index__ = __len__ = __iter__ = _unknown
    item = __getitem__ = _unknown


def leaves(value: Any) -> Iterator[Any]:
    """What is no tuple in a value, in order."""
    if isinstance(value, tuple):
        for item in value:
            yield from leaves(item)
    else:
        yield value


def mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    """A value with its leaves changed."""
    if isinstance(value, tuple):
        return tuple([mapped(item, change) for item in value])
    return change(value)


class Code:
    """Steps on their way to words; which cells live from where to where."""

    def __init__(self) -> None:
        self.words: list[list[int]] = []
        self.cells: dict[MemoryCell, int] = {}  # with their slots
        self.plans: dict[BoundPlan, list[int]] = {}  # with the steps that run them
        self.chosen: list[int] = []  # slots of the outside addresses of plans,
        self.chosen_from: dict[int, int] = {}  # from where on by the step that runs one
        self.loops: list[tuple[int, int]] = []  # inner ones first
        self.pairs: list[tuple[MemoryCell, MemoryCell]] = []  # that are swapped
        self._spans: dict[MemoryCell, tuple[int, int]] = {}

    @property
    def here(self) -> int:
        """The number of the next step."""
        return len(self.words)

    def slot(self, cell: MemoryCell) -> int:
        """The slot of a cell, which lives at the next step."""
        found = cell.root
        first, _ = self._spans.get(found, (self.here, 0))
        self._spans[found] = first, self.here
        if found.around is not None:
            self.slot(found.around)
        return self.cells.setdefault(found, len(self.cells))

    def step(self, kind: int, *numbers: int) -> list[int]:
        """Write one step; its words, in which a place to go may be put later."""
        words = [kind, *numbers, *[0] * (STEP_WORDS - 1 - len(numbers))]
        self.words.append(words)
        return words

    def run(self, plan: BoundPlan, cells: Sequence[MemoryCell]) -> None:
        """A step that runs a plan."""
        slots = [self.slot(cell) for cell in cells]
        self.plans.setdefault(plan, []).append(self.here)
        self.chosen_from[self.here] = len(self.chosen)
        self.step(KIND.run, 0, 0, len(slots))
        self.chosen += slots

    def loop(self, start: int) -> None:
        """What was written from a step on was the body of a loop."""
        self.loops.append((start, self.here))

    def arena(self) -> tuple[dict[MemoryCell, int], int]:
        """The offsets of all that lies in the arena, and its size."""
        self._stretch()
        spans = {c: s for c, s in self._spans.items() if c.origin == VALUE}
        sizes = [-(-max(c.bytes, 1) // ALIGNMENT) * ALIGNMENT for c in spans]
        offsets, size = layout.assign_offsets(list(spans.values()), sizes)
        return dict(zip(spans, offsets, strict=True)), size

    def _stretch(self) -> None:
        """What lives into a loop or out of it lives as long as the loop; what is swapped lives as
        long as what it is swapped with."""
        before: dict[MemoryCell, tuple[int, int]] = {}
        while before != self._spans:
            before = dict(self._spans)
            for start, end in self.loops:
                for cell, (first, last) in self._spans.items():
                    if first < start <= last or first <= end < last:
                        self._spans[cell] = min(first, start), max(last, end)
            for one, other in self.pairs:
                both = [self._spans[one.root], self._spans[other.root]]
                span = min(first for first, _ in both), max(last for _, last in both)
                self._spans[one.root] = self._spans[other.root] = span


@attrs.define(eq=False)
class InstructionBlock:
    """Steps in order, and the cells that they alone have filled."""

    steps: list[Any] = attrs.Factory(list)
    fresh: set[MemoryCell] = attrs.Factory(set)

    def write(self, code: Code) -> None:
        """All steps, one after the other."""
        for step in self.steps:
            step.write(code)

    def taken(self, cell: MemoryCell, size: int) -> bool:
        """Whether a cell was made here and nothing else has it; from now on something has."""
        found = cell.root
        if found not in self.fresh or found.bytes != size:
            return False
        self.fresh.discard(found)
        return True

    def move(self, to: MemoryCell, source: MemoryCell) -> None:
        """Have a value in a new cell: made there at once, where it can be."""
        if self.taken(source, to.bytes):
            source.root.same = to
        else:
            self.steps.append(CopyInstruction(to, source))


@attrs.frozen(eq=False)
class RunInstruction:
    """A plan, on these cells: its inputs, then its results."""

    plan: BoundPlan
    cells: tuple[MemoryCell, ...]

    def write(self, code: Code) -> None:
        """One step."""
        code.run(self.plan, self.cells)


@attrs.frozen(eq=False)
class CopyInstruction:
    """The value of one cell in another one."""

    to: MemoryCell
    source: MemoryCell

    def write(self, code: Code) -> None:
        """One step."""
        code.step(KIND.copy, code.slot(self.to), code.slot(self.source), self.to.bytes)


@attrs.frozen(eq=False)
class Append:
    """A value behind those that are there, of so many bytes; there is `room` for so many."""

    to: MemoryCell
    source: MemoryCell
    filled: MemoryCell
    room: int = 0

    def write(self, code: Code) -> None:
        """One step."""
        slots = [code.slot(c) for c in (self.to, self.source, self.filled)]
        code.step(KIND.append, *slots, self.source.root.bytes, self.room)


@attrs.frozen(eq=False)
class Clear:
    """Zero as the number in a cell."""

    cell: MemoryCell

    def write(self, code: Code) -> None:
        """One step."""
        code.step(KIND.set, code.slot(self.cell), 0)


@attrs.frozen(eq=False)
class Leave:
    """What would come here is for the host."""

    def write(self, code: Code) -> None:
        """One step."""
        code.step(KIND.leave)


@attrs.frozen(eq=False)
class BranchInstruction:
    """One of two blocks."""

    test: MemoryCell
    then: InstructionBlock
    other: InstructionBlock

    def write(self, code: Code) -> None:
        """A jump to the second block, one over it."""
        to_other = code.step(KIND.unless, code.slot(self.test))
        self.then.write(code)
        over = code.step(KIND.jump)
        to_other[2] = code.here
        self.other.write(code)
        over[1] = code.here


@attrs.frozen(eq=False)
class LoopInstruction:
    """A block again and again, as long as a counter is below a limit and a condition holds."""

    counter: MemoryCell
    limit: MemoryCell | None
    going: MemoryCell | None
    part: RowInstruction | None  # of what is read at each step
    body: InstructionBlock
    swapped: tuple[tuple[MemoryCell, MemoryCell], ...]  # what a step is given, and what it hands on

    def write(self, code: Code) -> None:
        """Tests, the body, and back."""
        Clear(self.counter).write(code)
        start, out = code.here, []
        for cell in self._kept():
            code.slot(cell)
        if self.limit is not None:
            out.append((3, code.step(KIND.reached, code.slot(self.counter), code.slot(self.limit))))
        if self.going is not None:
            out.append((2, code.step(KIND.unless, code.slot(self.going))))
        if self.part is not None:
            self.part.write(code)
        self.body.write(code)
        for pair in self.swapped:
            code.step(KIND.swap, *map(code.slot, pair))
        code.step(KIND.add, code.slot(self.counter))
        for cell in self._kept():
            code.slot(cell)
        code.step(KIND.jump, start)
        code.loop(start)
        code.pairs += self.swapped
        for place, words in out:
            words[place] = code.here

    def _kept(self) -> list[MemoryCell]:
        """What lives from step to step."""
        others = [c for c in (self.limit, self.going) if c is not None]
        return [self.counter, *others, *[c for pair in self.swapped for c in pair]]


@attrs.frozen(eq=False)
class RowInstruction:
    """An element of a value along its first axis: that of the counter's number."""

    cell: MemoryCell
    whole: MemoryCell
    counter: MemoryCell

    def write(self, code: Code) -> None:
        """One step."""
        slots = [code.slot(c) for c in (self.cell, self.whole, self.counter)]
        code.step(KIND.part, *slots, self.cell.bytes)


def constant(array: Any) -> MemoryCell:
    """The cell of an array that is known."""
    dense = np.asarray(array, order="C")
    return MemoryCell(dense.nbytes, CONSTANT, dense)
