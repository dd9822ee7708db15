"""Indices of adaptive pooling, and results in containers that torch cannot save, with torch."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install structir[torch]")

import torch.nn.functional as F  # noqa: E402

import structir  # noqa: E402
from structir.frontend.torch import from_exported_program  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")


@dataclasses.dataclass
class Output:
    """The result of a user's model."""

    hidden: Any
    logits: Any


torch.export.register_dataclass(Output)


class Call(torch.nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Any) -> Any:
        return self.function(x)


def assert_equal_to_torch(function: Any, x: Any, *others: Any, dynamic: Any = None) -> None:
    program = torch.export.export(Call(function), (x,), dynamic_shapes=dynamic)
    module = from_exported_program(program)
    for operand in (x, *others):
        results = structir.interpret(module, "main", operand.numpy())
        expected = torch.utils._pytree.tree_leaves(function(operand))
        results = list(results) if isinstance(results, tuple | list) else [results]
        assert len(results) == len(expected)
        for result, reference in zip(results, expected, strict=True):
            np.testing.assert_allclose(result, reference.numpy(), rtol=1e-5)


@pytest.mark.parametrize("size", [(5, 3), (1, 2), (12, 4), (4, 5), 1])
def test_adaptive_max_pool_returns_the_first_index_of_each_maximum(size: Any) -> None:
    x = torch.randint(-3, 3, (2, 3, 12, 10)).float()  # with equal maxima
    assert_equal_to_torch(lambda t: F.adaptive_max_pool2d(t, size, return_indices=True), x)


def test_adaptive_max_pool_returns_indices_in_one_and_three_dimensions() -> None:
    x = torch.randn(2, 3, 7, 5)
    assert_equal_to_torch(lambda t: F.adaptive_max_pool1d(t[0], 3, return_indices=True), x)
    assert_equal_to_torch(lambda t: F.adaptive_max_pool3d(t, (2, 3, 4), return_indices=True), x)


def test_adaptive_max_pool_returns_indices_for_dynamic_sizes() -> None:
    auto = torch.export.Dim.AUTO
    assert_equal_to_torch(
        lambda t: F.adaptive_max_pool2d(t, (3, 2), return_indices=True),
        torch.randn(2, 3, 7, 9),
        torch.randn(1, 3, 11, 4),
        dynamic=({0: auto, 2: auto, 3: auto},),
    )


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.max(-1),
        lambda x: {"order": x.sort(-1), "largest": [x.topk(2), x.cummax(0)]},
        lambda x: Output(x * 2, x.sum(-1)),
    ],
)
def test_results_in_containers_without_a_registered_name_import(function: Any) -> None:
    assert_equal_to_torch(function, torch.randn(3, 4))
