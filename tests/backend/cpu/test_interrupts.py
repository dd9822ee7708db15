"""Interrupts while machine code is made."""

import os
import signal
import threading
from collections.abc import Iterator

import pytest

from structir.backend.cpu.interrupts import interrupts_wait


@pytest.fixture(autouse=True)
def interrupts_are_heard() -> Iterator[None]:
    """Also where the tests were started in the background of a shell, which has them ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_an_interrupt_comes_when_the_work_is_done() -> None:
    done = []
    with pytest.raises(KeyboardInterrupt), interrupts_wait():
        os.kill(os.getpid(), signal.SIGINT)
        done.append("work")
    assert done == ["work"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_errors_pass_and_other_threads_are_left_alone() -> None:
    with pytest.raises(ValueError, match="mine"), interrupts_wait():
        raise ValueError("mine")
    seen = []

    def work() -> None:
        with interrupts_wait():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [signal.default_int_handler]
