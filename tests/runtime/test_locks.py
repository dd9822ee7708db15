"""Locks in forked processes."""

import os
import signal
import threading
import warnings

import pytest

from structir.system.locks import new_lock, new_rlock


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.parametrize("make", [new_lock, new_rlock])
def test_a_child_process_inherits_no_locked_lock(make):
    lock, is_locked, is_over = make(), threading.Event(), threading.Event()

    def hold():
        with lock:
            is_locked.set()
            is_over.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    is_locked.wait()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        child = os.fork()
    if child == 0:
        signal.alarm(20)
        os._exit(0 if lock.acquire(timeout=10) else 1)
    is_over.set()
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
