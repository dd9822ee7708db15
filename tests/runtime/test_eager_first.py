"""`eager_first`: calls on the interpreter until a thread has compiled the module."""

import subprocess
import sys
import threading
import traceback
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest

import structir
from structir.errors import ShapeMismatchError, StructIRError
from structir.runtime.eager import EagerExecutable
from structir.runtime.executable import Executable

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


OTHER_SIZE = np.ones((7, 4), np.float32)
STATE = """
@R.function
def main(x: R.Tensor((4,), "float32"), total: R.Tensor((4,), "float32")):
    R.func_attr({"state": {"total": ("total", 1)}})
    new = R.add(total, x)
    return R.sum(new), new
"""
DONATED = """
@R.function
def main(x: R.Tensor((4,), "float32"), k: R.Tensor((4,), "float32")):
    R.func_attr({"donated": {"k": 0}})
    return R.add(x, k)
"""
OUT_PARAMETER = """
@R.function
def main(x: R.Tensor((4,), "float32"), out: R.Tensor((4,), "float32")):
    return R.add(x, out)
"""
AT_EXIT = """
import threading
import numpy as np
import structir
{start}
module = structir.parse('''{program}''')
executable = structir.compile(module, eager_first=True)

def late():
    function = executable.wait()["main"]
    print(function(np.ones((3, 4), np.float32), np.eye(4, dtype=np.float32)).sum())

{end}
"""


def held_program(program):
    """Returns an executable of a program that compiles after an event, and the event."""
    module, event = structir.parse(program), threading.Event()

    def make():
        event.wait()
        return Executable(module, 1)

    return EagerExecutable(module, make), event


def test_another_size_before_and_after_compilation(held):
    executable, event = held
    function = executable["main"]
    for _ in range(2):
        np.testing.assert_allclose(function(OTHER_SIZE, W), np.maximum(OTHER_SIZE @ W, 0))
        np.testing.assert_allclose(function(X, W), EXPECTED)
        event.set()
        executable.wait()


def test_threads_call_at_different_sizes_during_compilation(held):
    executable, event = held
    inputs = [np.full((1 + k % 9, 4), k, np.float32) for k in range(200)]

    def call(k):
        if k == 100:
            event.set()
        return executable["main"](inputs[k], W)

    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(call, range(len(inputs))))
    for x, result in zip(inputs, results, strict=True):
        np.testing.assert_allclose(result, np.maximum(x @ W, 0))


@pytest.mark.parametrize("order", ["before", "between", "after"])
def test_state_is_kept_across_the_end_of_compilation(order):
    executable, event = held_program(STATE)
    if order == "before":
        event.set()
        executable.wait()
    state = executable.state
    state.buffers["total"] = np.zeros(4, np.float32)
    x = np.arange(4, dtype=np.float32)
    for step in range(1, 5):
        assert float(state["main"](x)) == 6 * step
        if order == "between" and step == 2:
            event.set()
            executable.wait()
    np.testing.assert_array_equal(state.buffers["total"], 4 * x)
    assert executable.state is state
    event.set()


def test_donated_arguments_are_checked_before_compilation():
    executable, event = held_program(DONATED)
    fixed = np.ones(4, np.float32)
    fixed.flags.writeable = False
    messages = []
    for _ in range(2):
        with pytest.raises(ShapeMismatchError, match="found a read-only array") as error:
            executable["main"](np.ones(4, np.float32), fixed)
        messages.append(str(error.value))
        event.set()
        executable.wait()
    assert messages[0] == messages[1]


def test_a_parameter_named_out_and_no_array_for_the_result_do_not_wait(held):
    executable, _ = held
    np.testing.assert_allclose(executable["main"](X, W, out=None), EXPECTED)
    executable, event = held_program(OUT_PARAMETER)
    ones = np.ones(4, np.float32)
    np.testing.assert_array_equal(executable["main"](ones, out=ones), 2 * ones)
    assert not executable.is_compiled
    event.set()


def test_the_traceback_of_an_error_of_compilation_does_not_grow(module):
    def fail():
        raise StructIRError("no kernel")

    executable, depths = EagerExecutable(module, fail), []
    for _ in range(3):
        with pytest.raises(StructIRError, match="no kernel") as error:
            executable.wait()
        depths.append(len(traceback.extract_tb(error.value.__traceback__)))
    assert len(set(depths)) == 1


@pytest.mark.parametrize(
    ("start", "end"),
    [
        ("", "threading.Thread(target=late).start()"),
        ("import atexit", "atexit.register(late)"),
    ],
)
def test_compilation_ends_after_the_end_of_the_main_thread(start, end, tmp_path, monkeypatch):
    monkeypatch.setenv("STRUCTIR_CACHE", str(tmp_path))
    script = AT_EXIT.format(start=start, end=end, program=PROGRAM)
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (run.stdout, run.returncode) == ("12.0\n", 0), run.stderr
