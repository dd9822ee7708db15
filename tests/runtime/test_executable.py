"""Executables: valid and invalid arguments, and the error messages."""

import re
import threading
from typing import Any

import numpy as np
import pytest

import structir
from structir.errors import ShapeMismatchError, StructIRError
from structir.script import I, R, T
from structir.targets.cpu.kernels import kernel_count
from structir.targets.cpu.products import has_own_products


@I.ir_module
class Mlp:
    @R.function
    def main(
        x: R.Tensor(("n", 7), "float32"),
        w: R.Tensor((7, 3), "float32"),
        b: R.Tensor((3,), "float32"),
    ):
        with R.dataflow():
            y = R.nn.softmax(R.matmul(x, w) + b)
            R.output(y)
        return y


def floats(*shape):
    return np.random.default_rng(1).standard_normal(shape).astype(np.float32)


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


W, B = floats(7, 3), floats(3)
KERNELS = 1 if has_own_products("float32") else 2  # products by BLAS stay by themselves


@pytest.fixture(scope="module")
def mlp():
    return structir.compile(Mlp)


def test_one_compilation_for_all_sizes(mlp):
    before = kernel_count()
    for n in (0, 1, 2, 40):
        x = floats(n, 7)
        np.testing.assert_allclose(mlp["main"](x, W, B), softmax(x @ W + B), rtol=1e-5, atol=1e-6)
    assert kernel_count() == before
    assert mlp.compile_count == 1


def test_source_is_python_and_names_the_ops(mlp):
    text = mlp.source("main")
    compile(text, "source", "exec")
    assert "R.matmul" in text and "T.exp_nonpositive(" in text and "for r in range(" in text
    assert mlp.kernel_count == text.count("def kernel(") == KERNELS


def test_source_lists_names_and_origins(mlp):
    heads = [" ".join(line.split()) for line in mlp.source().splitlines() if line[:1] == "#"]
    assert "# x0 x float32 (n, 7)" in heads
    assert any(re.fullmatch(r"# out\d result float32 \(n, 3\)", head) for head in heads)
    assert heads.count("# lo, hi a part of 0 to n") == KERNELS
    (parts,) = [head for head in heads if head.startswith("# R.nn.softmax at ")]
    assert parts.endswith(": max, subtract, exp, sum, divide")


def test_equal_kernels_are_written_once():
    @R.function
    def main(x: R.Tensor(("n", "n"), "float32")):
        y = R.matmul(x, x)
        return R.matmul(y, y)

    text = structir.compile(main).source()
    assert text.count("@I.kernel") == 1
    assert text.count("# same source as kernel 1") == 1
    assert "value 1" in text.split("# kernel 2")[1]


def test_source_of_a_function_without_kernels():
    @R.function
    def main(x: R.Tensor(("n",), "float32")):
        return x

    executable = structir.compile(main)
    assert executable.source() == "# main has no kernels: it runs on the host\n"
    assert repr(executable) == "<Executable: functions main; 0 kernels; compile count 1>"


def test_repr_lists_functions_kernels_and_compilations(mlp):
    kernels = "1 kernel" if KERNELS == 1 else "2 kernels"
    assert repr(mlp) == f"<Executable: functions main; {kernels}; compile count 1>"
    html = mlp._repr_html_()
    assert all(p.name in html for p in mlp.module["main"].params)
    assert f" {mlp.kernel_count} " in html


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ((floats(4, 7), W, B[:2]), "main: parameter b: axis 0: expected 3, found 2"),
        ((floats(4, 6), W, B), "main: parameter x: axis 1: expected 7, found 6"),
        ((floats(4, 7), W.astype(np.float64), B), "parameter w: expected dtype float32, found"),
        ((floats(7), W, B), "parameter x: expected 2 axes, found 1"),
    ],
)
@pytest.mark.parametrize("warm", [False, True])
def test_a_wrong_argument_is_named(mlp, args, words, warm):
    if warm:
        mlp["main"](floats(4, 7), W, B)
    with pytest.raises(ShapeMismatchError, match=words):
        mlp["main"](*args)


def test_a_wrong_number_of_arguments(mlp):
    with pytest.raises(StructIRError, match="main: expected 3 arguments, found 2"):
        mlp["main"](floats(4, 7), W)


def test_out_is_filled_and_checked(mlp):
    x, out = floats(5, 7), np.zeros((5, 3), np.float32)
    assert mlp["main"](x, W, B, out=out) is out
    np.testing.assert_allclose(out, softmax(x @ W + B), rtol=1e-5, atol=1e-6)
    with pytest.raises(ShapeMismatchError, match=r"out: expected a writable `np\.empty"):
        mlp["main"](x, W, B, out=np.zeros((4, 3), np.float32))


def test_views_and_read_only_arrays(mlp):
    x = floats(6, 14)[::2, ::2]
    weights = W.copy()
    weights.flags.writeable = False
    wanted = softmax(x @ W + B)
    np.testing.assert_allclose(mlp["main"](x, weights, B), wanted, rtol=1e-5, atol=1e-6)


def test_calls_from_many_threads(mlp):
    inputs = [floats(n, 7) for n in range(1, 9)]
    wrong = []

    def work(x):
        for _ in range(50):
            if not np.allclose(mlp["main"](x, W, B), softmax(x @ W + B), atol=1e-5):
                wrong.append(x.shape)

    threads = [threading.Thread(target=work, args=(x,)) for x in inputs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@I.ir_module
class Control:
    @R.function
    def power(x: R.Tensor(("n",), "float32"), k: R.Tensor((), "int64")) -> R.Tensor(
        ("n",), "float32"
    ):
        cls = Control
        n = T.int64()
        done = R.less_equal(k, R.const(0, "int64"))
        if done:
            y = R.ones_like(x)
        else:
            rest = cls.power(x, R.subtract(k, R.const(1, "int64")))
            y = R.multiply(R.multiply(x, R.const(1.0, "float32")), rest)
        return y

    @R.function
    def main(x: R.Tensor(("n", "m"), "float32")):
        cls = Control
        n = T.int64()
        m = T.int64()
        s = R.sum(x, axis=[1])
        p = cls.power(s, R.const(3, "int64"))
        c = R.match_cast(R.nonzero(p), R.Tensor((1, "k"), "int64"))
        k = T.int64()
        q = R.add(R.astype(c, "float32"), R.const(0.5, "float32"))
        return (p, (q, s))


def test_branches_recursion_and_data_dependent_sizes():
    executable = structir.compile(Control)
    for n in (4, 0, 1):
        x = floats(n, 3)
        p, (q, s) = executable["main"](x)
        np.testing.assert_allclose(s, x.sum(1), rtol=1e-5)
        np.testing.assert_allclose(p, x.sum(1) ** 3, rtol=1e-4)
        np.testing.assert_allclose(q, np.stack(np.nonzero(p)) + 0.5)


def test_recursion_deeper_than_pythons_stack():
    executable = structir.compile(Control)
    x = np.full(3, 1.0001, np.float32)
    result = executable["power"](x, np.asarray(3000))
    np.testing.assert_allclose(result, x.astype(np.float64) ** 3000, rtol=1e-3)


@I.ir_module
class Broadcasting:
    @R.function
    def main(x: R.Tensor(("n", "k"), "float32"), y: R.Tensor(("n", "m"), "float32")):
        with R.dataflow():
            z = R.nn.relu(R.add(x, y))
            R.output(z)
        return z


def test_sizes_that_may_broadcast():
    executable = structir.compile(Broadcasting)
    for left, right in ((4, 4), (1, 4), (4, 1), (1, 1), (0, 0)):
        x, y = floats(3, left), floats(3, right)
        np.testing.assert_allclose(executable["main"](x, y), np.maximum(x + y, 0))
    with pytest.raises(ShapeMismatchError, match=r"add.*: expected .*, found "):
        executable["main"](floats(3, 4), floats(3, 3))


def test_results_that_are_inputs_or_constants():
    @R.function
    def main(x: R.Tensor(("n", "m"), "float32")):
        n = T.int64()
        m = T.int64()
        flat = R.reshape(x, R.shape([n * m]))
        one = R.const(1.5, "float32")
        return (x, flat, one, R.nn.relu(flat))

    x = floats(2, 3)
    same, flat, one, positive = structir.compile(main)["main"](x)
    np.testing.assert_array_equal(same, x)
    np.testing.assert_array_equal(flat, x.reshape(-1))
    assert one == np.float32(1.5)
    np.testing.assert_array_equal(positive, np.maximum(x, 0).reshape(-1))


def test_a_reshape_between_symbolic_sizes_moves_nothing():
    @R.function
    def main(x: R.Tensor(("n", "m", 64), "float32")):
        n = T.int64()
        m = T.int64()
        return R.exp(R.reshape(R.reshape(R.exp(x), (n * m, 64)), (m, n, 64)))

    executable = structir.compile(main)
    for shape in ((2, 3, 64), (3, 0, 64)):
        x = floats(*shape)
        expected = np.exp(np.exp(x)).reshape(shape[1], shape[0], 64)
        np.testing.assert_allclose(executable["main"](x), expected, 1e-5)
    assert executable.source().count("# kernel ") == 2, "one for each side of a shape"


def test_an_unknown_target():
    with pytest.raises(StructIRError, match="unknown backend 'sundial'; available: cpu, cuda"):
        structir.compile(Mlp, target="sundial")


TWO_FUNCTIONS = """
@I.ir_module
class Module:
    @R.function
    def forward(x: R.Tensor(("n", 4), "float32")):
        return R.exp(x)

    @R.function
    def backward(x: R.Tensor(("n", 4), "float32")):
        return R.log(x)
"""


def test_the_only_function_is_profiled_and_shown_without_its_name() -> None:
    module = structir.parse(TWO_FUNCTIONS)
    one = structir.compile(module.with_functions({"forward": module["forward"]}))
    assert one.source() == one.source("forward")
    assert one.profile(np.ones((3, 4), "float32"), repeat=1).kernels is not None


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda exe, x: exe.source(), r'found forward, backward\n.*`exe.source\("forward"\)`'),
        (lambda exe, x: exe.profile(x), r'forward, backward\n.*`exe.profile\(..., name="forward"'),
        (lambda exe, x: exe.source("backwrd"), r'no function `backwrd`.*\n.*source\("backward"\)'),
        (lambda exe, x: exe.profile(x, name="main"), r"no function `main` in module; available"),
    ],
)
def test_a_missing_or_wrong_name_is_an_error_with_an_edit(call: Any, message: str) -> None:
    exe = structir.compile(structir.parse(TWO_FUNCTIONS))
    with pytest.raises(StructIRError, match=message):
        call(exe, np.ones((3, 4), "float32"))
