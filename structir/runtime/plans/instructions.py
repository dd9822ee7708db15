"""Instructions between kernels: run a plan, branch, loop; encoded as words for the runner."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import attrs
import numpy as np

from structir.errors import DiagnosticError, Span, StructIRError
from structir.interpret.scope import ForeignTensor
from structir.planning import layout
from structir.runtime.plans.plan import BoundPlan
from structir.runtime.plans.sizes import ALIGNMENT
from structir.targets.cpu.bytecode import INSTRUCTION_WORDS, OPCODE

# The origin of the memory of a cell.
VALUE, OUTSIDE, CONSTANT, PART = "value", "outside", "constant", "part"
WORD = 8  # bytes


class NotPlannedError(Exception):
    """A construct without instructions, with its location in the program; it falls back to the
    host."""

    def __init__(self, reason: str, span: Span | None = None) -> None:
        super().__init__(reason)
        self.span = span


FALLBACK_ERRORS = (NotPlannedError, StructIRError)  # at these sizes; any other error is a defect


def reason_of(error: Exception) -> str:
    """Returns the reason for a fallback, in one line."""
    message, span = getattr(error, "message", str(error)), getattr(error, "span", None)
    if isinstance(error, DiagnosticError):
        message, span = error.diagnostics[0].message, error.diagnostics[0].span
    return with_location(message.partition("\n")[0], span)


def with_location(reason: str, span: Span | None) -> str:
    """Returns a reason with its source location, if it is known."""
    return reason if span is None else f"{reason} (at {span})"


@attrs.define(eq=False)
class MemoryCell:
    """The memory of a value; its address is known at run time."""

    bytes: Any  # an integer; a dim in a plan for all sizes
    origin: str = VALUE  # OUTSIDE: inputs, results; PART: inside another cell
    data: Any = None  # the array of a constant
    enclosing: MemoryCell | None = None  # the enclosing cell of a part
    same: MemoryCell | None = None  # the cell that it was merged with

    @property
    def root(self) -> MemoryCell:
        """The representative of merged cells."""
        cell = self
        while cell.same is not None:
            cell = cell.same
        return cell


class Slot(ForeignTensor):
    """An abstract value: only its shape and dtype are known before the run."""

    __slots__ = ("cell", "dtype", "shape")

    def __init__(self, cell: MemoryCell, shape: Sequence[Any], dtype: Any) -> None:
        self.cell, self.shape, self.dtype = cell, tuple(shape), dtype

    def reshape(self, shape: Sequence[Any]) -> Slot:
        """Returns the same value under another shape."""
        return Slot(self.cell, shape, self.dtype)

    def _unknown(self, *_: Any, **__: Any) -> Any:
        raise NotPlannedError("a value known only at run time")

    __array__ = __bool__ = __int__ = __float__ = __index__ = __len__ = __iter__ = _unknown
    item = __getitem__ = _unknown


def leaves(value: Any) -> Iterator[Any]:
    """Returns the leaves of nested tuples in order."""
    if isinstance(value, tuple):
        for item in value:
            yield from leaves(item)
    else:
        yield value


def map_leaves(value: Any, change: Callable[[Any], Any]) -> Any:
    """Maps the leaves of a value."""
    if isinstance(value, tuple):
        return tuple([map_leaves(item, change) for item in value])
    return change(value)


class Code:
    """An encoder of instructions, with the lifetimes of cells."""

    def __init__(self) -> None:
        self.words: list[list[int]] = []
        self.cells: dict[MemoryCell, int] = {}  # the slot of each cell
        self.plans: dict[BoundPlan, list[int]] = {}  # the instructions that run each plan
        self.external: list[int] = []  # slots of the inputs and results of plans,
        self.external_from: dict[int, int] = {}  # and the start of those of each run instruction
        self.loops: list[tuple[int, int]] = []  # first and last instruction; inner loops first
        self.pairs: list[tuple[MemoryCell, MemoryCell]] = []  # cells that a loop swaps
        self._spans: dict[MemoryCell, tuple[int, int]] = {}

    @property
    def here(self) -> int:
        """The index of the next instruction."""
        return len(self.words)

    def slot(self, cell: MemoryCell) -> int:
        """Returns the slot of a cell, which is live at the next instruction."""
        root = cell.root
        first, _ = self._spans.get(root, (self.here, 0))
        self._spans[root] = first, self.here
        if root.enclosing is not None:
            self.slot(root.enclosing)
        return self.cells.setdefault(root, len(self.cells))

    def step(self, kind: int, *numbers: int) -> list[int]:
        """Emits one instruction; returns its words, in which a jump target may be set later."""
        words = [kind, *numbers, *[0] * (INSTRUCTION_WORDS - 1 - len(numbers))]
        self.words.append(words)
        return words

    def run(self, plan: BoundPlan, cells: Sequence[MemoryCell]) -> None:
        """Emits an instruction that runs a plan."""
        slots = [self.slot(cell) for cell in cells]
        self.plans.setdefault(plan, []).append(self.here)
        self.external_from[self.here] = len(self.external)
        self.step(OPCODE.run, 0, 0, len(slots))
        self.external += slots

    def loop(self, start: int) -> None:
        """Closes a loop whose body begins at an instruction."""
        self.loops.append((start, self.here))

    def arena(self) -> tuple[dict[MemoryCell, int], int]:
        """Returns the offsets of all cells in the arena, and its size."""
        self._extend_lifetimes()
        spans = {c: s for c, s in self._spans.items() if c.origin == VALUE}
        sizes = [-(-max(c.bytes, 1) // ALIGNMENT) * ALIGNMENT for c in spans]
        offsets, size = layout.assign_offsets(list(spans.values()), sizes)
        return dict(zip(spans, offsets, strict=True)), size

    def _extend_lifetimes(self) -> None:
        """Extends lifetimes over loops; swapped cells have the same lifetime."""
        before: dict[MemoryCell, tuple[int, int]] = {}
        while before != self._spans:
            before = dict(self._spans)
            for start, end in self.loops:
                for cell, (first, last) in self._spans.items():
                    if first < start <= last or first <= end < last:
                        self._spans[cell] = min(first, start), max(last, end)
            for first_cell, second_cell in self.pairs:
                spans = [self._spans[first_cell.root], self._spans[second_cell.root]]
                span = min(first for first, _ in spans), max(last for _, last in spans)
                self._spans[first_cell.root] = self._spans[second_cell.root] = span


@attrs.define(eq=False)
class InstructionBlock:
    """A sequence of instructions, and the cells that only they have filled."""

    steps: list[Any] = attrs.Factory(list)
    fresh: set[MemoryCell] = attrs.Factory(set)

    def write(self, code: Code) -> None:
        """Emits all instructions."""
        for step in self.steps:
            step.write(code)

    def claim(self, cell: MemoryCell, size: int) -> bool:
        """Marks a cell that only this block has filled as used; returns whether it is such a
        cell."""
        root = cell.root
        if root not in self.fresh or root.bytes != size:
            return False
        self.fresh.discard(root)
        return True

    def move(self, to: MemoryCell, source: MemoryCell) -> None:
        """Moves a value to a new cell; merges the two cells if possible."""
        if self.claim(source, to.bytes):
            source.root.same = to
        else:
            self.steps.append(CopyInstruction(to, source))


@attrs.frozen(eq=False)
class RunInstruction:
    """An instruction that runs a plan on these cells: its inputs, then its results."""

    plan: BoundPlan
    cells: tuple[MemoryCell, ...]

    def write(self, code: Code) -> None:
        """Emits the instruction."""
        code.run(self.plan, self.cells)


@attrs.frozen(eq=False)
class CopyInstruction:
    """An instruction that copies the value of one cell to another."""

    to: MemoryCell
    source: MemoryCell

    def write(self, code: Code) -> None:
        """Emits the instruction."""
        code.step(OPCODE.copy, code.slot(self.to), code.slot(self.source), self.to.bytes)


@attrs.frozen(eq=False)
class Append:
    """An instruction that appends a value to memory of `room` bytes."""

    to: MemoryCell
    source: MemoryCell
    filled: MemoryCell
    room: int = 0

    def write(self, code: Code) -> None:
        """Emits the instruction."""
        slots = [code.slot(c) for c in (self.to, self.source, self.filled)]
        code.step(OPCODE.append, *slots, self.source.root.bytes, self.room)


@attrs.frozen(eq=False)
class Clear:
    """An instruction that sets the number in a cell to zero."""

    cell: MemoryCell

    def write(self, code: Code) -> None:
        """Emits the instruction."""
        code.step(OPCODE.set, code.slot(self.cell), 0)


@attrs.frozen(eq=False)
class Leave:
    """An instruction that ends the run, so that the host computes the value."""

    def write(self, code: Code) -> None:
        """Emits the instruction."""
        code.step(OPCODE.leave)


@attrs.frozen(eq=False)
class BranchInstruction:
    """A conditional with two blocks."""

    test: MemoryCell
    then: InstructionBlock
    otherwise: InstructionBlock

    def write(self, code: Code) -> None:
        """Emits a jump to the second block, and one past it."""
        to_otherwise = code.step(OPCODE.unless, code.slot(self.test))
        self.then.write(code)
        over = code.step(OPCODE.jump)
        to_otherwise[2] = code.here
        self.otherwise.write(code)
        over[1] = code.here


@attrs.frozen(eq=False)
class LoopInstruction:
    """A loop over a block, while a counter is below a limit and a condition holds."""

    counter: MemoryCell
    limit: MemoryCell | None
    going: MemoryCell | None
    rows: tuple[RowInstruction, ...]  # load the elements of the step
    body: InstructionBlock
    swapped: tuple[
        tuple[MemoryCell, MemoryCell], ...
    ]  # input and output cell of each carried value

    def write(self, code: Code) -> None:
        """Emits the tests, the body, and the jump back."""
        Clear(self.counter).write(code)
        start, out = code.here, []
        for cell in self._loop_cells():
            code.slot(cell)
        if self.limit is not None:
            out.append(
                (3, code.step(OPCODE.reached, code.slot(self.counter), code.slot(self.limit)))
            )
        if self.going is not None:
            out.append((2, code.step(OPCODE.unless, code.slot(self.going))))
        for row in self.rows:
            row.write(code)
        self.body.write(code)
        for pair in self.swapped:
            code.step(OPCODE.swap, *map(code.slot, pair))
        code.step(OPCODE.add, code.slot(self.counter))
        for cell in self._loop_cells():
            code.slot(cell)
        code.step(OPCODE.jump, start)
        code.loop(start)
        code.pairs += self.swapped
        for index, words in out:
            words[index] = code.here

    def _loop_cells(self) -> list[MemoryCell]:
        """Returns the cells that are live from step to step."""
        others = [c for c in (self.limit, self.going) if c is not None]
        return [self.counter, *others, *[c for pair in self.swapped for c in pair]]


@attrs.frozen(eq=False)
class RowInstruction:
    """An element of a value along its first axis, at the index of the counter."""

    cell: MemoryCell
    array: MemoryCell
    counter: MemoryCell

    def write(self, code: Code) -> None:
        """Emits the instruction."""
        slots = [code.slot(c) for c in (self.cell, self.array, self.counter)]
        code.step(OPCODE.part, *slots, self.cell.bytes)


def constant(array: Any) -> MemoryCell:
    """Returns the cell of a constant array."""
    dense = np.asarray(array, order="C")
    return MemoryCell(dense.nbytes, CONSTANT, dense)
