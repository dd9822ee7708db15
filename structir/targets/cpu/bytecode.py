"""The bytecode interpreter of step plans: plans, branches and loops in one compiled call.

An instruction has an opcode and up to five operands, one word each. Values are indices into a table
of slots, which hold addresses.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any, Final, NamedTuple

from structir.targets.cpu.code_generation import c_function
from structir.targets.cpu.intrinsics import POINTERS, offset_by
from structir.targets.cpu.kinds import INDEX, WORDS
from structir.targets.cpu.layouts import PAUSE, SPACE, STATE
from structir.targets.cpu.native import call_c
from structir.targets.cpu.runner import Word, patch, run_rows, words_at

bytes_at: Any = POINTERS["uint8"]
advance: Any = offset_by
INSTRUCTION_WORDS: Final = 6
JUMPS: Final = 256  # between two returns to Python


class Opcodes(NamedTuple):
    """The opcodes, with their operands."""

    end: int = 0
    run: int = 1  # a workspace; the slots of its inputs and results, and their number
    jump: int = 2  # to an instruction
    unless: int = 3  # a slot holds true: jump to an instruction
    reached: int = 4  # a slot holds at least the value in another: jump to an instruction
    copy: int = 5  # to a slot from another: the number of bytes
    swap: int = 6  # the addresses in two slots
    part: int = 7  # a slot becomes an element of another: the slot of the index, bytes per element
    append: int = 8  # to a slot from another: the slot of the used bytes, new bytes, capacity
    set: int = 9  # the word in a slot to a number
    add: int = 10  # one to the word in a slot
    leave: int = 11  # the host must execute the next step
    repeat: int = 12  # the address of the table of a loop that is run by this one instruction


class RepeatWords(NamedTuple):
    """A loop over runs and copies: slots, and tables with their numbers of entries."""

    counter: int = 0
    limit: int = 1  # or -1
    going: int = 2  # or -1
    after: int = 3  # the index of the instruction behind the loop
    rows: int = 4  # the slot of an element, that of its array, bytes
    row_count: int = 5
    moves: int = 6  # an argument of a kernel: its address, and its slot
    move_count: int = 7
    body: int = 8
    body_count: int = 9
    swaps: int = 10  # two slots
    swap_count: int = 11


class BodyWords(NamedTuple):
    """An instruction in the body of such a loop."""

    kind: int = 0
    address: int = 1  # of the workspace of a run; of another instruction
    moves: int = 2  # the arguments that differ between steps, and their number
    move_count: int = 3
    number: int = 4  # among all instructions


class StopReasons(NamedTuple):
    """The reasons why a run stops."""

    end: int = 0
    failure: int = 1
    leave: int = 2
    full: int = 3  # a growing value is at capacity
    pause: int = PAUSE  # Python handles its signals


OPCODE, STOP, REPEAT, BODY = Opcodes(), StopReasons(), RepeatWords(), BodyWords()
NO_LIMIT: Final = 2**63 - 1


def run_plan(instruction: Word, slots: Word) -> Word:
    """Runs a plan on the addresses in some slots; nonzero on failure."""
    space, chosen = words_at(instruction[1]), words_at(instruction[2])
    outside = words_at(space[SPACE.outside])
    for k in range(instruction[3]):
        outside[k] = slots[chosen[k]]
    patch(space)
    return run_rows(space)


def execute(instruction: Word, slots: Word, at: Word, move: Word) -> Word:
    """Executes an instruction that cannot stop; returns the index of the next one."""
    kind, first = instruction[0], instruction[1]
    if kind == OPCODE.jump:
        return first
    if kind == OPCODE.unless:
        if bytes_at(slots[first])[0] == 0:
            return instruction[2]
    elif kind == OPCODE.reached:
        if words_at(slots[first])[0] >= words_at(slots[instruction[2]])[0]:
            return instruction[3]
    elif kind == OPCODE.copy:
        call_c(move, (slots[first], slots[instruction[2]], instruction[3]))
    elif kind == OPCODE.swap:
        before = slots[first]
        slots[first] = slots[instruction[2]]
        slots[instruction[2]] = before
    elif kind == OPCODE.part:
        slots[first] = slots[instruction[2]] + words_at(slots[instruction[3]])[0] * instruction[4]
    elif kind == OPCODE.append:
        filled = words_at(slots[instruction[3]])
        call_c(move, (slots[first] + filled[0], slots[instruction[2]], instruction[4]))
        filled[0] += instruction[4]
    elif kind == OPCODE.set:
        words_at(slots[first])[0] = instruction[2]
    elif kind == OPCODE.add:
        words_at(slots[first])[0] += 1
    return at + 1


def move_arguments(moves: Word, count: Word, slots: Word) -> None:
    """Stores the addresses in slots as arguments of kernels."""
    for k in range(count):
        words_at(moves[2 * k])[0] = slots[moves[2 * k + 1]]


def run_step(table: Word, slots: Word, state: Word) -> Word:
    """Runs the body of a loop once; nonzero on failure."""
    body = words_at(table[REPEAT.body])
    for k in range(table[REPEAT.body_count]):
        entry = advance(body, len(BODY) * k)
        if entry[BODY.kind] == OPCODE.run:
            move_arguments(words_at(entry[BODY.moves]), entry[BODY.move_count], slots)
            failed = run_rows(words_at(entry[BODY.address]))
            if failed != 0:
                state[STATE.detail], state[STATE.at] = failed - 1, entry[BODY.number]
                return 1
        else:
            execute(words_at(entry[BODY.address]), slots, 0, state[STATE.move])
    return 0


def start_repeat(table: Word, slots: Word, step: Word) -> None:
    """Loads the elements of a step, and stores all arguments of the kernels."""
    rows = words_at(table[REPEAT.rows])
    for k in range(table[REPEAT.row_count]):
        slots[rows[3 * k]] = slots[rows[3 * k + 1]] + rows[3 * k + 2] * step
    move_arguments(words_at(table[REPEAT.moves]), table[REPEAT.move_count], slots)


def run_repeat(table: Word, slots: Word, state: Word) -> Word:
    """Runs a loop from its current step; returns a reason to stop, or -1 at its end."""
    counter, going, limit = words_at(slots[table[REPEAT.counter]]), table[REPEAT.going], NO_LIMIT
    if table[REPEAT.limit] >= 0:
        limit = words_at(slots[table[REPEAT.limit]])[0]
    rows, swaps = words_at(table[REPEAT.rows]), words_at(table[REPEAT.swaps])
    start_repeat(table, slots, counter[0])
    while state[STATE.jumps] < JUMPS:
        if counter[0] >= limit or (going >= 0 and bytes_at(slots[going])[0] == 0):
            state[STATE.at] = table[REPEAT.after]
            return -1
        if run_step(table, slots, state) != 0:
            return STOP.failure
        for k in range(table[REPEAT.swap_count]):
            first, second = swaps[2 * k], swaps[2 * k + 1]
            before = slots[first]
            slots[first] = slots[second]
            slots[second] = before
        for k in range(table[REPEAT.row_count]):
            slots[rows[3 * k]] += rows[3 * k + 2]
        counter[0] += 1
        state[STATE.jumps] += 1
    return STOP.pause


def run_bytecode(state: Word) -> Word:
    """Runs instructions from the current one; returns the reason why it stopped."""
    code, slots = words_at(state[STATE.code]), words_at(state[STATE.slots])
    at, stop = state[STATE.at], -1
    state[STATE.jumps] = 0
    while stop < 0:
        instruction = advance(code, INSTRUCTION_WORDS * at)
        kind = instruction[0]
        if kind == OPCODE.run:
            failed = run_plan(instruction, slots)
            if failed != 0:
                state[STATE.detail] = failed - 1
                stop = STOP.failure
            else:
                at += 1
        elif kind == OPCODE.repeat:
            state[STATE.at] = at
            stop = run_repeat(words_at(instruction[1]), slots, state)
            at = state[STATE.at]
        elif kind == OPCODE.end:
            stop = STOP.end
        elif kind == OPCODE.leave:
            stop = STOP.leave
        elif (
            kind == OPCODE.append
            and words_at(slots[instruction[3]])[0] + instruction[4] > instruction[5]
        ):
            stop = STOP.full
        else:
            at = execute(instruction, slots, at, state[STATE.move])
            if kind == OPCODE.jump:
                state[STATE.jumps] += 1
                if state[STATE.jumps] >= JUMPS:
                    stop = STOP.pause
    state[STATE.at] = at
    return stop


@cache
def bytecode_address() -> int:
    """Returns the address of `run_bytecode`."""
    return c_function(run_bytecode, INDEX, WORDS)


@cache
def bytecode_runner() -> Callable[[int], int]:
    """Returns `run_bytecode` for the address of a state; it releases the GIL."""
    return ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(bytecode_address())


def move_address() -> int:
    """Returns the address of `memmove`."""
    return int(ctypes.cast(ctypes.memmove, ctypes.c_void_p).value or 0)
