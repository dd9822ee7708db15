"""Interrupts while machine code is made."""

import importlib
import os
import signal
import sys
import threading
import time
import weakref
from collections.abc import Iterator

import pytest

import structir
from structir.backend.cpu.interrupts import interrupts_kept, interrupts_wait


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


def interrupted_where_python_drops_it() -> None:
    class Referent:
        pass

    referent = Referent()
    reference = weakref.ref(referent, lambda _: signal.raise_signal(signal.SIGINT))
    del referent
    assert reference() is None
    time.sleep(20)


def test_an_interrupt_within_a_callback_is_raised_after_it() -> None:
    hook = sys.unraisablehook
    with pytest.raises(KeyboardInterrupt), interrupts_kept():
        interrupted_where_python_drops_it()
    assert sys.unraisablehook is hook


compiling = importlib.import_module(
    "structir.backend.compile"
)  # the package has a function of this name


def test_compiling_keeps_interrupts(monkeypatch: pytest.MonkeyPatch) -> None:
    module = structir.parse("@R.function\ndef main(x: R.Tensor((3,), 'float32')):\n    return x\n")
    monkeypatch.setattr(
        compiling, "check_well_formed", lambda _: interrupted_where_python_drops_it()
    )
    with pytest.raises(KeyboardInterrupt):
        structir.compile(module)
