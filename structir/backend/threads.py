"""The team of threads of this process: started when first asked for, and again after a fork."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from structir.backend.cpu.layouts import TEAM, TEAM_WORDS
from structir.backend.cpu.team import serve_address
from structir.errors import StructIRError

VARIABLE = "STRUCTIR_NUM_THREADS"
LINE = 64  # bytes
LIBRARY = {
    TEAM.lock: "pthread_mutex_lock",
    TEAM.unlock: "pthread_mutex_unlock",
    TEAM.wait: "pthread_cond_wait",
    TEAM.broadcast: "pthread_cond_broadcast",
    TEAM.give_way: "sched_yield",
}


def thread_count(asked: int | None) -> int:
    """How many threads to use: what is asked for, else what the environment says, else one."""
    if asked is None:
        said = os.environ.get(VARIABLE, "1")
        if not said.isdecimal() or int(said) < 1:
            raise StructIRError(f"{VARIABLE} must be a number from 1 up, not {said!r}")
        return int(said)
    if not isinstance(asked, int) or asked < 1:
        raise StructIRError(f"num_threads must be a number from 1 up, not {asked!r}")
    return asked


class WorkerPool:
    """The workers of this process, and the table through which they are told what to do."""

    def __init__(self) -> None:
        self._memory = np.zeros(TEAM_WORDS + LINE, np.int64)
        shift = -self._memory.ctypes.data % LINE // 8
        self.table = self._memory[shift : shift + TEAM_WORDS]
        self._sync = np.zeros(64, np.int64)  # a mutex and a condition
        self._library = ctypes.CDLL(None)
        for place, name in LIBRARY.items():
            code = ctypes.cast(getattr(self._library, name), ctypes.c_void_p)
            self.table[place] = code.value or 0
        self._lock = threading.Lock()
        self.workers = 0
        self._prepare()

    @property
    def address(self) -> int:
        """Where the table is."""
        return int(self.table.ctypes.data)

    def _prepare(self) -> None:
        """Nobody is at work, and nobody sleeps."""
        for place in (TEAM.open, TEAM.next, TEAM.active, TEAM.failed, TEAM.owner, TEAM.sleepers):
            self.table[place] = 0
        self._sync[:] = 0
        start = int(self._sync.ctypes.data)
        self.table[TEAM.mutex], self.table[TEAM.condition] = start, start + 256
        self._library.pthread_mutex_init(ctypes.c_void_p(start), None)
        self._library.pthread_cond_init(ctypes.c_void_p(start + 256), None)

    def grow(self, threads: int) -> None:
        """Have workers for so many threads, the caller's among them."""
        with self._lock:
            while self.workers < threads - 1:
                self.workers += 1
                arguments = (self.address, self.workers)
                name = f"structir-{self.workers}"
                threading.Thread(target=serve(), args=arguments, name=name, daemon=True).start()

    def start_again(self) -> None:
        """In a forked process the workers are gone."""
        threads, self.workers = self.workers + 1, 0
        self._lock = threading.Lock()
        self._prepare()
        self.grow(threads)


@cache
def serve() -> Callable[[int, int], int]:
    """The life of a worker, as a function that lets other Python threads go on."""
    word: Any = ctypes.c_int64
    return ctypes.CFUNCTYPE(word, word, word)(serve_address())


@cache
def _team() -> WorkerPool | None:
    if os.name != "posix":
        return None
    made = WorkerPool()
    os.register_at_fork(after_in_child=made.start_again)
    return made


def team_of(threads: int) -> WorkerPool | None:
    """The team with workers for so many threads; None where one thread is all there is."""
    team = _team() if threads > 1 else None
    if team is not None:
        team.grow(threads)
    return team
