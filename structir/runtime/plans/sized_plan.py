"""Sized plans: a function or a loop for all sizes, run in one compiled call.

Sizes are evaluated during the run, so that they may change in a loop. A plan runs on one thread.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from structir.ir import dims
from structir.ir.dims import Dim, Poly
from structir.runtime.plans.instructions import (
    CONSTANT,
    WORD,
    InstructionBlock,
    MemoryCell,
    NotPlannedError,
    Slot,
    leaves,
    map_leaves,
)
from structir.runtime.plans.plan import MAX_CACHED_BYTES
from structir.runtime.plans.results import MAX_OVERSIZE, RESULTS
from structir.runtime.plans.sized_code import (
    REGISTER,
    EncodedRegion,
    Evaluation,
    Needed,
    SizedCode,
)
from structir.runtime.plans.sizes import ALIGNMENT
from structir.runtime.plans.step_plan import LEFT, Result
from structir.system.locks import cached_property
from structir.targets.cpu.bytecode import move_address
from structir.targets.cpu.layouts import SEEN_SIZES, SIZED_SPACE, SPACE
from structir.targets.cpu.runner import hash_of_sizes, space_reserver
from structir.targets.cpu.sized_bytecode import (
    EVALUATION,
    OPCODE,
    REGION,
    STATE,
    STOP,
    sized_address,
    sized_runner,
)

Array = Any
EXTRA_ROOM = 1.5  # times the memory of a value that has to grow
MIN_TAKEN_BYTES = 1 << 15  # of a result whose copy costs more than new memory for the next run


class SizedPlan:
    """Encoded instructions for all sizes. `sizes` are the dims of the sizes of a call: those of the
    inputs, then further ones."""

    def __init__(
        self, block: InstructionBlock, inputs: Sequence[Slot], sizes: Sequence[Dim], value: Any
    ) -> None:
        self.inputs, self.results = inputs, list[Slot]()
        self.value = map_leaves(value, self._result)
        block.steps.append(Needed(tuple([d for r in self.results for d in r.shape])))
        self.code = code = SizedCode()
        self.size_count = len([code.register(d) for d in sizes])  # the first registers, and slots
        self.input_count = len([code.slot(s.cell) for s in inputs])
        code.block(block)
        code.emit(OPCODE.end)
        self.result_registers = np.array(
            [code.register(d) for r in self.results for d in r.shape], np.intp
        )
        self.result_slots = np.array([code.slot(r.cell) for r in self.results], np.intp)
        self.forms = [(len(s.shape), s.dtype) for s in inputs]
        self.has_new_results = all([isinstance(leaf, Result) for leaf in leaves(self.value)])
        self.free: list[SizedSpace] = []
        self.space_of_calls: SizedCallSpace | None = None
        self.threads = max([region.threads for region in code.regions], default=1)
        self.reasons: dict[str, None] = {}  # why runs have ended early

    def _result(self, leaf: Any) -> Any:
        if isinstance(leaf, Poly):
            raise NotPlannedError("a size as a result")
        if not isinstance(leaf, Slot):
            return leaf
        self.results.append(leaf)
        return Result(len(self.results) - 1)

    def accepts(self, args: Sequence[Any]) -> bool:
        """Whether arguments are dense arrays of the traced dtypes and ranks."""
        return len(args) == self.input_count and all(
            [
                type(a) is np.ndarray
                and (a.ndim, a.dtype) == form
                and a.flags.c_contiguous
                and a.flags.aligned
                for a, form in zip(args, self.forms, strict=True)
            ]
        )

    def native_space(self, size_count: int = 0) -> SizedCallSpace | None:
        """Returns the workspace of native calls; None if they cannot run the plan.

        With the number of sizes of the arguments, they run once at the same sizes: the second call
        is passed to Python, which binds kernels to them.
        """
        if self.space_of_calls is None and self.is_native:
            self.space_of_calls = SizedCallSpace(self)
        if self.space_of_calls is not None:
            self.space_of_calls.words[SIZED_SPACE.size_count] = size_count
        return self.space_of_calls

    def has_run_natively(self, sizes: Sequence[int]) -> bool:
        """Whether a native call has run at these sizes of the arguments."""
        return self.space_of_calls is not None and self.space_of_calls.has_seen(sizes)

    @cached_property
    def is_native(self) -> bool:
        """Whether native calls can run it: its value is a result, or all results in tuples."""
        return [*leaves(self.value)] == [Result(k) for k in range(len(self.results))]

    def _reserved(self) -> SizedSpace:
        """Returns a workspace that no other call uses."""
        native = self.space_of_calls
        if native is not None and space_reserver()(native.address):
            return native.space
        try:
            return self.free.pop()
        except IndexError:
            return SizedSpace(self.code)

    def _released(self, space: SizedSpace) -> None:
        """Lets other calls use a workspace, unless it holds much memory."""
        native, is_small = self.space_of_calls, space.held_bytes <= MAX_CACHED_BYTES
        if native is not None and native.space is space:
            native.words[SIZED_SPACE.busy] = 0
            self.space_of_calls = native if is_small else None
        elif is_small:
            self.free.append(space)

    def run(self, arrays: Sequence[Array], sizes: Sequence[int]) -> Any:
        """Runs the plan on dense inputs; returns LEFT if the host must compute the value."""
        space = self._reserved()
        try:
            value = self._run(space, arrays, sizes)
        except BaseException:  # an interrupted space is not used again
            if self.space_of_calls is not None and self.space_of_calls.space is space:
                self.space_of_calls = None
            raise
        self._released(space)
        return value

    def _run(self, space: SizedSpace, arrays: Sequence[Array], sizes: Sequence[int]) -> Any:
        space.registers[: self.size_count] = sizes
        space.slots[: self.input_count] = [a.ctypes.data for a in arrays]
        if not space.run():
            reason = self.code.reasons.get(int(space.state[STATE.at]))
            self.reasons |= {} if reason is None else {reason: None}
            return LEFT
        results = self._arrays(space)
        return map_leaves(
            self.value, lambda leaf: results[leaf.number] if isinstance(leaf, Result) else leaf
        )

    def _arrays(self, space: SizedSpace) -> list[Array]:
        """Returns the results in memory that the space does not use again."""
        sizes = space.registers[self.result_registers].tolist()
        slots = self.result_slots.tolist()
        arrays, start = [], 0
        for k, (value, slot) in enumerate(zip(self.results, slots, strict=True)):
            end = start + len(value.shape)
            is_last = slot not in slots[k + 1 :]  # several results may be one value
            arrays.append(space.result(slot, tuple(sizes[start:end]), value.dtype, is_last))
            start = end
        return arrays


class SizedSpace:
    """The memory of one run at a time: registers, slots, the values, and tables."""

    def __init__(self, code: SizedCode) -> None:
        self.code = code
        self.memory: dict[int, Array] = {}  # of values and arenas, by address
        self.held_bytes = 0
        self.tables: list[Array] = []
        constants = {k: d for d, k in code.registers.items() if type(d) is int}
        self.registers = np.array(
            [constants.get(k, 0) for k in range(len(code.registers))], np.int64
        )
        self.slots = np.zeros(len(code.cells) + 1, np.int64)
        self.rooms = np.zeros(len(code.cells) + 1, np.int64)
        for cell, slot in code.cells.items():
            self.slots[slot] = self._address_of(cell)
        evaluations = [self._evaluation(e, skips=0) for e in code.evaluations]
        self.regions = [self._region(region) for region in code.regions]
        self.words = np.array(code.words, np.int64)
        for words in self.words:
            if words[0] == OPCODE.evaluate:
                words[1] = evaluations[words[1]]
            elif words[0] == OPCODE.run:
                words[1] = self.regions[words[1]].ctypes.data
        self.state = np.zeros(len(STATE), np.int64)
        pointers = {
            STATE.code: self.words,
            STATE.slots: self.slots,
            STATE.rooms: self.rooms,
            STATE.registers: self.registers,
        }
        for word, array in pointers.items():
            self.state[word] = array.ctypes.data
        self.state[STATE.move] = move_address()
        self.address = int(self.state.ctypes.data)

    def _address_of(self, cell: MemoryCell) -> int:
        if cell.origin == REGISTER:
            return int(self.registers.ctypes.data) + WORD * self.code.register(cell.data)
        return int(cell.data.ctypes.data) if cell.origin == CONSTANT else 0

    def _table(self, numbers: Any) -> Array:
        """Returns integers as an array that lives as long as the space."""
        self.tables.append(np.array([*numbers, 0], np.int64))
        return self.tables[-1]

    def _evaluation(self, evaluation: Evaluation, skips: int) -> int:
        program, words = evaluation.program, [0] * len(EVALUATION)
        words[EVALUATION.program] = program.address
        words[EVALUATION.memory] = self._table(program.initial_memory()).ctypes.data
        words[EVALUATION.inputs] = self._table(evaluation.inputs).ctypes.data
        words[EVALUATION.values] = self._table(evaluation.values).ctypes.data
        words[EVALUATION.skips] = skips
        return int(self._table(words).ctypes.data)

    def _region(self, region: EncodedRegion) -> Array:
        plan = region.plan
        layout, arena = plan.layout, plan.arena
        space = self._table(layout.template)
        space[layout.relocated] += space.ctypes.data
        space[SPACE.threads] = 1
        pairs = zip(layout.span_words.tolist(), layout.span_numbers.tolist(), strict=True)
        pointers = [number for pair in pairs for number in pair]
        words = [0] * len(REGION)
        words[REGION.evaluation] = self._evaluation(region.evaluation, skips=1)
        words[REGION.space] = space.ctypes.data
        words[REGION.sized] = self._table(layout.sized).ctypes.data
        words[REGION.sized_count] = len(layout.sized)
        words[REGION.lifetimes] = arena.lifetimes.ctypes.data
        words[REGION.buffers] = len(arena.spans)
        words[REGION.elements], words[REGION.shapes] = plan.element_index, plan.shape_index
        words[REGION.shape_count] = len(plan.dims) - plan.shape_index
        words[REGION.layout] = self._table([0] * (5 * len(arena.spans) + 3)).ctypes.data
        words[REGION.pointers] = self._table(pointers).ctypes.data
        words[REGION.pointer_count] = len(pointers) // 2
        words[REGION.outside] = self._table(region.outside).ctypes.data
        words[REGION.outside_count] = len(region.outside)
        return self._table(words)

    def run(self) -> bool:
        """Runs the instructions; returns whether the results are complete."""
        self.state[STATE.at] = 0
        run = sized_runner()
        while (stop := run(self.address)) not in (STOP.end, STOP.leave):
            if stop == STOP.room:
                self._grow_value()
            elif stop == STOP.arena:
                self._grow_arena()
        return bool(stop == STOP.end)

    def result(self, slot: int, shape: tuple[int, ...], dtype: Any, is_last: bool) -> Array:
        """Returns the value of a slot as an array: a copy, or the memory of a large value that is
        not read again."""
        size, address = prod(shape) * dtype.itemsize, int(self.slots[slot])
        is_large = size >= MIN_TAKEN_BYTES and size <= self.rooms[slot] <= size * MAX_OVERSIZE
        if is_last and is_large:
            memory = self.memory[address]
            self.slots[slot] = self.rooms[slot] = 0
            self._release(address)
            return np.ndarray(shape, dtype, memory, address - memory.ctypes.data)
        copy = RESULTS.new(shape, dtype)
        if size:
            ctypes.memmove(copy.ctypes.data, address, size)
        return copy

    def _allocate(self, size: int, replaced: int) -> int:
        """Returns the address of new memory, which replaces the memory at another one."""
        before = self.memory.get(replaced)
        if before is not None:
            size = max(size, int(before.nbytes * EXTRA_ROOM))
        array = RESULTS.new((size + ALIGNMENT,), np.uint8)
        address = -(-int(array.ctypes.data) // ALIGNMENT) * ALIGNMENT
        self.memory[address] = array
        self.held_bytes += array.nbytes
        return address

    def _release(self, address: int) -> None:
        before = self.memory.pop(address, None)
        self.held_bytes -= 0 if before is None else before.nbytes

    def _grow_value(self) -> None:
        """Gives a slot the memory that it needs; keeps what has been appended to it."""
        slot, size = int(self.state[STATE.detail]), int(self.state[STATE.bytes])
        before = int(self.slots[slot])
        address = self._allocate(size, before)
        kind, _, _, filled, _ = self.words[self.state[STATE.at]].tolist()
        if kind == OPCODE.append:
            ctypes.memmove(address, before, int(self.registers[filled]))
        self.slots[slot] = address
        self.rooms[slot] = self.memory[address].nbytes - ALIGNMENT
        self._release(before)

    def _grow_arena(self) -> None:
        """Gives a region a larger arena."""
        address_of_region = int(self.words[self.state[STATE.at], 1])
        words = next(w for w in self.regions if w.ctypes.data == address_of_region)
        before = int(words[REGION.arena])
        address = self._allocate(int(self.state[STATE.bytes]), before)
        words[REGION.arena] = address
        words[REGION.capacity] = self.memory[address].nbytes - ALIGNMENT
        self._release(before)


class SizedCallSpace:
    """A SizedSpace with the tables of native calls, which write sizes and addresses into it."""

    def __init__(self, plan: SizedPlan) -> None:
        self.space = space = SizedSpace(plan.code)
        tables: list[Any] = [
            plan.result_slots,
            plan.result_registers,
            [value.dtype.itemsize for value in plan.results],
            [0] * len(plan.result_registers),
        ]
        self._tables = [np.array([*words, 0], np.int64) for words in tables]
        addresses = [int(words.ctypes.data) for words in self._tables]
        self.seen = np.zeros(SEEN_SIZES, np.int64)
        self.words = np.zeros(len(SIZED_SPACE), np.int64)
        self.address = int(self.words.ctypes.data)
        words = {
            SIZED_SPACE.code: sized_address(),
            SIZED_SPACE.state: space.address,
            SIZED_SPACE.start: space.address + WORD * STATE.at,
            SIZED_SPACE.slots: space.slots.ctypes.data,
            SIZED_SPACE.registers: space.registers.ctypes.data,
            SIZED_SPACE.result_slots: addresses[0],
            SIZED_SPACE.result_registers: addresses[1],
            SIZED_SPACE.result_bytes: addresses[2],
            SIZED_SPACE.result_dims: addresses[3],
            SIZED_SPACE.move: move_address(),
            SIZED_SPACE.seen: self.seen.ctypes.data,
        }
        for index, value in words.items():
            self.words[index] = value

    def has_seen(self, sizes: Sequence[int]) -> bool:
        """Whether a native call has run at these sizes of the arguments."""
        number: int = hash_of_sizes(sizes, len(sizes))
        return bool(self.seen[number % SEEN_SIZES] == number)


def size_register(symbol: Any) -> MemoryCell:
    """Returns the cell of the register of a symbol: an int64, or a bool if it is 0 or 1."""
    return MemoryCell(WORD, REGISTER, dims.as_dim(symbol))
