"""What emitted kernels check, evaluate and share, and how they are cached."""

import os
import subprocess
import sys

import numpy as np
import pytest

import structir
from structir.errors import DiagnosticError
from structir.interpret.kernels import KernelValue, run_kernel
from structir.loops.emit.code import code_of
from structir.loops.emit.short_loops import gains_from_masks
from structir.runtime.kernel_calls import KernelRunner
from structir.system import cache
from structir.targets.cpu import prepared

BOTH = pytest.mark.parametrize("run", [run_kernel, KernelRunner()], ids=["interpreted", "compiled"])


def kernel(body: str, shape: str = '("n",)'):
    return structir.parse(f"""
@I.kernel
def f(x: R.Tensor({shape}, "float32"), k_: R.Prim("int64", value="k"),
      out: R.Tensor({shape}, "float32")):
    {body}
""")["f"]


def results(body: str, run, k: int = 0, n: int = 6):
    x, out = np.arange(1, n + 1, dtype="float32"), np.empty(n, "float32")
    KernelValue(kernel(body), run)(x, k, out)
    return out.tolist()


@BOTH
@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("x[i - k] if i >= k else 0.0", [0, 0, 1, 2, 3, 4]),
        ("1.0 if i >= k and x[i - k] > 1.0 else 0.0", [0, 0, 0, 1, 1, 1]),
        ("1.0 if i < k or x[i - k] > 2.0 else 0.0", [1, 1, 0, 0, 1, 1]),
        ("2.0 if k > 0 and not (i < k or x[i - k] < 2.0) else 0.0", [0, 0, 0, 2, 2, 2]),
    ],
)
def test_an_operand_without_effect_is_not_evaluated(run, value, expected):
    assert results(f"for i in range(n):\n        out[i] = {value}", run, 2) == expected


@BOTH
@pytest.mark.parametrize(
    ("bounds", "expected"),
    [
        ("k, n, 2", [0, 1, 0, 2, 0, 3]),
        ("n - 1, k - 1, -3", [0, 0, 2, 0, 0, 1]),
        ("n - 1, k, 4", [0, 0, 0, 0, 0, 0]),
        ("k, n - 1, -4", [0, 0, 0, 0, 0, 0]),
        (f"n - 1, {2**63 - 1}, {2**62}", [0, 0, 0, 0, 0, 1]),
    ],
)
def test_loops_in_steps(run, bounds, expected):
    body = f"""count = 0
    for i in range({bounds}):
        count += 1
        if i >= n:
            break
        out[i] = T.float32(count)"""
    assert results(body, run, 1) == expected


@BOTH
def test_the_first_failing_check_is_the_error(run):
    body = "for i in range(n):\n        out[i * 2] = x[i + k]"
    with pytest.raises(DiagnosticError, match="index 6 is out of range for axis 0 of x"):
        results(body, run, 4)
    with pytest.raises(DiagnosticError, match="index 6 is out of range for axis 0 of out"):
        results(body, run, 0)
    with pytest.raises(DiagnosticError, match="index -1 is out of range for axis 0 of x"):
        results(body.replace("i + k", "i - k"), run, 1)


@BOTH
def test_a_check_before_a_loop_accounts_for_overflow(run):
    body = "lo, hi = T.part(n)\n    for i in range(lo, hi):\n        out.flat[i] = x.flat[i * k]"
    assert results(body, run, 1) == [1, 2, 3, 4, 5, 6]
    with pytest.raises(DiagnosticError, match=r"is out of range for x\.flat"):
        results(body, run, 2**62, 5)  # the last index wraps around to 0


@BOTH
def test_an_operand_may_be_the_array_of_the_result(run):
    value, x = (
        KernelValue(kernel("for i in range(n):\n        out[i] = x[n - 1 - i] + 1"), run),
        None,
    )
    x = np.arange(40, dtype="float32")
    expected = x[::-1] + 1
    value(x, 0, x)
    assert np.array_equal(x, expected)
    x = np.arange(41, dtype="float32")
    value(x[1:], 0, x[:-1])
    assert np.array_equal(x[:-1], np.arange(41, 1, -1))


def test_arrays_do_not_alias_and_short_loops_are_masked():
    body = "for i in range(n):\n        for j in range(14):\n            out[i, j] = x[i, j]"
    text = code_of(kernel(body, '("n", 14)')).assembled.text
    assert text.count("ptr noalias") == 3, "x, out and the report"
    assert ("predicate.enable" in text) is gains_from_masks(14)


def test_code_is_hashed_into_the_source():
    body = "for i in range(n):\n        out[i] = T.exp(x[i])"
    one, same, other = kernel(body), kernel(body), kernel(body.replace("exp", "tanh"))
    assert code_of(one).key == code_of(same).key != code_of(other).key
    assert code_of(one).assembled.prepared == ("exp_float32",)


def test_prepared_functions_are_cached_on_disk(tmp_path, monkeypatch):
    monkeypatch.setattr(cache, "store", lambda: cache.CacheStore(tmp_path, 1 << 20))
    monkeypatch.setattr(prepared, "prepared", prepared.prepared.__wrapped__)
    bitcode = prepared.prepared("half_value")
    built = prepared._built
    monkeypatch.setattr(prepared, "_built", lambda name: pytest.fail("built again"))
    assert prepared.prepared("half_value") == bitcode
    monkeypatch.setattr(prepared, "_built", built)
    (entry,) = cache.CacheStore(tmp_path, 1 << 20).files()
    entry.path.write_bytes(entry.path.read_bytes()[:-40])
    assert len(prepared.prepared("half_value")) == len(bitcode), "a damaged entry is built again"


PARSED = """
import sys
import numpy as np
import structir

PROGRAM = '''
@I.kernel
def f(x: R.Tensor(("n", 64), "float32"), out: R.Tensor(("n", 64), "float32")):
    for i in range(n):
        for j in range(64):
            out[i, j] = T.exp(x[i, j]) * 2.0

@R.function
def main(x: R.Tensor(("n", 64), "float32"), w: R.Tensor((64, 64), "float32"),
         image: R.Tensor((2, 8, "h", "h"), "float32"), weights: R.Tensor((8, 8, 3, 3), "float32"),
         rows: R.Tensor(("k", "*"), "float32")):
    n = T.int64()
    a = R.call_kernel(f, (x,), out_sinfo=R.Tensor((n, 64), "float32"))
    b = R.sort(R.nn.softmax(R.matmul(x, w)), descending=True)
    c = R.nn.max_pool2d(R.nn.conv2d(image, weights, padding=1), pool_size=2, strides=2)
    return a, R.permute_dims(b), c, R.nn.softmax(rows, axis=1), R.cumsum(x, axis=0)
'''
parsed, is_recording, rng = [], False, np.random.default_rng(0)


def record(event, args):
    if is_recording and event == "compile":
        parsed.append(args)


def run(text, columns, is_recorded):
    global is_recording
    module = structir.parse(text)
    shapes = [(700, columns), (columns, columns), (2, 8, 12, 12), (8, 8, 3, 3)]
    args = [rng.random(shape, "float32") for shape in shapes]
    args.append(structir.RaggedArray(rng.random(64_000, "float32"), np.arange(101) * 640))
    is_recording = is_recorded
    main = structir.compile(module, num_threads=2)["main"]
    main(*args)
    main(args[0][:500], *args[1:])
    is_recording = False


sys.addaudithook(record)
run(PROGRAM, 64, False)  # builds the functions of the package that kernels use
changed = PROGRAM.replace("2.0", "3.25").replace("descending=True", "descending=False")
run(changed.replace(" 64", " 65").replace("(64", "(65"), 65, True)
print(len(parsed), parsed[:3])
"""


def test_no_text_is_parsed():
    """Neither to compile kernels, of which numba compiles some, nor to estimate their work."""
    environment = {**os.environ, "STRUCTIR_CACHE": "off"}
    command = [sys.executable, "-c", PARSED]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "0 []\n"
