"""Embedding bags, writes to diagonals, and small functions, compared with torch."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install structir[torch]")

import torch.nn.functional as F  # noqa: E402

import structir  # noqa: E402
from structir.frontend.torch import from_exported_program  # noqa: E402
from tests.frontend.torch.test_with_torch import agree, exported, flat  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
TABLE = torch.linspace(-2, 2, 36).sin().reshape(9, 4)
INDICES = torch.tensor([[3, 1, 4], [1, 1, 1], [5, 8, 2]])
FLAT, OFFSETS = INDICES.flatten(), torch.tensor([0, 2, 2, 9])


def assert_equal_to_torch(act: Any, *operands: Any) -> None:
    module = from_exported_program(exported(act, operands, False))
    result = structir.interpret(module, "main", *[x.numpy() for x in operands])
    agree(result, flat(act(*operands)))


@pytest.mark.parametrize("padding", [None, 1, -8, -1])
@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_embedding_bags(mode: str, padding: int | None) -> None:
    options = {"mode": mode, "padding_idx": padding}
    assert_equal_to_torch(lambda i: F.embedding_bag(i, TABLE, **options), INDICES)
    assert_equal_to_torch(
        lambda i: F.embedding_bag(i, TABLE, OFFSETS, include_last_offset=True, **options), FLAT
    )


def test_weighted_embedding_bags_with_padding() -> None:
    assert_equal_to_torch(
        lambda i, w: F.embedding_bag(i, TABLE, per_sample_weights=w, mode="sum", padding_idx=1),
        INDICES,
        torch.rand(3, 3),
    )


def write_diagonal(x: Any) -> Any:
    y = x.clone()
    y.diagonal(-1, 0, 2).mul_(2).add_(1)
    return y


FUNCTIONS = {
    "diagonal_scatter": lambda x: torch.diagonal_scatter(x, x[0, :3, :3].T, 1, 2, 1),
    "write": write_diagonal,
    "fill": lambda x: x[0].clone().fill_diagonal_(7.0),
    "fill a tall matrix": lambda x: x[0].T.clone().fill_diagonal_(-1),
    "fill a cube": lambda x: x[:, :3, :3].clone().fill_diagonal_(5),
    "logit": lambda x: torch.logit(x, 0.1),
    "logit of crossed bounds": lambda x: torch.logit(x, 0.6),
    "dist": lambda x: torch.dist(x, x * 2 + 1, p=3),
    "distance": lambda x: torch.dist(x, x * 2 + 1),
    "rrelu": lambda x: F.rrelu(x, 0.1, 0.5),
    "all true": lambda x: torch.ops.aten._is_all_true(x > -9),
    "any true": lambda x: torch.ops.aten._is_any_true(x > 9),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name: str) -> None:
    assert_equal_to_torch(FUNCTIONS[name], torch.randn(3, 4, 5))
