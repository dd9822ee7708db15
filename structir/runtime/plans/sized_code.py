"""Encodes the instructions of sized plans, whose integers are evaluated at run time.

A dim has a register. The dims that instructions need are evaluated together, before the first
instruction after a change of their symbols.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import attrs

from structir.ir import dims
from structir.ir.dims import Dim, Sym
from structir.runtime.plans.instructions import (
    BranchInstruction,
    CopyInstruction,
    InstructionBlock,
    Leave,
    MemoryCell,
    NotPlannedError,
)
from structir.runtime.plans.plan import KernelPlan
from structir.runtime.plans.sizes import SizeProgram, symbols_of
from structir.targets.cpu.sized_bytecode import OPCODE, SIZED_WORDS

REGISTER = "register"  # the origin of a cell that is the register of a symbol


@attrs.frozen(eq=False)
class SizedRun:
    """An instruction that runs a plan at sizes: its inputs, then its owned results."""

    plan: KernelPlan
    threads: int
    sizes: Mapping[Sym, Dim]
    inputs: tuple[MemoryCell, ...]
    owned: tuple[MemoryCell, ...]


@attrs.frozen(eq=False)
class Require:
    """An instruction that ends the run if a dim is 0: the host computes the value."""

    condition: Dim
    reason: str


@attrs.frozen(eq=False)
class AssignSizes:
    """An instruction that assigns dims to symbols, all at once."""

    symbols: tuple[Sym, ...]
    values: tuple[Dim, ...]


@attrs.frozen(eq=False)
class LoadSizes:
    """An instruction that assigns the int64 elements of a value to symbols, and ends the run if one
    is negative: the host computes the value."""

    symbols: tuple[Sym, ...]
    source: MemoryCell


@attrs.frozen(eq=False)
class SizedAppend:
    """An instruction that appends a value to a cell, behind the bytes in a register."""

    to: MemoryCell
    source: MemoryCell
    filled: Sym
    bytes: Dim


@attrs.frozen(eq=False)
class LoopElement:
    """The element of a value along its first axis, at the index of a loop."""

    cell: MemoryCell
    array: MemoryCell
    bytes: Dim


@attrs.frozen(eq=False)
class SizedLoop:
    """A loop over a block, while a counter is below a limit and a condition holds."""

    counter: Sym
    limit: MemoryCell | None
    going: MemoryCell | None
    elements: tuple[LoopElement, ...]
    body: InstructionBlock
    swapped: tuple[tuple[MemoryCell, MemoryCell], ...]


@attrs.frozen(eq=False)
class Needed:
    """An instruction without effect that needs dims: those of the results."""

    dims: tuple[Dim, ...]


@attrs.frozen(eq=False)
class Evaluation:
    """A program of sizes, and the registers of its inputs and values."""

    program: SizeProgram
    inputs: list[int]
    values: list[int]


@attrs.frozen(eq=False)
class EncodedRegion:
    """A plan, the evaluation of its numbers, and the slots of its inputs and owned results."""

    plan: KernelPlan
    threads: int  # of calls without a sized plan
    evaluation: Evaluation
    outside: list[int]


class SizedCode:
    """An encoder of instructions, and the tables that they refer to."""

    def __init__(self) -> None:
        self.words: list[list[int]] = []
        self.cells: dict[MemoryCell, int] = {}  # the slot of each cell
        self.registers: dict[Dim, int] = {}
        self.evaluations: list[Evaluation] = []
        self.regions: list[EncodedRegion] = []
        self.reasons: dict[int, str] = {}  # why an instruction ends the run

    def register(self, dim: Dim) -> int:
        """Returns the register of a dim."""
        return self.registers.setdefault(dim, len(self.registers))

    def slot(self, cell: MemoryCell) -> int:
        """Returns the slot of a cell."""
        return self.cells.setdefault(cell.root, len(self.cells))

    def emit(self, kind: int, *numbers: int) -> list[int]:
        """Emits one instruction; returns its words, in which a jump target may be set later."""
        words = [kind, *numbers, *[0] * (SIZED_WORDS - 1 - len(numbers))]
        self.words.append(words)
        return words

    def block(self, block: InstructionBlock) -> None:
        """Emits the instructions of a block."""
        segment: list[Any] = []
        for step in block.steps:
            segment.append(step)
            if isinstance(step, CHANGING):
                self._segment(segment)
                segment = []
        self._segment(segment)

    def _segment(self, steps: Sequence[Any]) -> None:
        """Emits instructions that only the last one of changes symbols."""
        needed = dict.fromkeys([dim for step in steps for dim in needed_dims(step)])
        computed = [d for d in needed if type(d) is not int and dims.as_sym(d) is None]
        if computed:
            self._evaluate(computed, [self.register(d) for d in computed])
        for step in steps:
            self.ENCODERS[type(step)](self, step)

    def _evaluation(self, values: Sequence[Dim], registers: list[int]) -> Evaluation:
        symbols = symbols_of(values)
        program = SizeProgram(values, symbols)
        if not program.is_small:
            raise NotPlannedError("sizes that do not fit into 64 bits")
        return Evaluation(program, [self.register(dims.as_dim(s)) for s in symbols], registers)

    def _evaluate(self, values: Sequence[Dim], registers: list[int]) -> None:
        self.emit(OPCODE.evaluate, len(self.evaluations))
        self.evaluations.append(self._evaluation(values, registers))

    def _room(self, cell: MemoryCell) -> None:
        self.emit(OPCODE.room, self.slot(cell), self.register(cell.bytes))

    def _run(self, step: SizedRun) -> None:
        for cell in step.owned:
            self._room(cell)
        numbers = [dims.substitute(d, step.sizes) for d in step.plan.dims]
        outside = [self.slot(cell) for cell in (*step.inputs, *step.owned)]
        self.emit(OPCODE.run, len(self.regions))
        evaluation = self._evaluation(numbers, [])
        self.regions.append(EncodedRegion(step.plan, step.threads, evaluation, outside))

    def _copy(self, step: CopyInstruction) -> None:
        self._room(step.to)
        size = self.register(step.to.bytes)
        self.emit(OPCODE.copy, self.slot(step.to), self.slot(step.source), size)

    def _require(self, step: Require) -> None:
        self.reasons[len(self.words) + 1] = step.reason  # the state is at the next instruction
        self.emit(OPCODE.require, self.register(step.condition))

    def _assign(self, step: AssignSizes) -> None:
        self._evaluate(step.values, [self.register(dims.as_dim(s)) for s in step.symbols])

    def _load(self, step: LoadSizes) -> None:
        for index, symbol in enumerate(step.symbols):
            register = self.register(dims.as_dim(symbol))
            self.reasons[len(self.words) + 1] = "a negative size"
            self.emit(OPCODE.load, register, self.slot(step.source), index)

    def _append(self, step: SizedAppend) -> None:
        filled, size = self.register(dims.as_dim(step.filled)), self.register(step.bytes)
        self.emit(OPCODE.append, self.slot(step.to), self.slot(step.source), filled, size)

    def _leave(self, step: Leave) -> None:
        self.emit(OPCODE.leave)

    def _branch(self, step: BranchInstruction) -> None:
        to_otherwise = self.emit(OPCODE.unless, self.slot(step.test))
        self.block(step.then)
        over = self.emit(OPCODE.jump)
        to_otherwise[2] = len(self.words)
        self.block(step.otherwise)
        over[1] = len(self.words)

    def _loop(self, step: SizedLoop) -> None:
        counter = self.register(dims.as_dim(step.counter))
        self.emit(OPCODE.set, counter, 0)
        start, out = len(self.words), []
        if step.limit is not None:
            out.append((3, self.emit(OPCODE.reached, counter, self.slot(step.limit))))
        if step.going is not None:
            out.append((2, self.emit(OPCODE.unless, self.slot(step.going))))
        for element in step.elements:
            slots = [self.slot(c) for c in (element.cell, element.array)]
            self.emit(OPCODE.part, *slots, counter, self.register(element.bytes))
        self.block(step.body)
        for pair in step.swapped:
            self.emit(OPCODE.swap, *map(self.slot, pair))
        self.emit(OPCODE.add, counter)
        self.emit(OPCODE.jump, start)
        for index, words in out:
            words[index] = len(self.words)

    def _needed(self, step: Needed) -> None:
        for dim in step.dims:
            self.register(dim)

    ENCODERS: ClassVar[Mapping[type, Callable[[SizedCode, Any], None]]] = {
        SizedRun: _run,
        CopyInstruction: _copy,
        Require: _require,
        AssignSizes: _assign,
        LoadSizes: _load,
        SizedAppend: _append,
        Leave: _leave,
        BranchInstruction: _branch,
        SizedLoop: _loop,
        Needed: _needed,
    }


CHANGING = (AssignSizes, LoadSizes, BranchInstruction, SizedLoop)  # they may change symbols


def needed_dims(step: Any) -> list[Dim]:
    """Returns the dims whose registers an instruction reads."""
    match step:
        case SizedRun():
            return [cell.bytes for cell in step.owned]
        case CopyInstruction():
            return [step.to.bytes]
        case Require():
            return [step.condition]
        case SizedAppend():
            return [step.bytes]
        case SizedLoop():
            return [element.bytes for element in step.elements]
        case Needed():
            return [*step.dims]
    return []
