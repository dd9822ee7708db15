"""Histograms, splits at the indices of a tensor, fractional pools and time-first convolutions, with
torch, at other sizes than those of the export."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install structir[torch]")

import torch.nn.functional as F  # noqa: E402

import structir  # noqa: E402
from structir.frontend.torch import from_exported_program  # noqa: E402
from tests.frontend.torch.test_with_torch import agree, exported, flat  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")


def assert_equal_to_torch(act: Any, operands: tuple[Any, ...], others: list[Any]) -> None:
    module = from_exported_program(exported(act, operands, dynamic=True))
    run = structir.compile(module)["main"]
    for values in (operands, *others):
        arrays = [value.numpy() for value in values]
        agree(structir.interpret(module, "main", *arrays), flat(act(*values)))
        agree(run(*arrays), flat(act(*values)))


# ---- pools and convolutions

POOLS = {
    "of a size": (F.fractional_max_pool2d, 2, {"output_size": (4, 5)}, (3, 4, 9, 10), 2),
    "of a ratio": (F.fractional_max_pool2d, (3, 2), {"output_ratio": (0.5, 0.5)}, (3, 4, 9, 10), 2),
    "to one window": (F.fractional_max_pool2d, 3, {"output_size": 1}, (2, 1, 5, 6), 2),
    "of volumes": (F.fractional_max_pool3d, 2, {"output_size": (3, 4, 2)}, (3, 2, 6, 7, 5), 3),
}


@pytest.mark.parametrize("name", POOLS)
def test_fractional_max_pools(name: str) -> None:
    op, window, options, sizes, count = POOLS[name]

    def act(x: Any, samples: Any) -> Any:
        return op(x, window, **options, return_indices=True, _random_samples=samples)

    def operands(*sizes: int) -> Any:
        return torch.randn(sizes), torch.rand(*sizes[:2], count)

    batch = 1 if count == 2 else sizes[0]  # torch specializes the batch of volumes
    assert_equal_to_torch(act, operands(*sizes), [operands(batch, *sizes[1:])])


def test_a_convolution_of_time_first() -> None:
    weight, bias = torch.randn(3, 4, 5), torch.randn(5)

    def act(x: Any) -> Any:
        return torch.conv_tbc(x, weight, bias, 1)

    assert_equal_to_torch(act, (torch.randn(7, 3, 4),), [])  # torch specializes all sizes


# ---- histograms


def sized(shape: Any) -> Any:
    """Returns the implementation for fake tensors that torch lacks, of a histogram."""
    return lambda x, *args, **options: [x.new_empty(sizes) for sizes in shape(*args)]


FAKES = {
    "histogram.bin_ct": sized(lambda count: [count, count + 1]),
    "histogram.bins_tensor": sized(lambda edges: [edges.shape[0] - 1, edges.shape[0]]),
    "_histogramdd_bin_edges": sized(lambda counts: [n + 1 for n in counts]),
    "_histogramdd_from_bin_cts": lambda x, counts, **options: x.new_empty(counts),
    "_histogramdd_from_bin_tensors": lambda x, edges, **options: x.new_empty(
        [e.shape[0] - 1 for e in edges]
    ),
}


@pytest.fixture(scope="module")
def _fakes() -> Iterator[None]:
    library = torch.library.Library("aten", "FRAGMENT")
    for name, fake in FAKES.items():
        torch.library.register_fake(f"aten::{name}", fake, lib=library)
    yield
    library._destroy()


EDGES = torch.tensor([-1.0, -0.5, 0.0, 0.7, 2.0])
HISTOGRAMS = {
    "between extremes": lambda x: torch.histogram(x, 5),
    "between limits": lambda x: torch.histogram(x, 6, range=(-1.0, 1.0)),
    "of weights": lambda x: torch.histogram(x, 4, weight=x.abs(), density=True),
    "of edges": lambda x: torch.histogram(x, EDGES),
    "of points": lambda x: torch.histogramdd(x, [3, 4]),
    "of points between limits": lambda x: torch.histogramdd(
        x, [3, 4], range=[-1.0, 1.0, -2.0, 2.0], density=True
    ),
    "of points and edges": lambda x: torch.histogramdd(x, [EDGES, EDGES[1:]], weight=x[:, 0]),
    "counts": lambda x: torch.histc(x, 7),
}


@pytest.mark.usefixtures("_fakes")
@pytest.mark.parametrize("name", HISTOGRAMS)
def test_histograms(name: str) -> None:
    def act(x: Any) -> Any:
        return tuple(torch.utils._pytree.tree_leaves(HISTOGRAMS[name](x)))

    others = [(x,) for x in (torch.randn(50, 2), torch.zeros(4, 2))]
    is_weighted = "weight" in name or "limits" in name  # of zero weights, the density is NaN
    assert_equal_to_torch(act, (torch.randn(20, 2),), others[:1] if is_weighted else others)


# ---- splits


@pytest.mark.parametrize("indices", [(2, 5), (0, 9), (5, 2), (-3, -1), (4, 20)])
def test_a_tensor_split_at_the_indices_of_a_tensor(indices: tuple[int, int]) -> None:
    operands = torch.randn(9, 2), torch.tensor([2, 5])
    program = torch.export.export(
        Split(), operands, dynamic_shapes=({0: torch.export.Dim.AUTO}, None)
    )
    module = from_exported_program(program)
    x, index = torch.randn(7, 2), torch.tensor(indices)
    agree(structir.interpret(module, "main", x.numpy(), index.numpy()), flat(Split()(x, index)))
    agree(structir.compile(module)["main"](x.numpy(), index.numpy()), flat(Split()(x, index)))


class Split(torch.nn.Module):
    def forward(self, x: Any, index: Any) -> Any:
        return torch.tensor_split(x, index)


@pytest.mark.parametrize("start", [lambda: 1, lambda: -2, lambda: torch.tensor(1)])
def test_a_narrow_from_either_end(start: Any) -> None:
    assert_equal_to_torch(
        lambda x: torch.narrow(x, 1, start(), 2), (torch.randn(3, 8),), [(torch.randn(1, 5),)]
    )


@pytest.mark.parametrize("axis", [0, 1])
def test_runs_of_equal_slices(axis: int) -> None:
    def act(x: Any) -> Any:
        return torch.unique_consecutive(x, return_inverse=True, return_counts=True, dim=axis)

    others = [(torch.randint(0, 2, sizes),) for sizes in ((1, 1), (1, 9), (4, 3))]
    assert_equal_to_torch(act, (torch.randint(0, 2, (2, 8)),), others)
