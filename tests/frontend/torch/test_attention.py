"""Attention: queries that see no key, and the attention kernels of other devices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install structir[torch]")

import torch.nn.functional as F  # noqa: E402

import structir  # noqa: E402
from structir import passes  # noqa: E402
from structir.frontend.torch import from_exported_program  # noqa: E402
from tests.frontend.torch.test_with_torch import agree, exported, flat  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
aten = torch.ops.aten


def operands(batch: int, queries: int, keys: int) -> list[Any]:
    sizes = [(batch, 2, n, 4) for n in (queries, keys, keys)]
    return [torch.randn(shape) for shape in sizes]


def masks(batch: int, queries: int, keys: int) -> dict[str, Any]:
    """Returns masks whose last query sees no key, of all heads, of each head, of all queries."""
    seen = torch.rand(batch, 1, queries, keys) > 0.4
    seen[..., -1, :] = False
    bias = torch.randn(batch, 2, queries, keys)
    return {
        "bool": seen,
        "float": torch.where(seen, bias, -torch.inf),
        "padding": torch.tensor([[[[False] * keys]]] * batch),
        "bias": bias,
        "rank 2": seen[0, 0],
    }


@pytest.mark.parametrize("kind", masks(1, 1, 1))
def test_queries_that_see_no_key(kind: str) -> None:
    sizes = ((2, 3, 5), (1, 1, 1), (3, 4, 2))
    sizes = sizes if kind != "rank 2" else ((2, 3, 5), (2, 1, 1), (2, 4, 2))

    def act(q: Any, k: Any, v: Any, mask: Any) -> Any:
        return F.scaled_dot_product_attention(q, k, v, mask)

    first = (*operands(*sizes[0]), masks(*sizes[0])[kind])
    module = from_exported_program(exported(act, first, dynamic=True))
    run = structir.compile(module)["main"]
    for size in sizes:
        values = [*operands(*size), masks(*size)[kind]]
        arrays = [value.numpy() for value in values]
        agree(structir.interpret(module, "main", *arrays), flat(act(*values)))
        agree(run(*arrays), flat(act(*values)))


def test_the_gradient_of_a_query_that_sees_no_key_is_zero() -> None:
    values, mask = [x.requires_grad_() for x in operands(2, 3, 5)], masks(2, 3, 5)["bool"]

    def loss(q: Any, k: Any, v: Any) -> Any:
        return F.scaled_dot_product_attention(q, k, v, mask).square().sum()

    expected = torch.autograd.grad(loss(*values), values)
    module = from_exported_program(exported(loss, tuple([x.detach() for x in values])))
    differentiated = passes.Gradient()(module)
    arrays = [x.detach().numpy() for x in values]
    _, gradients = structir.interpret(differentiated, "main_adjoint", *arrays)
    for gradient, wanted in zip(gradients, expected, strict=True):
        np.testing.assert_allclose(gradient, wanted, rtol=1e-4, atol=1e-5)
    assert not gradients[0][:, :, -1].any()


RANKS = {
    "query of rank 3": ((4, 3, 8), (2, 4, 6, 8)),
    "key of rank 3": ((2, 4, 3, 8), (4, 6, 8)),
    "heads of one row": ((2, 4, 3, 8), (2, 1, 6, 8)),
}


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("name", RANKS)
def test_operands_of_other_ranks(name: str, is_causal: bool) -> None:
    query, keys = RANKS[name]
    values = (torch.randn(query), torch.randn(keys), torch.randn(keys))

    def act(q: Any, k: Any, v: Any) -> Any:
        return F.scaled_dot_product_attention(q, k, v, is_causal=is_causal)

    module = from_exported_program(exported(act, values, dynamic=True))
    arrays = [value.numpy() for value in values]
    agree(structir.interpret(module, "main", *arrays), flat(act(*values)))


VARIANTS = {
    "efficient": (
        lambda q, k, v, m: aten._scaled_dot_product_efficient_attention(q, k, v, m, False)[0],
        lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, m),
    ),
    "cudnn": (
        lambda q, k, v, m: aten._scaled_dot_product_cudnn_attention(q, k, v, m, False)[0],
        lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, m),
    ),
    "flash": (
        lambda q, k, v, m: aten._scaled_dot_product_flash_attention(q, k, v, 0.0, True, scale=0.3)[
            0
        ],
        lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.3),
    ),
}


@pytest.mark.parametrize("name", VARIANTS)
def test_attention_kernels_of_other_devices(name: str) -> None:
    act, reference = VARIANTS[name]
    values = (*operands(2, 5, 5), masks(2, 5, 5)["float"])
    module = from_exported_program(exported(act, values))
    arrays = [value.numpy() for value in values]
    agree(structir.interpret(module, "main", *arrays), flat(reference(*values)))
