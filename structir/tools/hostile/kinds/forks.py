"""A fork while threads call compiled code: the child and the parent return the same results, and
neither hangs."""

from __future__ import annotations

import os
import signal
import threading
import time
import warnings
from functools import cache
from random import Random
from typing import Any

import attrs
import numpy as np

from structir.lazy import lazy_module
from structir.runtime.plans import plan
from structir.tools.comparison import Disagreement

structir = lazy_module("structir")

TEST_SEEDS = 3
CHILD_SECONDS = 60  # then an alarm ends a child that hangs
TEXT = """
@R.function
def main(x: R.Tensor(("n", "k"), "float32"), w: R.Tensor(("k", "m"), "float32")):
    h = R.nn.gelu(R.matmul(x, w))
    return R.nn.softmax(h) + R.sum(h, axis=0)
"""


@attrs.frozen
class ForkCase:
    """The threads that call, the threads of a call, and the time until the fork."""

    callers: int
    threads: int
    delay: float
    sizes: tuple[int, int, int]


def sample(random: Random) -> ForkCase:
    """Generates a case."""
    sizes = random.randint(1, 90), random.randint(1, 40), random.randint(1, 40)
    return ForkCase(random.randint(1, 4), random.randint(1, 3), random.uniform(0, 0.02), sizes)


@cache
def _main(threads: int) -> Any:
    plan.MIN_SHARED_NANOSECONDS = 0  # threads share short loops, too
    return structir.compile(structir.parse(TEXT), num_threads=threads)["main"]


def check(case: ForkCase) -> None:
    """Forks while threads call; the child calls and starts threads of its own."""
    main = _main(case.threads)
    n, k, m = case.sizes
    numbers = np.random.default_rng(0)
    x, w = numbers.standard_normal((n, k), np.float32), numbers.standard_normal((k, m), np.float32)
    expected = main(x, w).copy()
    stop = threading.Event()
    threads = [threading.Thread(target=_call, args=(main, x, w, stop)) for _ in range(case.callers)]
    for thread in threads:
        thread.start()
    time.sleep(case.delay)
    status = _status_of_child(lambda: all(np.allclose(main(x, w), expected) for _ in range(3)))
    stop.set()
    for thread in threads:
        thread.join()
    if status != 0:
        raise Disagreement(f"the child process ended with {status}")
    np.testing.assert_allclose(main(x, w), expected)


def _call(main: Any, x: Any, w: Any, stop: threading.Event) -> None:
    while not stop.is_set():
        main(x, w)


def _status_of_child(work: Any) -> int:
    """Returns the exit code of a forked process, or the negative number of the signal."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python advises against forks of threaded processes
        child = os.fork()
    if child == 0:
        signal.alarm(CHILD_SECONDS)
        try:
            os._exit(0 if work() else 1)
        finally:
            os._exit(2)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
