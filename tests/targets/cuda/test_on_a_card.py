"""What needs a card: `pytest -m gpu` on a machine that has one."""

import numpy as np
import pytest

import structir
from minilm_program import WEIGHTS, minilm_text
from structir.errors import DiagnosticError, StructIRError
from structir.ir.dtype import numpy_dtype
from structir.passes import UpdateVDevice
from structir.script import I, R
from structir.targets.cuda.executable import DeviceExecutable
from structir.targets.cuda.gpu import Gpu
from structir.targets.cuda.target import device_of, driver
from tests.loops.test_every_example import program
from tests.ops.test_every_op import OPS
from tests.runtime.agreement import assert_agree
from tests.targets.cuda.simulated_every_op import on_host
from tests.targets.cuda.test_attention import arguments, compared, text_of

pytestmark = pytest.mark.gpu


@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n", "k"), "float32"), w: R.Tensor(("k", "m"), "float32")):
        with R.dataflow():
            y = R.nn.softmax(R.matmul(R.nn.gelu(x), w))
            z = R.sum(y)
            R.output(y, z)
        return y, z


def floats(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape, "float32")


@pytest.mark.parametrize("name", sorted(OPS))
@pytest.mark.filterwarnings("ignore")
def test_every_op_is_interpreted(name):
    for args, keywords in OPS[name].definition.examples[:1]:
        module, values = program(OPS[name].definition, args, keywords)
        module = UpdateVDevice(old="llvm", new="cuda")(module)
        try:
            run = structir.compile(module, target="cuda")["main"]
            wanted = structir.interpret(module, "main", *values)
        except (DiagnosticError, StructIRError):
            continue
        assert_agree(wanted, on_host(run(*values)))


def test_twenty_shapes_with_one_compilation():
    executable = structir.compile(Module, target="cuda")
    for n in range(20):
        given = floats(n * 37, 64), floats(64, 5 * n + 1)
        wanted = structir.interpret(Module, "main", *given)
        assert_agree(wanted, on_host(executable["main"](*given)))
    assert executable.compile_count == 1


@pytest.mark.filterwarnings("ignore:overflow")
@pytest.mark.parametrize("name", ["plain", "causal", "window", "divided after"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_attention(name, dtype):
    device = device_of(None)
    for sizes in ({"n": 300, "m": 333, "d": 64, "e": 64}, {"n": 130, "m": 70, "d": 96, "e": 128}):
        text = text_of(name, dtype, **sizes)
        rng = np.random.default_rng(0)
        compared(device, text, list(arguments(structir.parse(text), rng, dtype, **sizes)), dtype)


def test_a_graph_gives_the_same():
    run = structir.compile(Module, target="cuda")["main"]
    x, w = floats(300, 200), floats(200, 100)
    wanted = structir.interpret(Module, "main", x, w)
    for _ in range(5):
        assert_agree(wanted, on_host(run(x, w)))


def test_the_encoder_agrees():
    module = structir.parse(minilm_text())
    weights = [floats(*shape, seed=k) * 0.05 for k, shape in enumerate(WEIGHTS.values())]
    ids = np.array([[101, 1037, 102, 0], [101, 102, 0, 0]])
    given = [ids, (ids != 0).astype("int64"), *weights]
    wanted = structir.interpret(module, "main", *given)
    assert_agree(wanted, on_host(structir.compile(module, target="cuda")["main"](*given)))


LAYERS = [
    "R.matmul(x, w)",
    "R.matmul(x, w) + b",
    "R.nn.relu(R.matmul(x, w) + b)",
    "R.nn.gelu_tanh(R.matmul(x, w) + b)",
    "R.nn.gelu(R.matmul(x, w) + b)",
    "R.matmul(x, R.permute_dims(u)) + b",
]


def layer(body, dtype):
    """A layer of a network, at free sizes; and what it is called with, at odd ones and at even."""
    sizes = {"x": "3, 'n', 'k'", "w": "'k', 'm'", "u": "'m', 'k'", "b": "'m',"}
    params = ", ".join(f'{name}: R.Tensor(({own}), "{dtype}")' for name, own in sizes.items())
    module = structir.parse(f"@R.function\ndef main({params}):\n    return {body}\n")
    for n, k, m in ((37, 51, 93), (256, 512, 384)):
        shapes = ((3, n, k), (k, m), (m, k), (m,))
        given = [(floats(*shape, seed=7) * 0.2).astype(numpy_dtype(dtype)) for shape in shapes]
        yield module, given, [array.astype("float64") for array in given]


@pytest.mark.parametrize("library", [True, False])
@pytest.mark.parametrize("tf32", [True, False])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("body", LAYERS)
def test_layers_by_the_library_and_by_our_own_kernels(body, dtype, tf32, library):
    card = device_of(None) if library else Gpu(driver)
    for module, given, wide in layer(body, dtype):
        run = DeviceExecutable(module, card, tf32=tf32)["main"]
        exact = structir.parse(str(module).replace(dtype, "float64"))
        wanted = structir.interpret(exact, "main", *wide)
        near = 1e-4 if dtype == "float32" and not tf32 else 2e-2
        for _ in range(3):  # the last time, a graph
            found = np.asarray(run(*given)).astype("float64")
            np.testing.assert_allclose(found, wanted, near, near * np.abs(wanted).max())


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_convolutions_by_warps(dtype):
    module = structir.parse(f"""
@R.function
def main(x: R.Tensor(("n", 48, "p", "q"), "{dtype}"), w: R.Tensor((72, 48, 3, 3), "{dtype}")):
    return R.nn.conv2d(x, w, padding=1, strides=2)
""")
    shapes = ((2, 48, 29, 31), (72, 48, 3, 3))
    given = [(floats(*shape, seed=8) * 0.2).astype(numpy_dtype(dtype)) for shape in shapes]
    found = np.asarray(DeviceExecutable(module, device_of(None), tf32=True)["main"](*given))
    wanted = structir.interpret(module, "main", *given).astype("float64")
    np.testing.assert_allclose(found.astype("float64"), wanted, 2e-2, 2e-2 * np.abs(wanted).max())


def test_large_reductions():
    text = """
@R.function
def main(x: R.Tensor(("n", "m"), "float32")):
    return R.sum(x), R.max(x, axis=0), R.mean(x, axis=1)
"""
    module, x = structir.parse(text), floats(3000, 4001)
    wanted = x.sum(dtype="float64"), x.max(0), x.mean(1, dtype="float64")
    found = on_host(structir.compile(module, target="cuda")["main"](x))
    for one, other in zip(wanted, found, strict=True):
        np.testing.assert_allclose(other, one, 1e-3, 1e-3)


def test_memory_of_other_libraries():
    torch = pytest.importorskip("torch")
    x = torch.randn(64, 64, device="cuda")
    y, _ = structir.compile(Module, target="cuda")["main"](x, x)
    back = torch.from_dlpack(y)
    expected = torch.softmax(torch.nn.functional.gelu(x) @ x, -1)
    torch.testing.assert_close(back, expected, rtol=1e-3, atol=1e-4)
