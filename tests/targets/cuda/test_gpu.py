"""What is asked of a GPU's driver and of cuBLAS, with stand-ins for both."""

import re

import numpy as np
import pytest

from structir.errors import StructIRError
from structir.script import I, R
from structir.targets.cuda import plan as plans
from structir.targets.cuda import regions
from structir.targets.cuda.executable import DeviceExecutable
from structir.targets.cuda.gpu import Gpu
from tests.targets.cuda.fakes import WORDS, Driver


@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n", "k"), "float32"), w: R.Tensor(("k", "m"), "float32")):
        with R.dataflow():
            y = R.nn.softmax(R.matmul(R.exp(x), w))
            z = R.sum(y)
            R.output(y, z)
        return y, z


@pytest.fixture
def gpu():
    return Gpu(Driver())


def compiled(gpu):
    executable = DeviceExecutable(Module, gpu)
    for plan in executable.plans():
        for kernel in plan.kernels:
            entry = kernel.code.entry
            WORDS[entry.encode()] = len(re.findall(rf"\.param .*{entry}_param", kernel.code.ptx))
    return executable


def floats(*shape):
    return np.ones(shape, np.float32)


def test_kernels_get_their_addresses_and_sizes(gpu):
    y, z = compiled(gpu)["main"](floats(5, 7), floats(7, 3))
    assert (y.shape, z.shape) == ((5, 3), ())
    first, *_ = gpu.driver.launched
    name, grid, block, words = first
    assert name.startswith(b"kernel_") and grid == (1, 1, 1) and block == (256, 1, 1)
    assert words[-1] == 35 and words[0] in gpu.driver.memory
    assert any(y.address in words for _, _, _, words in gpu.driver.launched)


def test_the_same_arrays_again_become_a_graph(gpu):
    run = compiled(gpu)["main"]
    x, w = (run(floats(4, 4), floats(4, 4))[0] for _ in range(2))
    for _ in range(4):
        run(x, w)
    launched, replayed = len(gpu.driver.launched), len(gpu.driver.replayed)
    run(x, w)
    assert launched == len(gpu.driver.launched)
    assert len(gpu.driver.replayed) == replayed + 1 >= 2
    graph, stream = gpu.driver.replayed[-1]
    assert stream == 0
    assert [call[0] for call in graph] == [call[0] for call in gpu.driver.launched[: len(graph)]]


def test_graphs_are_given_back_with_the_arrays_that_they_are_for(gpu, monkeypatch):
    monkeypatch.setattr(plans, "MOST_PREPARED", 3)
    run = compiled(gpu)["main"]
    held = [run(floats(4, 4), floats(4, 4))[0] for _ in range(5)]
    for x in held:
        for _ in range(5):
            run(x, x)
    assert len(gpu.driver.graphs) <= 3 < len({graph for graph, _ in gpu.driver.replayed})


def test_memory_is_used_again_once_nobody_holds_it(gpu):
    held = gpu.allocate(1000)
    address = held.address
    assert gpu.allocate(1000).address != address
    del held
    assert gpu.allocate(900).address == address
    assert gpu.allocate(1000, stream=3).address != address


def test_memory_that_lies_unused_is_freed_for_other_sizes(gpu):
    gpu.driver.most = 1 << 20
    del_me = gpu.allocate(900_000)
    del del_me
    assert gpu.allocate(600_000).size == 600_000
    with pytest.raises(StructIRError, match="taking 2097152 bytes failed: CUDA_ERROR_OUT"):
        gpu.allocate(1 << 21)


def test_a_failure_on_the_card_is_told(gpu):
    run = compiled(gpu)["main"]
    y, _ = run(floats(2, 2), floats(2, 2))
    gpu.driver.failing = True
    with pytest.raises(StructIRError, match="a kernel before this failed: CUDA_ERROR_ILLEGAL"):
        y.copy_to_host()


def test_other_libraries_see_memory_of_the_card(gpu):
    y, _ = compiled(gpu)["main"](floats(2, 2), floats(2, 2))
    assert y.__dlpack_device__() == (2, 0)
    assert y.__cuda_array_interface__["data"] == (y.address, False)


def test_calls_on_another_stream_have_memory_of_their_own(gpu):
    run = compiled(gpu)["main"]
    x, w = floats(4, 4), floats(4, 4)
    run(x, w)
    first = {word for *_, words in gpu.driver.launched for word in words if word > 1 << 20}
    gpu.driver.launched.clear()
    run(x, w, stream=5)
    second = {word for *_, words in gpu.driver.launched for word in words if word > 1 << 20}
    assert not first & second


def test_arguments_of_a_form_that_was_met_are_not_looked_at_again(gpu, monkeypatch):
    run = compiled(gpu)["main"]
    x, w = (run(floats(4, 4), floats(4, 4))[0] for _ in range(2))
    run(x, w)
    monkeypatch.setattr(regions, "match", None)
    assert run(x, w)[0].shape == (4, 4)
    with pytest.raises(TypeError):
        run(x.reshape((2, 8)), w)
    monkeypatch.undo()
    with pytest.raises(StructIRError, match="main: parameter w"):
        run(x.reshape((2, 8)), w)
    with pytest.raises(StructIRError, match="expected 2 arguments, found 1"):
        run(x)
