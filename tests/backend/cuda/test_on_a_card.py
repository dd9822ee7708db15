"""What needs a card: `pytest -m gpu` on a machine that has one."""

import numpy as np
import pytest

import structir
from minilm_program import WEIGHTS, minilm_text
from structir.errors import DiagnosticError, StructIRError
from structir.script import I, R
from tests.backend.agreement import assert_agree
from tests.backend.cuda.simulated_every_op import on_host
from tests.backend.test_every_example import program
from tests.ops.test_every_op import OPS

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
