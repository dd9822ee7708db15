"""The loop runner: a plan run again and again in one compiled call, its operands moved along."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any, Final, NamedTuple

from numba import types

from structir.backend.cpu.c_functions import c_function
from structir.backend.cpu.intrinsics import POINTERS, offset_by
from structir.backend.cpu.layouts import SPACE
from structir.backend.cpu.objects import built
from structir.backend.cpu.runner import WORDS, Word, run_here, words_at

bytes_at: Any = POINTERS["uint8"]
further: Any = offset_by


class LoopPlaces(NamedTuple):
    """A loop over a space: where its slots are, how many steps, and how far it came."""

    space: int = 0
    slots: int = 1
    slot_count: int = 2
    steps: int = 3
    condition: int = 4  # which outside address holds whether to go on; -1 where nothing does
    done: int = 5


class SlotPlaces(NamedTuple):
    """Where one operand or result lies at each step: at the first if that is not 0, then in one
    place at even steps and in another at odd ones, moved along by the stride at every step."""

    outside: int = 0
    first: int = 1
    even: int = 2
    odd: int = 3
    stride: int = 4


LOOP, SLOT = LoopPlaces(), SlotPlaces()
SLOT_WORDS: Final = len(SLOT)


def run_loop(loop: Word) -> Word:
    """Run the steps of a loop; 0, or 1 + the row at which one failed. `done` tells how many steps
    were begun."""
    space = words_at(loop[LOOP.space])
    outside = words_at(space[SPACE.outside])
    slots = words_at(loop[LOOP.slots])
    for step in range(loop[LOOP.steps]):
        for k in range(loop[LOOP.slot_count]):
            slot = further(slots, SLOT_WORDS * k)
            address = slot[SLOT.first]
            if step > 0 or address == 0:
                address = slot[SLOT.even] if step % 2 == 0 else slot[SLOT.odd]
                address += step * slot[SLOT.stride]
            outside[slot[SLOT.outside]] = address
        loop[LOOP.done] = step + 1
        failed = run_here(space)
        if failed != 0:
            return failed
        if loop[LOOP.condition] >= 0 and bytes_at(outside[loop[LOOP.condition]])[0] == 0:
            break
    return 0


@cache
def loop_runner() -> Callable[[int], int]:
    """The runner of loops; other Python threads go on while it works."""
    signature = types.int64(WORDS)
    address = built("run_loop", lambda: c_function(signature, run_loop)).addresses[0]
    return ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(address)
