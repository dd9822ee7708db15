"""Runs functions in turns, some statements of one of them at a time, in random order."""

import threading
from collections.abc import Callable, Sequence
from random import Random


class Interleaving:
    """Functions that call `switch` before each statement, and `meet` at their barriers."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.turns: dict[int, threading.Semaphore] = {}  # of the functions that have not ended
        self.waiting: set[int] = set()  # at a barrier
        self.failures: list[BaseException] = []

    def run(self, functions: Sequence[Callable[[], None]]) -> None:
        """Runs the functions until all have ended; raises the first exception of one."""
        threads = [threading.Thread(target=self._run, args=(each,)) for each in functions]
        started = threading.Barrier(len(threads) + 1)
        self.begin = started.wait
        for thread in threads:
            thread.start()
        started.wait()
        self._pass_on()
        for thread in threads:
            thread.join()
        if self.failures:
            raise self.failures[0]

    def _run(self, function: Callable[[], None]) -> None:
        own = threading.get_ident()
        self.turns[own] = threading.Semaphore(0)
        self.begin()
        self.turns[own].acquire()
        try:
            if not self.failures:
                function()
        except BaseException as error:  # `run` raises it in the calling thread
            self.failures.append(error)
        del self.turns[own]
        self._pass_on()

    def _pass_on(self) -> None:
        """Lets a random function run that does not wait at a barrier; all pass it together."""
        if self.turns.keys() <= self.waiting:
            self.waiting.clear()
        ready = [number for number in self.turns if number not in self.waiting]
        if ready:
            self.turns[self.rng.choice(ready)].release()

    def switch(self) -> None:
        """May end the turn of the calling function, which then waits for its next one."""
        if self.rng.random() < 0.25:
            self._wait()

    def _wait(self) -> None:
        turn = self.turns[threading.get_ident()]
        self._pass_on()
        turn.acquire()

    def meet(self) -> None:
        """Waits until all functions that have not ended meet."""
        self.waiting.add(threading.get_ident())
        self._wait()
