"""ONNX's own backend tests, as the onnx package has them: all interpreted, and a part compiled."""

from __future__ import annotations

import random
import re
import unittest
import warnings
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto

import structir
from structir.frontend.onnx.model import from_onnx
from structir.frontend.onnx_backend import Backend, CompiledModel
from tests.frontend import onnx_suite
from tests.frontend.onnx_suite import building

with warnings.catch_warnings(), np.errstate(all="ignore"):
    warnings.simplefilter("ignore")
    from onnx.backend.test.runner import Runner


class InterpretedModel(CompiledModel):
    """A model executed op by op by the interpreter."""

    def _program(self, values: Mapping[str, Any]) -> Any:
        module = from_onnx(self.model, values=values)
        return lambda *given: structir.interpret(module, "main", *given)


class Either(Backend):
    """The backend, compiled or interpreted."""

    model: type[CompiledModel] = CompiledModel

    @classmethod
    def prepare(cls, model: ModelProto, device: str = "CPU", **options: Any) -> CompiledModel:
        return cls.model(model)


# What is drawn has no answer; the last bits of 1e-15 have none, either. Lists of scalars are more
# than the suite itself can compare.
BEYOND = re.compile(r"bernoulli|dft_inverse(_opset19)?_cpu|loop16_seq_none")
PARTS, COMPILED = 16, 40
WINDOWS = ([2, 2, 2], [1, 1, 1], [4, 5, 3]), ([3, 2, 1], [2, 1, 3], [2, 5, 2])
NETWORKS = "RealModel"  # whole networks, whose weights are one constant


@cache
def suite() -> dict[str, Any]:
    """Returns the tests by name, loaded on first use: loading takes seconds."""
    return {
        name: item
        for category, items in categories().items()
        if category != NETWORKS
        for name, item in items.items()
        if name.endswith("_cpu")
    }


@cache
def categories() -> dict[str, dict[str, Any]]:
    with building():
        return dict(Runner(Either, __name__)._test_items)


@cache
def names() -> list[str]:
    return sorted(name for name in suite() if not BEYOND.search(name))


def run(item: Any) -> None:
    test = getattr(item.func, "__wrapped__", item.func)
    test(unittest.TestCase(), "CPU")


@pytest.mark.exhaustive
@pytest.mark.parametrize("number", range(COMPILED))
@pytest.mark.filterwarnings("ignore")
def test_compiled(number: int) -> None:
    run(suite()[random.Random(7).sample(names(), COMPILED)[number]])


@pytest.mark.sampled(1)
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.filterwarnings("ignore")
def test_interpreted(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Either, "model", InterpretedModel)
    wrong = {}
    for name in names()[part::PARTS]:
        try:
            run(suite()[name])
        except Exception as error:
            wrong[name] = error
    assert not wrong, "\n\n".join(f"{name}: {error}" for name, error in wrong.items())


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ["squeezenet", "shufflenet", "resnet50", "inception_v2"])
@pytest.mark.filterwarnings("ignore")
def test_whole_networks(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ONNX_HOME", str(tmp_path))
    run(categories()[NETWORKS][f"test_{name}_cpu"])


@pytest.mark.parametrize("kind", onnx_suite.REDUCTIONS)
def test_pools_of_the_suite_are_those_of_onnx(kind: str) -> None:
    x = np.random.default_rng(0).standard_normal((2, 2, 5, 6, 4)).astype("float32")
    for kernel, strides, sizes in WINDOWS:
        arguments = x, x.shape, kernel, strides, sizes, kind
        expected = onnx_suite.LOOP(*arguments, p=2)
        actual = onnx_suite.pool(*arguments, p=2)
        assert actual.dtype == expected.dtype
        np.testing.assert_allclose(actual, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.exhaustive
def test_most_of_the_suite_is_in_reach() -> None:
    assert len(names()) > 0.99 * len(suite())
