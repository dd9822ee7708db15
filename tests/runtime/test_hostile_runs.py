"""What an executable meets outside the usual: interrupts, memory that ends, processes, many
calls, arrays longer than 32 bits count."""

import copy
import os
import pickle
import resource
import subprocess
import sys
import threading
from functools import partial

import numpy as np
import pytest

import structir
from structir.errors import OutOfMemoryError, ShapeMismatchError, StructIRError

TEXT = """
from structir.script import I, R, T

@I.ir_module
class Module:
    @R.function
    def square(x: R.Tensor(("n",), "float32"), s: R.Shape(["m"])):
        n = T.int64()
        m = T.int64()
        return R.broadcast_to(R.sum(x), (m, m))

    @R.function
    def inside(x: R.Tensor(("n",), "float32"), s: R.Shape(["m"])):
        n = T.int64()
        m = T.int64()
        y = R.cumsum(R.cumsum(R.broadcast_to(R.sum(x), (m, m)), axis=0), axis=1)
        return R.sum(y)

    @R.function
    def twice(x: R.Tensor(("n",), "float32")):
        return R.add(x, x)

    @R.function
    def pick(x: R.Tensor(("n",), "int8"), i: R.Tensor(("k",), "int64")):
        n = T.int64()
        k = T.int64()
        return (R.take(x, i, axis=0), R.max(x))
"""
X = np.ones(3, np.float32)


@pytest.fixture(scope="module")
def module():
    return structir.parse(TEXT)


@pytest.fixture(scope="module")
def executable(module):
    return structir.compile(module)


@pytest.mark.parametrize("size", [10**6, 2**40, 2**62])
@pytest.mark.parametrize("name", ["square", "inside"])
def test_out_of_memory_is_reported_and_the_next_call_works(module, executable, name, size):
    for function in (executable[name], lambda *a: structir.interpret(module, name, *a)):
        with pytest.raises(
            OutOfMemoryError, match=f"{name}: out of memory for values of these sizes"
        ):
            function(X, (size,))
        assert np.all(function(X, (1,)) == 3)


@pytest.mark.parametrize("size", [-1, 2**63, 2.5, "many"])
def test_invalid_sizes(executable, size):
    with pytest.raises(ShapeMismatchError, match="square: parameter s"):
        executable["square"](X, (size,))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ([1, "a"], r"R.Tensor\(\(n,\)"),
        ([[1], [2, 3]], r"R.Tensor\(\(n,\)"),
        ([10**400], "numbers of dtype float32, finite"),
    ],
)
def test_lists_that_make_no_array(executable, value, expected):
    with pytest.raises(StructIRError, match=f"square: parameter x: expected {expected}"):
        executable["square"](value, (1,))


def test_neither_programs_nor_executables_are_pickled(module, executable):
    words = (module, "structir.save"), (executable, "structir.load")
    for value, message in (*words, (executable["square"], r"structir\.(save|load)")):
        with pytest.raises(TypeError, match=message):
            pickle.dumps(value)
    assert copy.deepcopy(module) is module
    assert copy.copy(module) is module


def test_a_native_function_is_not_pickled(module):
    native = structir.compile(module)["square"]
    with pytest.raises(TypeError, match=r"structir\.(save|load)"):
        pickle.dumps(native)


def test_more_elements_than_32_bits_count(executable):
    x = np.zeros(2**31 + 9, np.int8)  # pages that nothing is written to take no memory
    x[-1], x[2**31] = 5, 3
    taken, greatest = executable["pick"](x, np.array([2**31 + 8, 2**31, 0, 2**31 - 1]))
    assert taken.tolist() == [5, 3, 0, 0]
    assert greatest == 5


def test_many_calls_take_no_memory(executable):
    square, shape = executable["square"], (2,)
    for _ in range(10_000):
        square(X, shape)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(20_000):
        square(X, shape)
    twice = executable["twice"]
    for _ in range(1_000_000):
        twice(X)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 4096  # KiB


class Willing:
    def __array__(self, *_args, **_options):
        raise RuntimeError("mine")


class Liar:
    __array_interface__ = {"shape": (3,), "typestr": "<f4", "data": (0, False), "version": 3}  # noqa: RUF012


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (np.zeros(3, [("a", "f4")]), "found void32"),
        (np.zeros(3, "M8[s]"), "found datetime64"),
        (np.zeros(3, "c8"), "found complex64"),
        (np.array(["a"]), "found str32"),
        (np.zeros(3, object), "found object"),
        (3.0, "expected 1 axes, found 0"),
        ({"a": 1}, "found dict"),
        (Willing(), "expected a tensor, found Willing"),
        (Liar(), "expected a tensor, found Liar"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_invalid_arrays(executable, module, value, found):
    for function in (
        executable["square"],
        lambda *args: structir.interpret(module, "square", *args),
    ):
        with pytest.raises(ShapeMismatchError, match=found):
            function(value, (1,))


@pytest.mark.parametrize("way", ["read-only", "repeated", "swapped", "none"])
def test_inputs_that_are_unusual(executable, module, way):
    x = {
        "read-only": np.frombuffer(np.ones(3, np.float32).tobytes(), np.float32),
        "repeated": np.broadcast_to(np.float32(1), (3,)),
        "swapped": np.ones(3, ">f4"),
        "none": np.ones(0, np.float32),
    }[way]
    for found in (executable["square"](x, (2,)), structir.interpret(module, "square", x, (2,))):
        np.testing.assert_array_equal(found, np.full((2, 2), len(x), np.float32))


def test_nan_is_propagated(executable):
    x = np.array([1, np.nan, np.inf], np.float32)
    assert np.isnan(executable["square"](x, (1,))).all()
    assert executable["square"](x[::2], (1,)) == np.inf
    assert executable["square"](-x[::2], (0,)).shape == (0, 0)


def test_threads_that_compile_at_once():
    wrong = []

    def work(k):
        scale = k % 2 + 1.0
        text = f"""@R.function
def main(x: R.Tensor(("n",), "float32")):
    return R.exp(x * {scale})
"""
        for _ in range(3):
            if not np.allclose(structir.compile(structir.parse(text))["main"](X), np.exp(scale)):
                wrong.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


INTERRUPTED = """
import os, signal, threading
import numpy as np, structir
signal.signal(signal.SIGINT, signal.default_int_handler)  # it is ignored in the background
import structir.runtime.executable, numba.core.codegen  # an import that is broken off stays broken
lines = [f"    x{k + 1} = R.tanh(R.add(R.cumsum(x{k}, axis={k % 2}), R.const({k}.0, 'float32')))"
         for k in range(30)]
module = structir.parse("\\n".join([
    "@R.function", 'def main(x0: R.Tensor(("n", "m"), "float32")):', *lines, "    return x30"]))
x = np.ones((4, 5), np.float32)

def interrupted(work, after):
    def press():  # once more where Python drops it: it does within callbacks of weak references
        wait = after
        while not ended.wait(wait):
            os.kill(os.getpid(), signal.SIGINT)
            wait = 3

    ended = threading.Event()
    threading.Thread(target=press).start()
    try:
        while True:
            work()
    except KeyboardInterrupt:
        ended.set()
        print("interrupted")

structir.compile(structir.parse('@R.function\\ndef f(x: R.Tensor((), "float32")):\\n    return x'))
interrupted(lambda: structir.compile(module), 0.3)
main = structir.compile(module)["main"]
np.testing.assert_allclose(main(x), structir.interpret(module, "main", x), rtol=1e-4)
large = np.ones((2000, 500), np.float32)
interrupted(lambda: main(large), 0.1)
np.testing.assert_allclose(main(x), structir.interpret(module, "main", x), rtol=1e-4)
print("well")
"""


@pytest.mark.exhaustive
def test_interrupts_while_compiling_and_running_leave_all_well():
    done = _run(INTERRUPTED, {"STRUCTIR_CACHE": "off"})
    assert done.stdout.split() == ["interrupted", "interrupted", "well"], done.stderr


SPAWNED = """
import multiprocessing, sys
import numpy as np, structir

def work(size):
    return float(structir.load(sys.argv[1])["square"](np.ones(3, np.float32), (size,)).sum())

if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        print(pool.map(work, [1, 2, 3]))
"""


def test_spawned_processes_load_a_saved_executable(executable, tmp_path):
    program, script = tmp_path / "program.sirx", tmp_path / "script.py"
    executable.save(program)
    script.write_text(SPAWNED)
    done = subprocess.run(
        [sys.executable, script, program], capture_output=True, text=True, timeout=300
    )
    assert done.stdout == "[3.0, 12.0, 27.0]\n", done.stderr


def _run(text, environment):
    return subprocess.run(
        [sys.executable, "-c", text],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, **environment},
    )


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1, 10**40])
def test_numbers_beyond_their_dtype(number):
    module = structir.parse("""
@R.function
def main(x: R.Tensor(("n",), "float32"), k: R.Prim("int64")):
    return R.exp(x)
""")
    for function in (structir.compile(module)["main"], partial(structir.interpret, module, "main")):
        with pytest.raises(
            ShapeMismatchError, match="parameter k: expected a number of dtype int64"
        ):
            function(np.zeros(2, "float32"), number)
