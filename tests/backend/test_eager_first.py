"""`eager_first`: calls on the interpreter until a thread has compiled the module."""

import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest

import structir
from structir.backend.eager import EagerExecutable
from structir.backend.executable import Executable
from structir.errors import ShapeMismatchError, StructIRError

PROGRAM = """
@R.function
def main(x: R.Tensor(("n", 4), "float32"), w: R.Tensor((4, 4), "float32")):
    return R.nn.relu(R.matmul(x, w))
"""
X = np.arange(12, dtype=np.float32).reshape(3, 4)
W = np.eye(4, dtype=np.float32) - np.float32(0.5)
EXPECTED = np.maximum(X @ W, 0)


@pytest.fixture
def module():
    return structir.parse(PROGRAM)


@pytest.fixture
def held(module):
    """An executable whose compilation waits for an event, and the event."""
    event = threading.Event()

    def make():
        event.wait()
        return Executable(module, 1)

    yield EagerExecutable(module, make), event
    event.set()


def test_calls_before_and_after_compilation(held):
    executable, event = held
    function = executable["main"]
    np.testing.assert_allclose(function(X, W), EXPECTED)
    assert not executable.is_compiled
    event.set()
    compiled = executable.wait()
    np.testing.assert_array_equal(function(X, W), compiled["main"](X, W))
    assert executable["main"] is compiled["main"]
    assert executable.kernel_count == compiled.kernel_count


def test_a_call_owns_its_result(held):
    executable, _ = held
    result = executable["main"](X, W)
    assert result.flags.writeable
    assert not np.may_share_memory(result, X)


def test_wait_ends_after_its_timeout(held):
    executable, _ = held
    with pytest.raises(TimeoutError):
        executable.wait(timeout=0.01)


def test_errors_of_arguments_before_compilation(held):
    executable, _ = held
    with pytest.raises(ShapeMismatchError):
        executable["main"](X, W[:2])
    with pytest.raises(Exception, match="missing"):
        executable["missing"]


def test_an_error_of_compilation_is_raised_by_calls(module):
    def fail():
        raise StructIRError("no kernel")

    executable = EagerExecutable(module, fail)
    for use in (executable.wait, lambda: executable["main"], lambda: executable.kernel_count):
        with pytest.raises(StructIRError, match="no kernel"):
            use()


def test_a_function_raises_an_error_of_compilation(module):
    event = threading.Event()

    def fail():
        event.wait()
        raise StructIRError("no kernel")

    executable = EagerExecutable(module, fail)
    function = executable["main"]
    np.testing.assert_allclose(function(X, W), EXPECTED)
    event.set()
    with pytest.raises(StructIRError):
        executable.wait()
    with pytest.raises(StructIRError, match="no kernel"):
        function(X, W)


def test_save_and_out_wait(module, tmp_path):
    executable = structir.compile(module, eager_first=True, num_threads=1)
    assert isinstance(executable, EagerExecutable)
    out = np.empty((3, 4), np.float32)
    assert executable["main"](X, W, out=out) is out
    executable.save(tmp_path / "program")
    loaded = structir.load(tmp_path / "program")
    np.testing.assert_array_equal(loaded["main"](X, W), out)
    assert list(executable) == ["main"]


def test_calls_from_threads(module):
    executable = structir.compile(module, eager_first=True, num_threads=1)
    before = sys.getswitchinterval()
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: executable["main"](X, W), range(40)))
    for result in results:
        np.testing.assert_allclose(result, EXPECTED)
    executable.wait()
    assert sys.getswitchinterval() == before


def test_only_on_the_cpu(module):
    with pytest.raises(StructIRError, match="unknown option 'eager_first'"):
        structir.compile(module, target="cuda", eager_first=True)


def test_options_are_passed_on(module):
    compile_eagerly = partial(structir.compile, module, eager_first=True)
    assert compile_eagerly(exact_division=True).exact_division
    assert compile_eagerly(num_threads=1).num_threads == 1
