"""The thread pool in compiled code: threads claim chunks of a kernel's range dynamically.

One call at a time owns the pool; concurrent calls run serially. Idle workers spin for tens of
microseconds, then block.

A kernel with phases has one part for each thread. A thread begins a part of a phase once all parts
have completed the phase before it; it prefers its own part, whose operands are in its cache, and
claims another one that its thread has not begun for some time: no thread waits for one that is
asleep, or that the operating system has suspended between two phases.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from structir.targets.cpu.atomics import (
    atomic_add,
    atomic_read,
    atomic_replace,
    atomic_set,
    atomic_write,
    pause,
)
from structir.targets.cpu.code_generation import c_function
from structir.targets.cpu.intrinsics import POINTERS, offset_by
from structir.targets.cpu.kinds import INDEX, WORDS
from structir.targets.cpu.layouts import PHASE, POOL, ROW
from structir.targets.cpu.native import call_c, call_kernel

Word = Any
LOOKS = 4000  # polls of an idle worker before it blocks: tens of microseconds
LOOKS_BEFORE_YIELD = 1000  # polls for busy workers before `sched_yield`: they may be preempted
LOOKS_BEFORE_OTHERS = 64  # polls before a thread claims the part of another: about a microsecond,
LOOKS_ALONE = 16  # and where it has done so in the phase before

words_at: Any = POINTERS["int64"]
advance: Any = offset_by


def work_on(pool: Word, worker: Word) -> Word:
    """Claims and runs chunks of the current kernel until none is left."""
    row = words_at(pool[POOL.row])
    high, chunk = row[ROW.high], row[ROW.chunk]
    table = row[ROW.table] + 8 * pool[POOL.stride] * worker
    while True:
        low = atomic_add(advance(pool, POOL.next), chunk)
        if low >= high:
            return 0
        if call_kernel(row[ROW.code], table, low, min(low + chunk, high)) != 0:
            atomic_write(advance(pool, POOL.failed), 1)


def claim_part(pool: Word, words: Word, phase: Word, own: Word, is_patient: Word) -> Word:
    """Claims the part of a phase of a thread, or of any thread if it is not patient; -1 if there is
    none. `words` is the address of the phase words of the first thread."""
    parts, step = pool[POOL.threads], 8 * pool[POOL.stride]
    for k in range(1 if is_patient else parts):
        part = (own + k) % parts
        claimed = words_at(words + step * part + 8 * PHASE.claimed)
        if atomic_read(claimed) == phase and atomic_replace(claimed, phase, phase + 1):
            return part
    return -1


def work_in_phases(pool: Word, worker: Word) -> Word:
    """Claims and runs parts of the phases of the current kernel until all are completed."""
    row, parts, phases = words_at(pool[POOL.row]), pool[POOL.threads], pool[POOL.phases]
    table = row[ROW.table] + 8 * pool[POOL.stride] * worker
    words, first = words_at(table + 8 * row[ROW.phase]), row[ROW.table] + 8 * row[ROW.phase]
    looks, alone = 0, -1  # the last phase in which another thread was late
    while True:
        phase = atomic_read(advance(pool, POOL.done)) // parts
        if phase >= phases or atomic_read(advance(pool, POOL.failed)) != 0:
            return 0
        most = LOOKS_ALONE if alone == phase - 1 else LOOKS_BEFORE_OTHERS
        part = claim_part(pool, first, phase, worker, looks < most)
        if part < 0:
            pause()
            looks += 1
            if looks % LOOKS_BEFORE_YIELD == 0:
                call_c(pool[POOL.yield_thread], ())
            continue
        looks = 0
        if part != worker:
            alone = phase
        words[PHASE.first], words[PHASE.last] = phase, phase + 1
        low = part * row[ROW.chunk]
        if call_kernel(row[ROW.code], table, low, min(low + row[ROW.chunk], row[ROW.high])) != 0:
            atomic_write(advance(pool, POOL.failed), 1)
        atomic_add(advance(pool, POOL.done), 1)


def wake(pool: Word) -> Word:
    """Wakes blocked workers."""
    if atomic_read(advance(pool, POOL.sleepers)) > 0:
        call_c(pool[POOL.lock], (pool[POOL.mutex],))
        call_c(pool[POOL.broadcast], (pool[POOL.condition],))
        call_c(pool[POOL.unlock], (pool[POOL.mutex],))
    return 0


def run_on_pool(pool: Word, row: Word, stride: Word, threads: Word) -> Word:
    """Runs a kernel, given the address of its row, on the pool that the caller owns; nonzero on
    failure."""
    if words_at(row)[ROW.phase] != 0:
        return run_phases(pool, row, stride, threads)
    return run_split(pool, row, stride, threads)


def run_split(pool: Word, row: Word, stride: Word, threads: Word) -> Word:
    """Runs a kernel whose chunks are independent.

    A late worker sees no open kernel, or the next one. The fields it reads are written only while
    no kernel is open and no worker is active.
    """
    pool[POOL.row], pool[POOL.stride], pool[POOL.threads] = row, stride, threads
    pool[POOL.phases] = 0
    atomic_write(advance(pool, POOL.next), words_at(row)[ROW.low])
    return run_open(pool)


def run_phases(pool: Word, row: Word, stride: Word, threads: Word) -> Word:
    """Runs a kernel with phases."""
    facts = words_at(row)
    parts = min(threads, (facts[ROW.high] + facts[ROW.chunk] - 1) // facts[ROW.chunk])
    first = facts[ROW.table] + 8 * facts[ROW.phase]
    phases = words_at(first)[PHASE.last]
    pool[POOL.row], pool[POOL.stride], pool[POOL.threads] = row, stride, parts
    pool[POOL.phases] = phases
    atomic_write(advance(pool, POOL.done), 0)
    failed = run_open(pool)
    for worker in range(parts):  # as for a call that runs all phases
        words = words_at(first + 8 * stride * worker)
        words[PHASE.first], words[PHASE.last], words[PHASE.claimed] = 0, phases, 0
    return failed


def work_on_open(pool: Word, worker: Word) -> Word:
    """Takes part in the current kernel."""
    if pool[POOL.phases] != 0:
        return work_in_phases(pool, worker)
    return work_on(pool, worker)


def run_open(pool: Word) -> Word:
    """Opens the current kernel to the workers and takes part in it; nonzero on failure."""
    atomic_write(advance(pool, POOL.open), 1)
    atomic_add(advance(pool, POOL.generation), 1)
    wake(pool)
    call_c(pool[POOL.work], (pool, 0))
    atomic_write(advance(pool, POOL.open), 0)
    looks = 0
    while atomic_read(advance(pool, POOL.active)) != 0:
        pause()
        looks += 1
        if looks % LOOKS_BEFORE_YIELD == 0:
            call_c(pool[POOL.yield_thread], ())
    return atomic_set(advance(pool, POOL.failed), 0)


def acquire(pool: Word) -> Word:
    """Registers a call; returns whether it owns the pool, because no other call is running.

    Each call must be followed by `release`.
    """
    return atomic_add(advance(pool, POOL.callers), 1) == 0


def release(pool: Word) -> Word:
    """Unregisters a call."""
    atomic_add(advance(pool, POOL.callers), -1)
    return 0


def sleep_until_work(pool: Word, seen: Word) -> Word:
    """Blocks until a generation after `seen` has started."""
    call_c(pool[POOL.lock], (pool[POOL.mutex],))
    atomic_add(advance(pool, POOL.sleepers), 1)
    while atomic_read(advance(pool, POOL.generation)) == seen:
        call_c(pool[POOL.wait], (pool[POOL.condition], pool[POOL.mutex]))
    atomic_add(advance(pool, POOL.sleepers), -1)
    call_c(pool[POOL.unlock], (pool[POOL.mutex],))
    return 0


def serve(address: Word, worker: Word) -> Word:
    """Runs a worker thread: polls for kernels, and never returns."""
    pool = words_at(address)
    seen, looks = 0, 0
    while True:
        now = atomic_read(advance(pool, POOL.generation))
        if now == seen:
            pause()
            looks += 1
            if looks > LOOKS:
                sleep_until_work(pool, seen)
            continue
        seen, looks = now, 0
        atomic_add(advance(pool, POOL.active), 1)
        if atomic_read(advance(pool, POOL.open)) != 0 and worker < pool[POOL.threads]:
            call_c(pool[POOL.work], (pool, worker))
        atomic_add(advance(pool, POOL.active), -1)


@cache
def worker_address() -> int:
    """Returns the address of `serve`."""
    return c_function(serve, INDEX, INDEX, INDEX)


@cache
def pool_functions() -> dict[int, int]:
    """Returns the addresses of the functions that a pool calls, by their indices in its table."""
    run = c_function(run_on_pool, INDEX, WORDS, INDEX, INDEX, INDEX)
    return {POOL.run: run, POOL.work: c_function(work_on_open, INDEX, WORDS, INDEX)}
