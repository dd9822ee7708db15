"""Schedules by handles: programs keep their results, names are completed and checked."""

import numpy as np
import pytest

import structir
from structir.ir import structural_equal
from structir.ir.kernel import Kernel
from structir.ir.module import IRModule
from structir.loops.primitives import PRIMITIVES, add_primitive, find_primitive
from structir.loops.schedule.primitive import primitive
from structir.loops.schedule.refusal import ScheduleError
from structir.script import I, R, T
from tests.loops.running import parsed


@I.ir_module
class Attention:
    @R.function
    def main(x: R.Tensor(("n", 12), "float32"), b: R.Tensor((12,), "float32")):
        y = R.nn.softmax(R.add(x, b))
        z = R.matmul(y, R.permute_dims(y))
        return z


SCALE = """
@I.kernel
def scale(x: R.Tensor(("n", "m"), "float32"), out: R.Tensor(("n", "m"), "float32")):
    for i in range(n):
        for j in range(m):
            out[i, j] = 2.0 * x[i, j]
"""


def test_kernels_of_ops_are_scheduled_and_compiled() -> None:
    s = structir.schedule(Attention)
    assert repr(s) == "Schedule\n  add_softmax: y\n  matmul: z"
    y = s.kernel("y")
    for loop in [name for name in y.loops() if name.startswith("k")]:
        y.reassociate(loop).vectorise(loop)
    for loop in [name for name in y.loops() if name.startswith("j")]:
        y.vectorise(loop)
    y.parallel(y.loops()[0])
    i, j, _ = s["z"].loops()
    s["z"].split(i, 4).split(j, 4).reorder(f"{i}_0", f"{j}_0", i, j).parallel(f"{i}_0")
    module = s.apply()
    assert structural_equal(structir.parse(module.script()), module)
    run = structir.compile(module)["main"]
    for n in (1, 3, 9):
        x, b = np.random.default_rng(n).normal(size=(n, 12)), np.linspace(0, 1, 12)
        arrays = [x.astype("float32"), b.astype("float32")]
        expected = structir.interpret(Attention, "main", *arrays)
        np.testing.assert_allclose(run(*arrays), expected, 1e-5)
        np.testing.assert_allclose(structir.interpret(module, "main", *arrays), expected, 1e-5)
    assert not any(word in Attention.script() for word in ("T.part", "T.vectorized"))


def test_a_handwritten_kernel_is_scheduled_step_by_step() -> None:
    kernel = parsed(SCALE)
    s = structir.schedule(kernel)
    with pytest.raises(ScheduleError, match=r'`s.kernel\("scale"\).split`'):
        s.split("i", 4)
    assert not hasattr(s, "_repr_html_")
    assert "@I.kernel" in s.kernel()._repr_html_()
    handle = s.kernel()
    before = str(handle)
    assert handle["i"].split(8) is handle and handle.loops() == ["i_0", "i", "j"]
    assert "T.vectorized(m)" in str(handle["j"].vectorise()["j"])
    scheduled = s.apply()
    assert isinstance(scheduled, Kernel) and structural_equal(parsed(str(scheduled)), scheduled)
    assert str(handle.undo().undo().undo()) == before


def test_names_are_completed() -> None:
    s = structir.schedule(Attention)
    handle = s.kernel("y")
    assert s._ipython_key_completions_() == ["add_softmax", "matmul", "y", "z"]
    assert handle._ipython_key_completions_() == handle.loops()
    assert not hasattr(handle, "shape") and hasattr(handle, "split")
    assert {"split", "reorder", "undo"} <= {*dir(handle)}
    assert "split" in dir(handle[handle.loops()[0]])
    assert handle.split.__doc__ and "blocks" in handle.split.__doc__


def test_a_primitive_of_ones_own_is_a_method() -> None:
    @primitive
    def same(kernel: Kernel, loop: str) -> Kernel:
        """Returns the kernel as it is."""
        return kernel

    add_primitive(same)
    try:
        handle = structir.schedule(parsed(SCALE)).kernel()
        assert str(handle["i"].same()) == str(handle) and "same" in dir(handle)
    finally:
        del PRIMITIVES.added["same"]


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda: structir.schedule(Attention, "mian"), "did you mean `main`"),
        (lambda: structir.schedule(Attention).kernel("w"), "`y`, `z`"),
        (lambda: structir.schedule(Attention).kernel(), r'`s.kernel\("matmul"\)`'),
        (lambda: structir.schedule(parsed(SCALE)).kernel().spilt("i", 4), "did you mean `split`"),
        (lambda: structir.schedule(parsed(SCALE)).kernel()["q"], "these: `i`, `j`"),
        (lambda: structir.schedule(parsed(SCALE)).kernel()[0], "found `0`"),
        (lambda: structir.schedule(Attention).kernel(["y"]), "`y`, `z`"),
        (lambda: find_primitive("split")(Attention, "i", 2), "expected a kernel"),
        (lambda: structir.schedule(parsed(SCALE)).kernel().parallel("i", exact=True), "E1118"),
        (lambda: structir.schedule(parsed(SCALE)).kernel().split("i"), "split\\(loop, factor"),
        (lambda: structir.schedule(parsed(SCALE)).kernel().split("i", 0), "positive integer"),
        (lambda: structir.schedule(parsed(SCALE)).kernel().split("i", 2, "x"), '"guard"'),
        (lambda: structir.schedule(parsed(SCALE)).kernel().reorder("i"), "two or more"),
        (lambda: structir.schedule(parsed(SCALE)).kernel().pack("x", "i", 0, 0), "permutation"),
        (lambda: structir.schedule(parsed(SCALE)).kernel().fission("i", 1), "below 1"),
        (lambda: structir.schedule(parsed(SCALE), exact=True)["scale"].parallel("i"), "E1118"),
    ],
)
def test_wrong_names_and_arguments_are_errors_with_a_help_line(use: object, message: str) -> None:
    with pytest.raises(ScheduleError, match=message) as caught:
        use()  # type: ignore[operator]
    assert caught.value.diagnostics[0].hint


def test_kernels_of_gpu_threads_are_refused() -> None:
    @I.ir_module
    class M:
        @I.kernel(target="cuda", blocks=2, threads=32)
        def f(out: R.Tensor((64,), "float32")):
            out[T.block() * 32 + T.thread()] = 1.0

    with pytest.raises(ScheduleError, match="GPU threads"):
        structir.schedule(M).kernel().split("i", 2)


@pytest.mark.parametrize("length", [0, 1, 15, 16, 37, 64])
def test_vector_loops_compute_whole_vectors_and_the_rest(length: int) -> None:
    kernel = parsed(
        """
@I.kernel
def f(x: R.Tensor(("n", "m"), "float32"), out: R.Tensor(("n", "m"), "float32")):
    for i in range(n):
        total = T.float32(0.0)
        for k in range(m):
            total = total + x[i, k]
        for j in range(m):
            t = x[i, j] * 2.0
            out[i, j] = t + total
"""
    )
    handle = structir.schedule(kernel).kernel()
    handle.reassociate("k").vectorise("k").vectorise("j")
    x = np.random.default_rng(length).integers(-9, 9, (3, length)).astype("float32")
    out = np.full_like(x, np.nan)
    structir.compile(IRModule({"f": handle.node}))["f"](x, out)
    np.testing.assert_array_equal(out, x * 2 + x.sum(1, keepdims=True))
