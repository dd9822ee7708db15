"""Measures programs of several systems in turns, each system in a child process of its own.

Worker threads spin after a call and would take a core from the system that is measured next. Thus,
a child is stopped by a signal while it is not its turn (POSIX).
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import statistics
import time
import traceback
from collections.abc import Callable, Hashable, Mapping
from typing import Any, NamedTuple

from processor import processor

BURST = 0.02  # seconds of one sample
Program = Callable[[], Any]


class Sample(NamedTuple):
    """Seconds of a call: elapsed time, and CPU time of all threads of the process."""

    clock: float
    cpu: float


def burst(call: Program) -> Sample:
    """Returns the mean times of the calls of one burst; the first call is not counted."""
    call()
    calls, clock, cpu = 0, time.perf_counter(), time.process_time()
    while True:
        call()
        calls += 1
        elapsed = time.perf_counter() - clock
        if elapsed >= BURST:
            return Sample(elapsed / calls, (time.process_time() - cpu) / calls)


class System:
    """A child process with the programs that `prepare(*args)` returns there; it runs only during
    `run`. A failure is a RuntimeError with the last line of its traceback."""

    def __init__(self, prepare: Callable[..., Mapping[Hashable, Program]], *args: Any) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, pipe = context.Pipe()
        self._process = context.Process(target=_serve, args=(pipe, prepare, *args), daemon=True)
        self._process.start()
        pipe.close()
        self._received()

    def run(self, key: Hashable) -> Any:
        """Returns the result of a program."""
        self._signal(signal.SIGCONT)
        self._pipe.send(key)
        return self._received()

    def close(self) -> None:
        """Ends the process."""
        if self._process.is_alive():
            self._signal(signal.SIGCONT)
        self._pipe.close()
        self._process.join()

    def _received(self) -> Any:
        try:
            result, message = self._pipe.recv()
        except EOFError:
            self._process.join()
            raise RuntimeError(f"the process ended with {self._process.exitcode}") from None
        if message:
            self.close()
            raise RuntimeError(message)
        self._signal(signal.SIGSTOP)
        return result

    def _signal(self, number: int) -> None:
        if self._process.pid is not None:
            os.kill(self._process.pid, number)


def _serve(pipe: Any, prepare: Callable[..., Mapping[Hashable, Program]], *args: Any) -> None:
    os.dup2(2, 1)  # the table is the only output of the parent
    try:
        programs = prepare(*args)
        pipe.send((None, ""))
        while True:
            pipe.send((programs[pipe.recv()](), ""))
    except EOFError:
        return
    except Exception:  # any failure of a peer is reported by the parent
        pipe.send((None, traceback.format_exc().strip().splitlines()[-1]))


def samples_in_turns(
    systems: Mapping[str, System], key: Hashable, rounds: int
) -> dict[str, list[Any]]:
    """Returns the results of a program in each system: one per round, in alternating order."""
    samples = dict[str, list[Any]]()
    for number in range(rounds):
        for name in list(systems)[:: 1 if number % 2 else -1]:
            samples.setdefault(name, []).append(systems[name].run(key))
    return {name: samples[name] for name in systems}


def least(samples: list[Sample]) -> Sample:
    """Returns the shortest times."""
    return Sample(min(s.clock for s in samples), min(s.cpu for s in samples))


def median(samples: list[Sample]) -> Sample:
    """Returns the median times."""
    return Sample(*(statistics.median(times) for times in zip(*samples, strict=True)))


def conditions(threads: int) -> str:
    """Returns the processor, its cores, the threads of each system, and the load."""
    count = f"{threads} threads" if threads else "default threads"
    count = "one thread" if threads == 1 else count
    load = os.getloadavg()[0]
    return f"{processor()}, {os.cpu_count()} cores, {count} per system, load {load:.1f}"
