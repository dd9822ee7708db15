"""Gradients of imported programs against those of torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install structir[torch]")

import structir  # noqa: E402
from structir import passes  # noqa: E402
from structir.frontend.torch import from_exported_program  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
nn, F = torch.nn, torch.nn.functional


class Quantizer(nn.Module):  # type: ignore[misc]
    """Vector quantization: the gradient passes the choice of a code."""

    def __init__(self) -> None:
        super().__init__()
        self.codes, self.project = nn.Parameter(torch.randn(6, 4)), nn.Linear(4, 4)

    def forward(self, x: Any) -> Any:
        z = self.project(x)
        code = self.codes[(z[:, :, None] - self.codes).square().sum(-1).argmin(-1)]
        with torch.no_grad():
            target = self.project(z).mean(1, keepdim=True)
        return z + (code - z).detach(), F.mse_loss(code, z.detach()), z * target


class Scanned(nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.cell, self.weight = nn.GRUCell(4, 3), nn.Parameter(torch.randn(3, 2))

    def forward(self, x: Any) -> Any:
        from torch._higher_order_ops.scan import scan

        def step(h: Any, slice_of_x: Any) -> Any:
            h = self.cell(slice_of_x, h)
            return h, (h @ self.weight).sin()

        return scan(step, torch.zeros(x.shape[0], 3), x.transpose(0, 1).contiguous())


def tokens(*sizes: int) -> Any:
    return torch.randint(0, 5, sizes)


MODELS: dict[str, tuple[Callable[[], Any], Any]] = {
    "padding index": (lambda: nn.Embedding(5, 3, padding_idx=1), tokens),
    "quantizer": (Quantizer, lambda *sizes: torch.randn(*sizes, 4)),
    "scan": (Scanned, lambda *sizes: torch.randn(*sizes, 4)),
    "lstm": (
        lambda: nn.LSTM(4, 3, 2, bidirectional=True),
        lambda batch, length: torch.randn(5, batch, 4),
    ),
    "gru": (lambda: nn.GRU(4, 3, bias=False), lambda batch, length: torch.randn(5, batch, 4)),
    "rnn": (
        lambda: nn.RNN(4, 3, nonlinearity="relu"),
        lambda batch, length: torch.randn(5, batch, 4),
    ),
}


class Loss(nn.Module):  # type: ignore[misc]
    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Any) -> Any:
        results = torch.utils._pytree.tree_leaves(self.model(x))
        return sum((result * (k + 0.7)).sin().sum() for k, result in enumerate(results))


@pytest.mark.parametrize("name", MODELS)
def test_gradients_of_parameters(name: str) -> None:
    torch.manual_seed(1)
    build, make = MODELS[name]
    loss = Loss(build())
    example = make(3, 4)
    auto = {k: torch.export.Dim.AUTO for k, n in enumerate(example.shape) if n in (3, 4)}
    auto = {k: dim for k, dim in auto.items() if k < 2}
    program = torch.export.export(loss, (example,), dynamic_shapes=(auto,))
    module = from_exported_program(program, weights_as_inputs=True)
    by_name = program.graph_signature.inputs_to_parameters
    params = [p.name for p in module["main"].params if p.name in by_name]
    differentiated = passes.Gradient(parameters=" ".join(params))(module)
    for batch, length in ((3, 4), (1, 1)):
        x = make(batch, length)
        weights = [loss.get_parameter(by_name[param]) for param in params]
        expected = torch.autograd.grad(loss(x), weights)
        operands = {p: w.detach().numpy() for p, w in zip(params, weights, strict=True)}
        main = differentiated["main_adjoint"]
        arrays = [operands.get(p.name, x.numpy()) for p in main.params]
        _, gradients = structir.interpret(differentiated, "main_adjoint", *arrays)
        for gradient, wanted in zip(gradients, expected, strict=True):
            np.testing.assert_allclose(gradient, wanted, rtol=1e-4, atol=1e-5)
