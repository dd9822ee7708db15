"""The bytecode interpreter of sized plans, whose sizes are computed at run time.

An instruction has an opcode and up to four operands, one word each. Integers are in registers, and
the addresses of values in a table of slots. The memory of a value grows at run time.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any, Final, NamedTuple

from structir.targets.cpu.code_generation import c_function
from structir.targets.cpu.intrinsics import POINTERS, offset_by
from structir.targets.cpu.kinds import INDEX, WORDS
from structir.targets.cpu.layouts import PAUSE, ROW, SPACE
from structir.targets.cpu.native import call_c, call_kernel
from structir.targets.cpu.runner import Word, patch, words_at
from structir.targets.cpu.size_interpreter import HEAD, assign_offsets, evaluate_sizes

bytes_at: Any = POINTERS["uint8"]
advance: Any = offset_by
SIZED_WORDS: Final = 5
JUMPS: Final = 256  # between two returns to Python


class SizedOpcodes(NamedTuple):
    """The opcodes, with their operands."""

    end: int = 0
    leave: int = 1  # the host must compute the value
    jump: int = 2  # to an instruction
    unless: int = 3  # a slot holds true: jump to an instruction
    reached: int = 4  # a register is at least the word in a slot: jump to an instruction
    evaluate: int = 5  # the address of an evaluation
    require: int = 6  # a register is not 0
    room: int = 7  # a slot has as many bytes as a register holds
    copy: int = 8  # to a slot from another, as many bytes as a register holds
    swap: int = 9  # the memory of two slots
    part: int = 10  # a slot becomes an element of another: register of the index, of its bytes
    append: int = 11  # to a slot from another, behind the bytes in a register; register of bytes
    set: int = 12  # a register to a number
    add: int = 13  # one to a register
    run: int = 14  # the address of a region
    load: int = 15  # a register from a slot: the index of a word, which stops the run if negative


class SizedStopReasons(NamedTuple):
    """The reasons why a run stops."""

    end: int = 0
    leave: int = 1
    room: int = 2  # the value in `detail` needs `bytes`
    arena: int = 3  # the region in `detail` needs an arena of `bytes`
    pause: int = PAUSE  # Python handles its signals


class SizedStateWords(NamedTuple):
    """The state of a run."""

    code: int = 0
    slots: int = 1
    rooms: int = 2  # the bytes of the memory of each slot
    registers: int = 3
    at: int = 4
    detail: int = 5
    bytes: int = 6
    move: int = 7  # the address of a function that copies memory


class EvaluationWords(NamedTuple):
    """An evaluation: a program of sizes, and the registers of its inputs and values."""

    program: int = 0
    memory: int = 1
    inputs: int = 2
    values: int = 3
    skips: int = 4  # whether a program with the inputs of the last run is skipped
    is_done: int = 5


class RegionWords(NamedTuple):
    """A region: the evaluation of its numbers, and where they are used."""

    evaluation: int = 0
    space: int = 1
    sized: int = 2  # the words of the space that change, and their number
    sized_count: int = 3
    lifetimes: int = 4
    buffers: int = 5  # the number of buffers in the arena,
    elements: int = 6  # the index of the elements of the first one,
    layout: int = 7  # memory to lay them out,
    arena: int = 8  # the address of the arena
    capacity: int = 9  # and its bytes
    pointers: int = 10  # pairs: a word of the space, a buffer
    pointer_count: int = 11
    shapes: int = 12  # the index of the first size of a result, and their number
    shape_count: int = 13
    outside: int = 14  # the slots of inputs and results, and their number
    outside_count: int = 15
    is_bound: int = 16


OPCODE, STOP, STATE = SizedOpcodes(), SizedStopReasons(), SizedStateWords()
EVALUATION, REGION = EvaluationWords(), RegionWords()
CHANGED, SAME, FAILED = 0, 1, 2  # results of an evaluation


def run_evaluation(evaluation: Word, registers: Word) -> Word:
    """Evaluates sizes from registers; returns CHANGED, SAME (skipped) or FAILED."""
    program, memory = (
        words_at(evaluation[EVALUATION.program]),
        words_at(evaluation[EVALUATION.memory]),
    )
    inputs = words_at(evaluation[EVALUATION.inputs])
    changed = 1 - evaluation[EVALUATION.is_done]
    for k in range(program[HEAD.inputs]):
        size = registers[inputs[k]]
        if memory[k] != size:
            memory[k] = size
            changed = 1
    if changed == 0 and evaluation[EVALUATION.skips] != 0:
        return SAME
    evaluation[EVALUATION.is_done] = 0
    if evaluate_sizes(program, memory) != 0:
        return FAILED
    evaluation[EVALUATION.is_done] = 1
    return CHANGED


def evaluate_into_registers(evaluation: Word, registers: Word) -> Word:
    """Evaluates sizes and stores them in registers; returns 1 if Python must evaluate them."""
    if run_evaluation(evaluation, registers) == FAILED:
        return 1
    program, values = (
        words_at(evaluation[EVALUATION.program]),
        words_at(evaluation[EVALUATION.values]),
    )
    results = advance(words_at(evaluation[EVALUATION.memory]), program[HEAD.registers])
    for k in range(program[HEAD.results]):
        registers[values[k]] = results[k]
    return 0


def lay_out_arena(region: Word, numbers: Word) -> Word:
    """Lays out the arena of a region; returns its size, or -1 if it is too large."""
    count, memory = region[REGION.buffers], words_at(region[REGION.layout])
    elements = advance(numbers, region[REGION.elements])
    for k in range(count):
        memory[k] = elements[k]
    if assign_offsets(words_at(region[REGION.lifetimes]), count, memory) != 0:
        return -1
    return memory[2 * count]


def has_results(region: Word, numbers: Word) -> Word:
    """Whether no size of a result is negative."""
    sizes = advance(numbers, region[REGION.shapes])
    for k in range(region[REGION.shape_count]):  # noqa: SIM110 (compiled: no generators)
        if sizes[k] < 0:
            return False
    return True


def bind_region(state: Word, region: Word) -> Word:
    """Binds a region to the sizes in the registers; returns a reason to stop, or -1."""
    evaluation = words_at(region[REGION.evaluation])
    status = run_evaluation(evaluation, words_at(state[STATE.registers]))
    if status == FAILED:
        return STOP.leave
    if status == SAME and region[REGION.is_bound] != 0:
        return -1
    region[REGION.is_bound] = 0
    program = words_at(evaluation[EVALUATION.program])
    numbers = advance(words_at(evaluation[EVALUATION.memory]), program[HEAD.registers])
    if not has_results(region, numbers):
        return STOP.leave
    space, sized = words_at(region[REGION.space]), words_at(region[REGION.sized])
    for k in range(region[REGION.sized_count]):
        space[sized[k]] = numbers[k]
    if region[REGION.buffers] > 0:
        size = lay_out_arena(region, numbers)
        if size < 0:
            return STOP.leave
        if size > region[REGION.capacity]:
            state[STATE.bytes] = size
            return STOP.arena
        pointers, layout = words_at(region[REGION.pointers]), words_at(region[REGION.layout])
        offsets = advance(layout, region[REGION.buffers])
        for k in range(region[REGION.pointer_count]):
            space[pointers[2 * k]] = region[REGION.arena] + offsets[pointers[2 * k + 1]]
    region[REGION.is_bound] = 1
    return -1


def run_kernels(space: Word) -> Word:
    """Runs the kernels of a space that have iterations; returns 1 if one failed."""
    patch(space)
    for number in range(space[SPACE.row_count]):
        row = words_at(space[SPACE.rows] + 8 * len(ROW) * number)
        is_empty = row[ROW.high] <= row[ROW.low]
        if (
            not is_empty
            and call_kernel(row[ROW.code], row[ROW.table], row[ROW.low], row[ROW.high]) != 0
        ):
            return 1
    return 0


def run_region(state: Word, region: Word) -> Word:
    """Binds and runs a region; returns a reason to stop, or -1."""
    stop = bind_region(state, region)
    if stop >= 0:
        return stop
    space, chosen = words_at(region[REGION.space]), words_at(region[REGION.outside])
    outside, slots = words_at(space[SPACE.outside]), words_at(state[STATE.slots])
    for k in range(region[REGION.outside_count]):
        outside[k] = slots[chosen[k]]
    return STOP.leave if run_kernels(space) != 0 else -1


def swap_words(words: Word, first: Word, second: Word) -> Word:
    """Exchanges two words."""
    before = words[first]
    words[first] = words[second]
    words[second] = before
    return 0


def execute(state: Word, instruction: Word, at: Word) -> Word:
    """Executes an instruction that cannot stop; returns the index of the next one."""
    kind, first, second = instruction[0], instruction[1], instruction[2]
    slots, registers = words_at(state[STATE.slots]), words_at(state[STATE.registers])
    if kind == OPCODE.jump:
        return first
    if kind == OPCODE.unless:
        if bytes_at(slots[first])[0] == 0:
            return second
    elif kind == OPCODE.reached:
        if registers[first] >= words_at(slots[second])[0]:
            return instruction[3]
    elif kind == OPCODE.copy:
        call_c(state[STATE.move], (slots[first], slots[second], registers[instruction[3]]))
    elif kind == OPCODE.swap:
        swap_words(slots, first, second)
        swap_words(words_at(state[STATE.rooms]), first, second)
    elif kind == OPCODE.part:
        slots[first] = slots[second] + registers[instruction[3]] * registers[instruction[4]]
    elif kind == OPCODE.append:
        count = registers[instruction[4]]
        call_c(state[STATE.move], (slots[first] + registers[instruction[3]], slots[second], count))
        registers[instruction[3]] += count
    elif kind == OPCODE.set:
        registers[first] = second
    elif kind == OPCODE.add:
        registers[first] += 1
    return at + 1


def has_room(state: Word, slot: Word, size: Word) -> Word:
    """Whether a slot has memory of some bytes; else its number and the bytes are in the state."""
    if size < 0 or words_at(state[STATE.rooms])[slot] >= size:
        return True
    state[STATE.detail], state[STATE.bytes] = slot, size
    return False


def run_sized(state: Word) -> Word:
    """Runs instructions from the current one; returns the reason why it stopped."""
    code, registers = words_at(state[STATE.code]), words_at(state[STATE.registers])
    at, jumps, stop = state[STATE.at], 0, -1
    while stop < 0:
        instruction = advance(code, SIZED_WORDS * at)
        kind = instruction[0]
        if kind == OPCODE.run:
            stop = run_region(state, words_at(instruction[1]))
            if stop < 0:
                at += 1
        elif kind == OPCODE.evaluate:
            if evaluate_into_registers(words_at(instruction[1]), registers) != 0:
                stop = STOP.leave
            at += 1
        elif kind == OPCODE.require:
            if registers[instruction[1]] == 0:
                stop = STOP.leave
            at += 1
        elif kind == OPCODE.load:
            size = words_at(words_at(state[STATE.slots])[instruction[2]])[instruction[3]]
            registers[instruction[1]] = size
            if size < 0:
                stop = STOP.leave
            at += 1
        elif kind == OPCODE.room:
            if has_room(state, instruction[1], registers[instruction[2]]):
                at += 1
            else:
                stop = STOP.room
        elif kind == OPCODE.append and not has_room(
            state, instruction[1], registers[instruction[3]] + registers[instruction[4]]
        ):
            stop = STOP.room
        elif kind == OPCODE.end:
            stop = STOP.end
        elif kind == OPCODE.leave:
            stop = STOP.leave
        else:
            at = execute(state, instruction, at)
            if kind == OPCODE.jump:
                jumps += 1
                if jumps == JUMPS:
                    stop = STOP.pause
    state[STATE.at] = at
    return stop


@cache
def sized_address() -> int:
    """Returns the address of `run_sized`."""
    return c_function(run_sized, INDEX, WORDS)


@cache
def sized_runner() -> Callable[[int], int]:
    """Returns `run_sized` for the address of a state; it releases the GIL."""
    return ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(sized_address())
