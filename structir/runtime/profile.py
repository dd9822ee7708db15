"""Profiles calls, kernel by kernel."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import attrs

from structir.ir import dims
from structir.ir.node import ShownAsText
from structir.lazy import lazy_module
from structir.loops.program.kernel_text import KernelText
from structir.runtime.plans.plan import BoundPlan, recording, run_space
from structir.runtime.plans.workspace import Workspace
from structir.runtime.source import origins
from structir.runtime.tables import html_of, text_of
from structir.targets.cpu.layouts import ROW, SPACE

rich_table = lazy_module("rich.table")
statistics = lazy_module("statistics")


@attrs.frozen
class KernelTime:
    """The time of one kernel in one call: the median over the measured calls."""

    origins: tuple[str, ...]  # the ops that it computes, with source locations
    runs: int
    seconds: float
    operations: int  # additions, products, functions, as written in the program
    bytes: int  # size of its operands and results
    text: KernelText | None = None

    @property
    def gigaflops(self) -> float:
        """Billions of operations per second."""
        return self.operations / max(self.seconds, 1e-12) / 1e9

    @property
    def gigabytes(self) -> float:
        """Billions of bytes per second."""
        return self.bytes / max(self.seconds, 1e-12) / 1e9


@attrs.frozen(repr=False)
class Profile(ShownAsText):
    """The kernels of a call in order of their first run, and the time of whole calls."""

    kernels: tuple[KernelTime, ...]
    seconds: float  # duration of a whole call without instrumentation
    left: tuple[str, ...] = ()  # parts that ran on the host, with reasons

    def data(self) -> dict[str, Any]:
        """Returns the profile as plain data."""
        kernels = [
            {
                "ops": list(origins(kernel.origins)),
                "runs": kernel.runs,
                "seconds": kernel.seconds,
                "gigaflops": kernel.gigaflops,
                "gigabytes": kernel.gigabytes,
            }
            for kernel in self.kernels
        ]
        return {"seconds": self.seconds, "kernels": kernels, "fallbacks": list(self.left)}

    def table(self) -> Any:
        """Returns the profile as a table for a terminal."""
        notes = [f"fallback: {escape_markup(reason)}" for reason in self.left]
        table = rich_table.Table(
            box=None, header_style="bold", caption="\n".join(notes) or None, caption_justify="left"
        )
        table.add_column("kernel")
        for name in ("runs", "time", "share", "GFLOP/s", "GB/s"):
            table.add_column(name, justify="right")
        total = sum(k.seconds for k in self.kernels) or 1.0
        for kernel in self.kernels:
            share = f"{kernel.seconds / total:.1%}"
            rates = f"{kernel.gigaflops:.1f}", f"{kernel.gigabytes:.1f}"
            ops = escape_markup("\n".join(origins(kernel.origins)))
            table.add_row(ops, str(kernel.runs), microseconds(kernel.seconds), share, *rates)
        table.add_row("whole call", "", microseconds(self.seconds), "", "", "", style="bold")
        return table

    def __str__(self) -> str:
        return text_of([self.table()], 140) + "\n"

    def _repr_html_(self) -> str:
        """Returns the HTML that a notebook displays."""
        return html_of([self.table()])


def escape_markup(text: str) -> str:
    """Escapes terminal markup."""
    return text.replace("[", r"\[")


def microseconds(seconds: float) -> str:
    """Formats a time in microseconds."""
    return f"{seconds * 1e6:,.1f} us"


class ProfileRecorder:
    """Runs plans kernel by kernel, and measures each kernel."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self.seconds: dict[tuple[BoundPlan, int], list[float]] = {}
        self.rounds: list[dict[tuple[BoundPlan, int], list[float]]] = []

    def start_round(self) -> None:
        """Begins another call of the same function."""
        self.seconds = {}
        self.rounds.append(self.seconds)

    def run(self, bound: BoundPlan, space: Workspace) -> int:
        """Runs all kernels; returns 0, or 1 + the row of a kernel that failed."""
        run, words = run_space(), space.words.copy()
        words[SPACE.row_count] = 1
        for row, index in enumerate(space.running):
            start = self.clock()
            failed = run(words.ctypes.data)
            elapsed = self.clock() - start
            if failed:
                return row + 1
            self.seconds.setdefault((bound, index), []).append(elapsed)
            words[SPACE.rows] += 8 * len(ROW)
        return 0

    def kernels(self) -> tuple[KernelTime, ...]:
        """Returns the kernels of the last round."""
        return tuple([self._kernel(*key) for key in self.seconds])

    def _kernel(self, bound: BoundPlan, index: int) -> KernelTime:
        rounds = [r[bound, index] for r in self.rounds if (bound, index) in r]
        text, runs = bound.plan.texts[index], len(rounds[-1])
        touched = dict.fromkeys(b for b in text.pointers if b not in text.scratch)
        return KernelTime(
            text.origins,
            runs,
            statistics.median(map(sum, rounds)),
            runs * dims.evaluate(bound.plan.recipe.operations[index], bound.sizes),
            runs * sum(bound.bytes_of(buffer) for buffer in touched),
            text,
        )


def profile_calls(
    call: Callable[[], Any], repeat: int, clock: Callable[[], float] = time.perf_counter
) -> Profile:
    """Profiles calls: first without instrumentation, then kernel by kernel."""
    call()
    times = []
    for _ in range(repeat):
        start = clock()
        call()
        times.append(clock() - start)
    recorder = ProfileRecorder(clock)
    token = recording.set(recorder.run)
    try:
        for _ in range(repeat):
            recorder.start_round()
            call()
    finally:
        recording.reset(token)
    return Profile(recorder.kernels(), statistics.median(times))
