"""Random ops: deterministic for a seed, and samples of their distributions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install structir[torch]")

import torch.nn.functional as F  # noqa: E402

import structir  # noqa: E402
from structir.frontend.torch import from_exported_program  # noqa: E402
from tests.frontend.torch.test_with_torch import exported  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")


def act(x: Any) -> Any:
    weights = torch.tensor([0.0, 1.0, 3.0])
    rows = x.shape[0]
    return (
        torch.rand(rows, 3),
        torch.randn_like(x),
        torch.randint(2, 9, (rows,)),
        torch.bernoulli(torch.full_like(x, 0.25)),
        torch.multinomial(weights.expand(rows, 3), 5, replacement=True),
        torch.multinomial(weights.expand(rows, 3), 2),
        F.dropout(x, 0.25, True),
        torch.normal(x, 2.0),
        torch.randperm(rows),
        x.clone().uniform_(1, 2),
        x.clone().bernoulli_(0.5),
        F.dropout2d(x.reshape(rows, 2, 3, 1), 0.5, True),
        torch.rand(rows, 3),
    )


def results(rows: int, seed: int = 0) -> list[Any]:
    module = from_exported_program(exported(act, (torch.ones(4, 6),), dynamic=True), seed=seed)
    x = np.ones((rows, 6), "float32")
    values = structir.interpret(module, "main", x)
    run = structir.compile(module)["main"]
    for value, *others in zip(values, run(x), run(x), strict=True):
        for other in others:
            np.testing.assert_array_equal(value, other)
    return list(values)


def test_samples_have_their_distributions() -> None:
    samples = results(6000)
    expected = act(torch.ones(6000, 6))
    for sample, wanted in zip(samples, expected, strict=True):
        theirs = wanted.numpy()
        assert (sample.dtype, sample.shape) == (theirs.dtype, theirs.shape)
        assert sample.min() == pytest.approx(theirs.min(), abs=4)
        assert sample.mean() == pytest.approx(theirs.mean(), rel=0.05, abs=0.05)
        assert sample.std() == pytest.approx(theirs.std(), rel=0.05)
    assert set(np.unique(samples[2])) == set(range(2, 9))
    assert samples[0].max() < 1
    assert (np.sort(samples[8]) == np.arange(6000)).all()
    assert (np.sort(samples[5], axis=1) == [1, 2]).all()
    assert np.ptp(samples[11], axis=2).max() == 0
    assert not np.array_equal(samples[0], samples[12])


def test_the_seed_determines_the_samples() -> None:
    first, second, other = results(5, 1), results(5, 1), results(5, 2)
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(a, b)
    assert not np.array_equal(first[0], other[0])


DISTRIBUTIONS = {
    "cauchy": lambda x: x.clone().cauchy_(2.0, 3.0),
    "log_normal": lambda x: x.clone().log_normal_(0.5, 0.7),
    "geometric": lambda x: x.clone().geometric_(0.3),
    "geometric of integers": lambda x: x.long().geometric_(0.8),
    "poisson": lambda x: torch.poisson(x + 4.5),
    "poisson of half": lambda x: torch.poisson((x + 30).half()),
    "binomial": lambda x: torch.binomial(x + 20, x + 0.3),
    "gamma": lambda x: torch._standard_gamma(x + 0.7),
    "dirichlet": lambda x: torch._sample_dirichlet(x.reshape(-1, 4) + 1.5)[:, 0],
}


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_quantiles_of_samples(name: str) -> None:
    sample, zeros = DISTRIBUTIONS[name], torch.zeros(20000)
    module = from_exported_program(exported(sample, (zeros,)))
    torch.manual_seed(0)
    own, theirs = structir.interpret(module, "main", zeros.numpy()), sample(zeros).numpy()
    assert (own.dtype, own.shape) == (theirs.dtype, theirs.shape)
    levels = [0.1, 0.25, 0.5, 0.75, 0.9]
    np.testing.assert_allclose(
        np.quantile(own, levels), np.quantile(theirs, levels), rtol=0.1, atol=0.1
    )
