"""The number of physical cores that the process may use, and its pool of worker threads, which is
started on demand, and restarted after a fork."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from structir.errors import StructIRError
from structir.system.locks import new_lock
from structir.targets.cpu.layouts import POOL, POOL_WORDS
from structir.targets.cpu.thread_pool import pool_functions, worker_address

VARIABLE = "STRUCTIR_NUM_THREADS"
LINE = 64  # bytes
LIBRARY = {
    POOL.lock: "pthread_mutex_lock",
    POOL.unlock: "pthread_mutex_unlock",
    POOL.wait: "pthread_cond_wait",
    POOL.broadcast: "pthread_cond_broadcast",
    POOL.yield_thread: "sched_yield",
}


def thread_count(requested: int | None) -> int:
    """Returns the number of threads: the argument, else STRUCTIR_NUM_THREADS, else all physical
    cores that the process may use.

    Raises StructIRError unless it is a positive integer.
    """
    if requested is None:
        value = os.environ.get(VARIABLE)
        if value is None:
            return physical_cores()
        if not value.isdecimal() or int(value) < 1:
            raise StructIRError(
                f"{VARIABLE} must be a positive integer, found {value!r}", code="E1004"
            )
        return int(value)
    if not isinstance(requested, int) or requested < 1:
        raise StructIRError(
            f"num_threads must be a positive integer, found {requested!r}", code="E1004"
        )
    return requested


class WorkerPool:
    """The workers of this process, and the table that holds their tasks."""

    def __init__(self) -> None:
        self._memory = np.zeros(POOL_WORDS + LINE, np.int64)
        shift = -self._memory.ctypes.data % LINE // 8
        self.table = self._memory[shift : shift + POOL_WORDS]
        self._sync = np.zeros(64, np.int64)  # a mutex and a condition variable
        self._library = ctypes.CDLL(None)
        for index, name in LIBRARY.items():
            code = ctypes.cast(getattr(self._library, name), ctypes.c_void_p)
            self.table[index] = code.value or 0
        for index, address in pool_functions().items():
            self.table[index] = address
        self._lock = new_lock()
        self.workers = 0
        self._prepare()

    @property
    def address(self) -> int:
        """The address of the table."""
        return int(self.table.ctypes.data)

    def _prepare(self) -> None:
        """Resets the table: no worker is busy or asleep."""
        for index in (POOL.open, POOL.next, POOL.active, POOL.failed, POOL.callers, POOL.sleepers):
            self.table[index] = 0
        self._sync[:] = 0
        start = int(self._sync.ctypes.data)
        self.table[POOL.mutex], self.table[POOL.condition] = start, start + 256
        self._library.pthread_mutex_init(ctypes.c_void_p(start), None)
        self._library.pthread_cond_init(ctypes.c_void_p(start + 256), None)

    def grow(self, threads: int) -> None:
        """Starts workers for a number of threads, the caller's included."""
        with self._lock:
            while self.workers < threads - 1:
                self.workers += 1
                arguments = (self.address, self.workers)
                name = f"structir-{self.workers}"
                threading.Thread(target=serve(), args=arguments, name=name, daemon=True).start()

    def start_again(self) -> None:
        """Restarts the workers in a forked process."""
        threads, self.workers = self.workers + 1, 0
        self._prepare()
        self.grow(threads)


@cache
def serve() -> Callable[[int, int], int]:
    """Runs a worker, with the GIL released."""
    word: Any = ctypes.c_int64
    return ctypes.CFUNCTYPE(word, word, word)(worker_address())


_creation = new_lock()  # concurrent calls would create several pools


@cache
def _pool() -> WorkerPool | None:
    if os.name != "posix":
        return None
    pool = WorkerPool()
    os.register_at_fork(after_in_child=pool.start_again)
    return pool


def pool_of(threads: int) -> WorkerPool | None:
    """Returns the pool with workers for so many threads; None for one thread."""
    if threads <= 1:
        return None
    with _creation:
        pool = _pool()
    if pool is not None:
        pool.grow(threads)
    return pool


ROOT = Path("/")
CONTROLLERS = ("cpu", "cpu,cpuacct", "cpuacct,cpu")  # where version 1 of cgroups is mounted


def physical_cores(root: Path = ROOT) -> int:
    """Returns the physical cores in the CPU affinity of the process, within its cgroup's limit."""
    return max(1, min(len(_cores(root)), _limit(root)))


def _cores(root: Path) -> set[str]:
    """Returns the names of the physical cores: two CPUs of one core have the same siblings."""
    if not hasattr(os, "sched_getaffinity"):
        return {str(cpu) for cpu in range(os.cpu_count() or 1)}
    return {_siblings(root, cpu) for cpu in os.sched_getaffinity(0)}


@cache  # each compilation counts the cores: to read files takes half a millisecond
def _siblings(root: Path, cpu: int) -> str:
    """Returns the CPUs of the same physical core."""
    topology = root / f"sys/devices/system/cpu/cpu{cpu}/topology"
    with suppress(OSError):
        return (topology / "thread_siblings_list").read_text().strip()
    return str(cpu)


@cache
def _limit(root: Path) -> int:
    """Returns the lowest limit, rounded down; a number that no machine reaches if there is none."""
    return min(map(int, _limits(root)), default=sys.maxsize)


def _limits(root: Path) -> Iterator[float]:
    """Yields the limits of CPU time of the process's cgroup and of those that contain it, in CPUs.

    In a container the path of the group may be that of the host: the mounted root is read too.
    """
    with suppress(OSError):
        for line in (root / "proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            relative = Path(path.lstrip("/"))
            for group in (relative, *relative.parents):
                yield from _limits_of(root / "sys/fs/cgroup", controllers, group)


def _limits_of(mounted: Path, controllers: str, group: Path) -> Iterator[float]:
    with suppress(OSError, ValueError):
        if not controllers:
            quota, period = (mounted / group / "cpu.max").read_text().split()
            yield float(quota) / float(period)  # "max" is no number: no limit
        elif "cpu" in controllers.split(","):
            for name in CONTROLLERS:
                with suppress(OSError):
                    yield from _limit_of_version_1(mounted / name / group)


def _limit_of_version_1(folder: Path) -> Iterator[float]:
    quota = float((folder / "cpu.cfs_quota_us").read_text())
    if quota > 0:
        yield quota / float((folder / "cpu.cfs_period_us").read_text())
