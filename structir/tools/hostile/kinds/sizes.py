"""20,000 calls whose sizes change from call to call: all calls of a process together take less than
5 MB of further memory."""

from __future__ import annotations

import gc
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import attrs
import numpy as np

from structir.lazy import lazy_module
from structir.tools.comparison import Disagreement

structir = lazy_module("structir")

TEST_SEEDS = 1
CALLS = 20_000  # of one case
WARM_UP = 2_000
LARGEST = 4000  # elements of an argument
MAX_GROWTH = 5 << 20  # bytes
PAGE = 4096
BODIES = (
    "R.exp(x) + R.sum(x)",
    "R.cumsum(R.concat([x, x], axis=0), axis=0)",
    "R.nn.softmax(R.expand_dims(x, 0) * R.expand_dims(x, 0))",
    "(R.max(x), R.flip(x, 0), R.astype(x, 'int32'))",
)


@attrs.frozen
class SizedCalls:
    """A body, and the seed of the sizes."""

    body: str
    seed: int


def sample(random: Random) -> SizedCalls:
    """Chooses a body."""
    return SizedCalls(random.choice(BODIES), random.randrange(1 << 31))


@cache
def _main(body: str) -> Any:
    text = f"@R.function\ndef main(x: R.Tensor(('n',), 'float32')):\n    return {body}\n"
    return structir.compile(structir.parse(text))["main"]


@cache
def _memory_at_start() -> int:
    """Returns the memory after a warm-up with every body."""
    for body in BODIES:
        _call(SizedCalls(body, 0), WARM_UP)
    return resident()


def resident() -> int:
    """Returns the bytes of memory that the process uses."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE


def _call(case: SizedCalls, calls: int) -> None:
    main, random = _main(case.body), Random(case.seed)
    x = np.zeros(LARGEST, np.float32)
    for _ in range(calls):
        main(x[: random.randint(1, LARGEST)])


def check(case: SizedCalls) -> None:
    """Calls with random sizes, and compares the memory with that after the first calls."""
    before = _memory_at_start()
    _call(case, CALLS)
    growth = resident() - before
    if growth > MAX_GROWTH:
        raise Disagreement(f"memory grew by {growth} bytes")
