"""Locks and cached properties in forked processes."""

import os
import signal
import threading
import warnings

import pytest

from structir.system.locks import cached_property, new_lock, new_rlock


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
    status = status_of_child(lambda: lock.acquire(timeout=10))
    is_over.set()
    thread.join()
    assert status == 0


class Shared:
    """A property that waits while another thread than the main one computes it."""

    def __init__(self):
        self.started, self.goes_on = threading.Event(), threading.Event()
        self.computed = 0

    @cached_property
    def value(self):
        self.computed += 1
        if threading.current_thread() is not threading.main_thread():
            self.started.set()
            self.goes_on.wait()
        return [self.computed]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_child_process_computes_what_another_thread_of_its_parent_was_computing():
    shared = Shared()
    thread = threading.Thread(target=lambda: shared.value)
    thread.start()
    shared.started.wait()
    status = status_of_child(lambda: shared.value == [2])
    shared.goes_on.set()
    thread.join()
    assert status == 0


def test_threads_share_the_first_value_that_is_stored():
    shared, values = Shared(), []
    thread = threading.Thread(target=lambda: values.append(shared.value))
    thread.start()
    shared.started.wait()
    first = shared.value
    shared.goes_on.set()
    thread.join()
    assert shared.computed == 2
    assert values[0] is shared.value is first


def status_of_child(work):
    """The exit code of a forked process that works, or the negative number of the signal."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        child = os.fork()
    if child == 0:
        signal.alarm(20)
        os._exit(0 if work() else 1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
