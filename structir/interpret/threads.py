"""Runs GPU kernels thread by thread, each up to its next synchronization."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import attrs
import numpy as np

from structir.errors import Diagnostic, DiagnosticError
from structir.ir.kernel import WARP, Apply, Kernel, Sync, nodes_of
from structir.ir.kernel_functions import OF_LANES

Run = Callable[["Thread"], None]
SHUFFLES = {row.name for row in OF_LANES}
SOURCE_LANES: dict[str, Callable[[int, int], int]] = {
    "xor": lambda this, lane: this ^ lane,
    "up": lambda this, lane: this - lane,
    "down": lambda this, lane: this + lane,
    "from": lambda this, lane: lane,
}
STACK = 1 << 19  # bytes, of an OS thread


class ThreadCancelled(Exception):
    """The cancellation of a thread after another one failed."""


@attrs.define(eq=False)
class ThreadBlock:
    """The threads of a block. One runs at a time."""

    kernel: Kernel
    threads: int
    blocks: int
    block: int
    arrays: dict[Any, Any] = attrs.Factory(dict)
    values: dict[int, Any] = attrs.Factory(dict)  # that lanes exchange
    paused: threading.Semaphore = attrs.Factory(lambda: threading.Semaphore(0))
    failure: BaseException | None = None


@attrs.define(eq=False)
class Thread:
    """The state of one GPU thread, which statements of a kernel access."""

    thread: int
    team: ThreadBlock
    turn: threading.Semaphore = attrs.Factory(lambda: threading.Semaphore(0))
    barrier: Any = None
    ended: bool = False

    @property
    def threads(self) -> int:
        """The number of threads in the block."""
        return self.team.threads

    @property
    def block(self) -> int:
        """The index of the block."""
        return self.team.block

    @property
    def blocks(self) -> int:
        """The number of blocks."""
        return self.team.blocks

    def shared(self, array: Any, shape: tuple[int, ...], dtype: Any) -> Any:
        """Returns a shared array of the block, filled with a poison value at first."""
        if array not in self.team.arrays:
            poison = np.nan if dtype.kind == "f" else 0xAB if dtype.kind in "iu" else True
            self.team.arrays[array] = np.full(shape, poison).astype(dtype)
        return self.team.arrays[array]

    def wait(self, barrier: Any) -> None:
        """Waits until all threads of the block reach this synchronization."""
        self.barrier = barrier
        self.team.paused.release()
        self.turn.acquire()
        if self.team.failure is not None:
            raise ThreadCancelled

    def shuffled(self, name: str, value: Any, lane: int) -> Any:
        """Returns the value of another lane of the warp; its own value if there is no such lane."""
        self.team.values[self.thread] = value
        self.wait(name)
        this = self.thread % WARP
        source = SOURCE_LANES[name](this, lane)
        result = self.team.values[self.thread - this + source] if 0 <= source < WARP else value
        self.wait(name)
        return result


def run_blocks(kernel: Kernel, blocks: int, run: Run) -> None:
    """Runs every thread of every block, one block after another."""
    meet = any(
        isinstance(n, Sync) or (isinstance(n, Apply) and n.fn in SHUFFLES) for n in nodes_of(kernel)
    )
    for block in range(blocks):
        team = ThreadBlock(kernel, kernel.threads, blocks, block)
        threads = [Thread(number, team) for number in range(kernel.threads)]
        if meet:
            _round_robin(team, threads, run)
        else:
            for thread in threads:
                run(thread)


def _round_robin(team: ThreadBlock, threads: list[Thread], run: Run) -> None:
    def work(thread: Thread) -> None:
        thread.turn.acquire()
        try:
            if team.failure is None:
                run(thread)
        except ThreadCancelled:
            pass
        except BaseException as error:  # `_round_robin` raises it in the calling thread
            team.failure = error
        finally:
            thread.ended = True
            team.paused.release()

    before = threading.stack_size(STACK)
    running = [threading.Thread(target=work, args=(thread,), daemon=True) for thread in threads]
    for worker in running:
        worker.start()
    threading.stack_size(before)
    while any(not thread.ended for thread in threads):
        for thread in threads:
            if not thread.ended:
                thread.turn.release()
                team.paused.acquire()
        barriers = {None if thread.ended else thread.barrier for thread in threads}
        if len(barriers) > 1 and team.failure is None:
            team.failure = _divergence_error(team.kernel)
    for worker in running:
        worker.join()
    if team.failure is not None:
        raise team.failure


def _divergence_error(kernel: Kernel) -> DiagnosticError:
    """Returns the error of a synchronization that not every thread reaches."""
    met = [n for n in nodes_of(kernel) if isinstance(n, Sync)]
    message = "not every thread of a block reaches this synchronization"
    hint = (
        "move `T.sync_threads()` and `T.shuffle_...` out of the branch; guard only the statements"
    )
    span = (met[0] if met else kernel).span  # the first synchronization: any may be at fault
    return DiagnosticError(Diagnostic(message, span, kernel.name, hint=f"{hint} around them"))
