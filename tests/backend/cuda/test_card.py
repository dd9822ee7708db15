"""What is asked of a card's driver and of cuBLAS, with stand-ins for both."""

import re

import numpy as np
import pytest

from structir.backend.cuda import plan as plans
from structir.backend.cuda import regions
from structir.backend.cuda.card import Card
from structir.backend.cuda.executable import DeviceExecutable
from structir.errors import StructIRError
from structir.script import I, R
from tests.backend.cuda.fakes import WORDS, Driver


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
def card():
    return Card(Driver())


def compiled(card):
    executable = DeviceExecutable(Module, card)
    for plan in executable.plans():
        for kernel in plan.kernels:
            entry = kernel.code.entry
            WORDS[entry.encode()] = len(re.findall(rf"\.param .*{entry}_param", kernel.code.ptx))
    return executable


def floats(*shape):
    return np.ones(shape, np.float32)


def test_kernels_get_their_addresses_and_sizes(card):
    y, z = compiled(card)["main"](floats(5, 7), floats(7, 3))
    assert (y.shape, z.shape) == ((5, 3), ())
    first, *_ = card.driver.launched
    name, grid, block, words = first
    assert name.startswith(b"kernel_") and grid == (1, 1, 1) and block == (256, 1, 1)
    assert words[-1] == 35 and words[0] in card.driver.memory
    assert any(y.address in words for _, _, _, words in card.driver.launched)


def test_the_same_arrays_again_become_a_graph(card):
    run = compiled(card)["main"]
    x, w = (run(floats(4, 4), floats(4, 4))[0] for _ in range(2))
    for _ in range(4):
        run(x, w)
    launched, replayed = len(card.driver.launched), len(card.driver.replayed)
    run(x, w)
    assert launched == len(card.driver.launched)
    assert len(card.driver.replayed) == replayed + 1 >= 2
    graph, stream = card.driver.replayed[-1]
    assert stream == 0
    assert [call[0] for call in graph] == [call[0] for call in card.driver.launched[: len(graph)]]


def test_graphs_are_given_back_with_the_arrays_that_they_are_for(card, monkeypatch):
    monkeypatch.setattr(plans, "MOST_PREPARED", 3)
    run = compiled(card)["main"]
    held = [run(floats(4, 4), floats(4, 4))[0] for _ in range(5)]
    for x in held:
        for _ in range(5):
            run(x, x)
    assert len(card.driver.graphs) <= 3 < len({graph for graph, _ in card.driver.replayed})


def test_memory_is_used_again_once_nobody_holds_it(card):
    held = card.allocate(1000)
    address = held.address
    assert card.allocate(1000).address != address
    del held
    assert card.allocate(900).address == address
    assert card.allocate(1000, stream=3).address != address


def test_memory_that_lies_unused_is_freed_for_other_sizes(card):
    card.driver.most = 1 << 20
    del_me = card.allocate(900_000)
    del del_me
    assert card.allocate(600_000).size == 600_000
    with pytest.raises(StructIRError, match="taking 2097152 bytes failed: CUDA_ERROR_OUT"):
        card.allocate(1 << 21)


def test_a_failure_on_the_card_is_told(card):
    run = compiled(card)["main"]
    y, _ = run(floats(2, 2), floats(2, 2))
    card.driver.failing = True
    with pytest.raises(StructIRError, match="a kernel before this failed: CUDA_ERROR_ILLEGAL"):
        y.copy_to_host()


def test_other_libraries_see_memory_of_the_card(card):
    y, _ = compiled(card)["main"](floats(2, 2), floats(2, 2))
    assert y.__dlpack_device__() == (2, 0)
    assert y.__cuda_array_interface__["data"] == (y.address, False)


def test_calls_on_another_stream_have_memory_of_their_own(card):
    run = compiled(card)["main"]
    x, w = floats(4, 4), floats(4, 4)
    run(x, w)
    first = {word for *_, words in card.driver.launched for word in words if word > 1 << 20}
    card.driver.launched.clear()
    run(x, w, stream=5)
    second = {word for *_, words in card.driver.launched for word in words if word > 1 << 20}
    assert not first & second


def test_arguments_of_a_form_that_was_met_are_not_looked_at_again(card, monkeypatch):
    run = compiled(card)["main"]
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
