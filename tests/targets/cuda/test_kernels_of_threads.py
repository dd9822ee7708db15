"""Kernels of a program for threads of a GPU: their text, what the interpreter makes of them, and
what threads do."""

import numpy as np
import pytest

import structir
from structir.errors import DiagnosticError
from structir.script import I, R, T
from structir.targets.cuda.ahead import AheadDevice
from structir.targets.cuda.executable import DeviceExecutable
from tests.runtime.agreement import assert_agree
from tests.targets.cuda.host_threads import HostThreads
from tests.targets.cuda.simulated_every_op import on_host


@I.ir_module
class Sums:
    @I.kernel(target="cuda", blocks="(n + 63) // 64", threads=64)
    def of_blocks(x: R.Tensor(("n",), "float32"), out: R.Tensor(("(n + 63) // 64",), "float32")):
        part = T.shared((64,), "float32")
        i = T.block() * T.threads() + T.thread()
        part[T.thread()] = x[i] if i < n else 0.0
        T.sync_threads()
        step = T.threads() // 2
        while step > 0:
            if T.thread() < step:
                part[T.thread()] += part[T.thread() + step]
            T.sync_threads()
            step = step // 2
        if T.thread() == 0:
            out[T.block()] = part[0]

    @I.kernel(target="cuda", blocks="n", threads=32)
    def of_lanes(
        x: R.Tensor(("n", 32), "float64"),
        total: R.Tensor(("n",), "float64"),
        turned: R.Tensor(("n", 32), "float64"),
        last: R.Tensor(("n", 32), "int32"),
    ):
        own = x[T.block(), T.thread()]
        sum = own
        step = 16
        while step > 0:
            sum = sum + T.shuffle_xor(sum, step)
            step = step // 2
        if T.thread() == 0:
            total[T.block()] = sum
        turned[T.block(), T.thread()] = T.shuffle_up(own, 1) - T.shuffle_down(own, 2)
        last[T.block(), T.thread()] = T.shuffle_from(T.int32(T.thread()), 31)

    @I.kernel(target="cuda", blocks=2, threads=8)
    def here_and_there(x: R.Tensor(("n",), "bfloat16"), out: R.Tensor(("n",), "bfloat16")):
        i = T.thread() * T.blocks() + T.block()
        if i < n:
            out[i] = x[i] * 2

    @R.function
    def main(
        x: R.Tensor(("n",), "float32"),
        y: R.Tensor(("m", 32), "float64"),
        z: R.Tensor(("k",), "bfloat16"),
    ):
        n = T.int64()
        m = T.int64()
        k = T.int64()
        with R.dataflow():
            a = R.call_kernel(
                of_blocks, (R.exp(x),), out_sinfo=R.Tensor(((n + 63) // 64,), "float32")
            )
            b = R.call_kernel(
                of_lanes,
                (y,),
                out_sinfo=(
                    R.Tensor((m,), "float64"),
                    R.Tensor((m, 32), "float64"),
                    R.Tensor((m, 32), "int32"),
                ),
            )
            c = R.call_kernel(here_and_there, (z,), out_sinfo=R.Tensor((k,), "bfloat16"))
            R.output(a, b, c)
        return a, b, c


def given():
    rng = np.random.default_rng(0)
    bfloat16 = structir.ir.dtype.numpy_dtype("bfloat16")
    x, y, z = (rng.standard_normal(shape) for shape in ((150,), (3, 32), (20,)))
    return x.astype("float32"), y, z.astype(bfloat16)


def test_interpreted():
    x, y, z = given()
    a, (total, turned, last), c = structir.interpret(Sums, "main", x, y, z)
    blocks = [np.exp(x)[i : i + 64].sum() for i in range(0, 150, 64)]
    np.testing.assert_allclose(a, blocks, 1e-5)
    np.testing.assert_allclose(total, y.sum(1))
    up, down = y[:, np.maximum(np.arange(32) - 1, 0)], np.copy(y)
    down[:, :30] = y[:, 2:]
    np.testing.assert_array_equal(turned, up - down)
    assert (last == 31).all()
    wanted = (z.astype("float32") * 2)[:16]
    np.testing.assert_array_equal(c[:16].astype("float32"), wanted)
    assert not c[16:].any()  # results hold zeros first


def test_threads_do_what_the_interpreter_does():
    wanted = structir.interpret(Sums, "main", *given())
    assert_agree(wanted, on_host(DeviceExecutable(Sums, HostThreads())["main"](*given())))
    assert_agree(wanted, structir.compile(Sums)["main"](*given()))


def test_the_text_comes_back():
    assert structir.structural_equal(structir.parse(Sums.script()), Sums)
    other = structir.parse(Sums.script().replace("threads=64", "threads=128"))
    assert not structir.structural_equal(other, Sums)


@pytest.mark.parametrize("architecture", ["sm_80", "sm_90"])
def test_ptx(architecture):
    executable = DeviceExecutable(Sums, AheadDevice(architecture))
    ptx = executable.ptx()
    for part in ("shfl.sync.bfly", "shfl.sync.up", "bar.sync", ".maxntid 32", ".shared"):
        assert part in ptx, part
    assert "inside(cuda.threadIdx.x" not in executable.source()  # these are surely in range
    assert "inside(cuda.blockIdx.x" not in executable.source()


HEAD = 'def f(x: R.Tensor(("n",), "float32"), out: R.Tensor(("n",), "float32")):\n'
LAUNCH = '(target="cuda", blocks=1, threads=8)'


def program(body, launch=LAUNCH):
    lines = "".join(f"    {line}\n" for line in body.split("\n"))
    return structir.parse(
        f"@I.kernel{launch}\n{HEAD}{lines}\n"
        '@R.function\ndef main(x: R.Tensor(("n",), "float32")):\n    n = T.int64()\n'
        '    return R.call_kernel(f, (x,), out_sinfo=R.Tensor((n,), "float32"))\n'
    )


@pytest.mark.parametrize(
    ("body", "launch", "message"),
    [
        ("out[0] = x[T.thread()]", "", "T.thread is only available in GPU kernels"),
        ("T.sync_threads()\nout[0] = 1.0", "", "T.sync_threads is only available in GPU kernels"),
        (
            "a = T.shared((4,), 'int8')\nout[0] = 1.0",
            "",
            "T.shared is not available in CPU kernels",
        ),
        (
            "a = T.zeros((4,), 'int8')\nout[0] = 1.0",
            LAUNCH,
            "T.zeros is not available in GPU kernels",
        ),
        (
            "a = T.shared((n,), 'int8')\nout[0] = 1.0",
            LAUNCH,
            "expected constant sizes, found symbolic",
        ),
        ("out[0] = T.shuffle_xor(x[0], 1)", LAUNCH, "expected a multiple of 32 threads, found 8"),
        (
            "out[0] = 1.0",
            "(target='cuda', blocks=1, threads=2000)",
            "integer from 1 to 1024, found 2000",
        ),
        (
            "out[0] = 1.0",
            "(target='tpu', blocks=1, threads=2)",
            "target: expected 'cuda', found 'tpu'",
        ),
        (
            "out[0] = 1.0",
            "(target='cuda', blocks=1)",
            "expected the options target, blocks and threads",
        ),
        ("out[0] = 1.0", "(target='cuda', blocks='m', threads=2)", "m"),
        ("x.shape\nout[0] = 1.0", LAUNCH, "an expression statement is not supported"),
    ],
)
def test_what_is_wrong_is_told(body, launch, message):
    with pytest.raises(DiagnosticError, match=message):
        program(body, launch)


def test_threads_that_wait_for_others_in_vain():
    module = program("if T.thread() < 4:\n    T.sync_threads()\nout[0] = 1.0")
    with pytest.raises(DiagnosticError, match="not every thread of a block reaches"):
        structir.interpret(module, "main", np.ones(9, "float32"))


def test_an_index_out_of_range_of_one_thread():
    module = program("T.sync_threads()\nout[T.thread()] = x[T.thread()]")
    x = np.arange(5, dtype="float32")
    with pytest.raises(DiagnosticError, match="index 5 is out of range"):
        structir.interpret(module, "main", x)
    with pytest.raises(DiagnosticError, match=r"index \d is out of range"):
        DeviceExecutable(module, HostThreads())["main"](x)
    x = np.arange(8, dtype="float32")
    np.testing.assert_array_equal(structir.interpret(module, "main", x), x)
