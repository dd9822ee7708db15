"""The runner of steps: plans, choices and loops between them, in one compiled call.

A step is some words: what it does, and up to five numbers. Values are told by the place of their
address in a table of slots.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any, Final, NamedTuple

from numba import types

from structir.backend.cpu.c_functions import c_function
from structir.backend.cpu.intrinsics import POINTERS, offset_by
from structir.backend.cpu.layouts import SPACE, STATE
from structir.backend.cpu.native import call_c
from structir.backend.cpu.objects import built
from structir.backend.cpu.runner import WORDS, Word, patch, run_rows, words_at
from structir.backend.math.options import vectorisable

bytes_at: Any = POINTERS["uint8"]
further: Any = offset_by
STEP_WORDS: Final = 6
JUMPS: Final = 256  # until the next pause: rounds of a loop, or less


class StepKinds(NamedTuple):
    """What a step does, and its numbers."""

    end: int = 0
    run: int = 1  # a space; the slots of its outside addresses, and how many they are
    jump: int = 2  # to a step
    unless: int = 3  # a slot holds true, jump to a step
    reached: int = 4  # a slot holds at least what another one does: jump to a step
    copy: int = 5  # to a slot, from one, so many bytes
    swap: int = 6  # what two slots are
    part: int = 7  # a slot becomes an element of another one: its number in a third, its bytes
    append: int = (
        8  # to a slot from one, as the element of a number, so many bytes; room for so many
    )
    set: int = 9  # the word in a slot to a number
    add: int = 10  # one to the word in a slot
    leave: int = 11  # what follows is not for this runner


class StopPlaces(NamedTuple):
    """Why the runner has stopped."""

    end: int = 0
    failure: int = 1
    leave: int = 2
    full: int = 3  # what grows has no room for its next element
    pause: int = 4  # it may go on: Python is to look after its signals now and then


KIND, STOP = StepKinds(), StopPlaces()


@vectorisable
def run_plan(step: Word, slots: Word) -> Word:
    """Run a plan on the addresses in some slots; not 0 where it failed."""
    space, chosen = words_at(step[1]), words_at(step[2])
    outside = words_at(space[SPACE.outside])
    for k in range(step[3]):
        outside[k] = slots[chosen[k]]
    patch(space)
    return run_rows(space)


@vectorisable
def next_step(step: Word, slots: Word, at: Word, move: Word) -> Word:
    """Do a step that is none of a plan; the number of the one that follows."""
    kind, first = step[0], step[1]
    if kind == KIND.jump:
        return first
    if kind == KIND.unless:
        if bytes_at(slots[first])[0] == 0:
            return step[2]
    elif kind == KIND.reached:
        if words_at(slots[first])[0] >= words_at(slots[step[2]])[0]:
            return step[3]
    elif kind == KIND.copy:
        call_c(move, (slots[first], slots[step[2]], step[3]))
    elif kind == KIND.swap:
        before = slots[first]
        slots[first] = slots[step[2]]
        slots[step[2]] = before
    elif kind == KIND.part:
        slots[first] = slots[step[2]] + words_at(slots[step[3]])[0] * step[4]
    elif kind == KIND.append:
        filled = words_at(slots[step[3]])
        call_c(move, (slots[first] + filled[0], slots[step[2]], step[4]))
        filled[0] += step[4]
    elif kind == KIND.set:
        words_at(slots[first])[0] = step[2]
    elif kind == KIND.add:
        words_at(slots[first])[0] += 1
    return at + 1


def run_steps(state: Word) -> Word:
    """Do steps from where the state stands; why it stopped."""
    steps, slots = words_at(state[STATE.steps]), words_at(state[STATE.slots])
    at, jumps = state[STATE.at], 0
    stop = -1
    while stop < 0:
        step = further(steps, STEP_WORDS * at)
        kind = step[0]
        if kind == KIND.run:
            failed = run_plan(step, slots)
            if failed != 0:
                state[STATE.detail] = failed - 1
                stop = STOP.failure
            else:
                at += 1
        elif kind == KIND.end:
            stop = STOP.end
        elif kind == KIND.leave:
            stop = STOP.leave
        elif kind == KIND.append and words_at(slots[step[3]])[0] + step[4] > step[5]:
            stop = STOP.full
        else:
            at = next_step(step, slots, at, state[STATE.move])
            if kind == KIND.jump:
                jumps += 1
                if jumps == JUMPS:
                    stop = STOP.pause
    state[STATE.at] = at
    return stop


@cache
def steps_address() -> int:
    """Where `run_steps` is."""
    signature = types.int64(WORDS)
    return built("run_steps", lambda: c_function(signature, run_steps)).addresses[0]


@cache
def steps_runner() -> Callable[[int], int]:
    """The runner; other Python threads go on while it works."""
    return ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(steps_address())


def move_address() -> int:
    """The function that copies memory."""
    return int(ctypes.cast(ctypes.memmove, ctypes.c_void_p).value or 0)
