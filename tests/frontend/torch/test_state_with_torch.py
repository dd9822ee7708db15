"""Mutable buffers of torch modules: ten calls of a state handle equal those of the module."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install structir[torch]")

import torch.nn.functional as F  # noqa: E402

import structir  # noqa: E402
from structir.frontend.torch import from_exported_program  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
LENGTH = 16


class Decoder(torch.nn.Module):
    """One attention layer with a static cache."""

    def __init__(self, write: Callable[[Any, Any, Any], None]) -> None:
        super().__init__()
        self.write, self.project = write, torch.nn.Linear(8, 24)
        self.register_buffer("keys", torch.zeros(1, 2, LENGTH, 4))
        self.register_buffer("values", torch.zeros(1, 2, LENGTH, 4))

    def forward(self, x: Any, position: Any) -> Any:
        parts = self.project(x).view(1, 1, 6, 4).transpose(1, 2)
        query, key, value = parts.split(2, dim=1)
        self.write(self.keys, position, key)
        self.write(self.values, position, value)
        mask = (torch.arange(LENGTH) <= position)[None]
        return F.scaled_dot_product_attention(query, self.keys, self.values, attn_mask=mask)


def by_index_put(cache: Any, position: Any, rows: Any) -> None:
    cache[:, :, position] = rows


def by_where(cache: Any, position: Any, rows: Any) -> None:
    cache.copy_(torch.where((torch.arange(LENGTH) == position)[:, None], rows, cache))


WRITES = {
    "index_copy": lambda cache, position, rows: cache.index_copy_(2, position, rows),
    "index_put": by_index_put,
    "scatter": lambda cache, position, rows: cache.scatter_(
        2, position.view(1, 1, 1, 1).expand(rows.shape), rows
    ),
    "where": by_where,
}


class Norms(torch.nn.Module):
    """Running statistics and a counter."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = torch.nn.Conv2d(3, 4, 3)
        self.batch = torch.nn.BatchNorm2d(4)
        self.instance = torch.nn.InstanceNorm2d(4, affine=True, track_running_stats=True)
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

    def forward(self, x: Any, _: Any) -> Any:
        self.calls += 1
        return self.instance(self.batch(self.convolution(x)).relu()) * self.calls


def inputs(model: Any, step: int) -> tuple[Any, Any]:
    shape = (1, 1, 8) if isinstance(model, Decoder) else (2, 3, 6, 5)
    return torch.randn(shape), torch.tensor([step])


IN_PLACE = {"index_copy", "index_put", "scatter"}  # writes of single rows
MODELS = {name: lambda write=write: Decoder(write) for name, write in WRITES.items()}
MODELS["norms"] = lambda: Norms().train()


@pytest.mark.parametrize("decomposed", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_ten_calls_equal_those_of_the_module(name: str, decomposed: bool) -> None:
    torch.manual_seed(0)
    model = MODELS[name]()
    program = torch.export.export(model, inputs(model, 0))
    program = program.run_decompositions() if decomposed else program
    module = from_exported_program(program)
    module = structir.parse(str(module)) if not decomposed else module
    exe = structir.compile(module)
    states = [exe.state, structir.State(module)]
    addresses = {k: v.ctypes.data for k, v in exe.state.buffers.items()}
    for step in range(10):
        arguments = inputs(model, step)
        with torch.no_grad():
            expected = model(*arguments)
        for state in states:
            actual = state["main"](*[a.numpy() for a in arguments])
            np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-4)
            for key, value in state.buffers.items():
                np.testing.assert_allclose(value, model.get_buffer(key), rtol=1e-5, atol=1e-5)
    if name in IN_PLACE:
        assert addresses == {k: v.ctypes.data for k, v in exe.state.buffers.items()}
    exe.state.reset()
    for key, value in exe.state.buffers.items():
        np.testing.assert_array_equal(value, MODELS[name]().get_buffer(key))


class Counters(torch.nn.Module):
    """Two large buffers that differ in the signs of their zeros."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("first", torch.zeros(2048))
        self.register_buffer("second", torch.full((2048,), -0.0))

    def forward(self, x: Any) -> Any:
        self.first += x
        self.second += x
        return x


def test_a_large_buffer_of_zeros_is_stored_as_a_call() -> None:
    program = torch.export.export(Counters(), (torch.ones(()),))
    module = from_exported_program(program)
    text = str(module["initial_state"])
    assert text.count("R.zeros((2048,)") == text.count("metadata") == 1
    buffers = structir.State(module).buffers
    assert np.signbit(buffers["second"]).all() and not np.signbit(buffers["first"]).any()
