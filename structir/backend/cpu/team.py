"""Threads that share the work of a kernel: chunks of its range are claimed by whoever is free.

One call at a time has the team; others meanwhile run alone. The workers look out for work for a
while after the last of it, then sleep until they are woken.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from numba import types

from structir.backend.cpu.atomics import atomic_add, atomic_read, atomic_set, atomic_write, pause
from structir.backend.cpu.c_functions import c_function
from structir.backend.cpu.intrinsics import POINTERS, offset_by
from structir.backend.cpu.layouts import ROW, TEAM
from structir.backend.cpu.native import call_c, call_kernel
from structir.backend.cpu.objects import built
from structir.backend.math.options import vectorisable

Word = Any
LOOKS = 4000  # for work, before a worker sleeps: some tens of microseconds
LOOKS_BEFORE_YIELD = 1000  # at a worker that does not come to its end: it may have no processor

words_at: Any = POINTERS["int64"]
further: Any = offset_by


@vectorisable
def work_on(team: Word, worker: Word) -> Word:
    """Claim chunks of the open row until none is left."""
    row = words_at(team[TEAM.row])
    high, chunk = row[ROW.high], row[ROW.chunk]
    table = row[ROW.table] + 8 * team[TEAM.stride] * worker
    while True:
        low = atomic_add(further(team, TEAM.next), chunk)
        if low >= high:
            return 0
        if call_kernel(row[ROW.code], table, low, min(low + chunk, high)) != 0:
            atomic_write(further(team, TEAM.failed), 1)


@vectorisable
def wake(team: Word) -> Word:
    """Wake the workers that sleep."""
    if atomic_read(further(team, TEAM.sleepers)) > 0:
        call_c(team[TEAM.lock], (team[TEAM.mutex],))
        call_c(team[TEAM.broadcast], (team[TEAM.condition],))
        call_c(team[TEAM.unlock], (team[TEAM.mutex],))
    return 0


@vectorisable
def run_split(team: Word, row: Word, stride: Word, threads: Word) -> Word:
    """Run a row, whose address is given, by the team that the caller has taken; not 0 on failure.

    A worker that comes late finds the row closed, or the next one open: what it reads of a row is
    only written while none is open and none is at work.
    """
    team[TEAM.row], team[TEAM.stride], team[TEAM.threads] = row, stride, threads
    atomic_write(further(team, TEAM.next), words_at(row)[ROW.low])
    atomic_write(further(team, TEAM.open), 1)
    atomic_add(further(team, TEAM.generation), 1)
    wake(team)
    work_on(team, 0)
    atomic_write(further(team, TEAM.open), 0)
    looks = 0
    while atomic_read(further(team, TEAM.active)) != 0:
        pause()
        looks += 1
        if looks % LOOKS_BEFORE_YIELD == 0:
            call_c(team[TEAM.give_way], ())
    return atomic_set(further(team, TEAM.failed), 0)


@vectorisable
def take(team: Word) -> Word:
    """Whether the team is the caller's now: no other call is under way, which would need the
    processors itself. Each call gives back."""
    return atomic_add(further(team, TEAM.callers), 1) == 0


@vectorisable
def give_back(team: Word) -> Word:
    """One call less is under way."""
    atomic_add(further(team, TEAM.callers), -1)
    return 0


@vectorisable
def sleep_until_work(team: Word, seen: Word) -> Word:
    """Sleep until there was work after that of the generation `seen`."""
    call_c(team[TEAM.lock], (team[TEAM.mutex],))
    atomic_add(further(team, TEAM.sleepers), 1)
    while atomic_read(further(team, TEAM.generation)) == seen:
        call_c(team[TEAM.wait], (team[TEAM.condition], team[TEAM.mutex]))
    atomic_add(further(team, TEAM.sleepers), -1)
    call_c(team[TEAM.unlock], (team[TEAM.mutex],))
    return 0


def serve(address: Word, worker: Word) -> Word:
    """The life of a worker."""
    team = words_at(address)
    seen, looks = 0, 0
    while True:
        now = atomic_read(further(team, TEAM.generation))
        if now == seen:
            pause()
            looks += 1
            if looks > LOOKS:
                sleep_until_work(team, seen)
            continue
        seen, looks = now, 0
        atomic_add(further(team, TEAM.active), 1)
        if atomic_read(further(team, TEAM.open)) != 0 and worker < team[TEAM.threads]:
            work_on(team, worker)
        atomic_add(further(team, TEAM.active), -1)


@cache
def serve_address() -> int:
    """Where `serve` is."""
    word = types.int64
    return built("serve", lambda: c_function(word(word, word), serve)).addresses[0]
