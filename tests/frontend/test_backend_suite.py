"""A seeded part of ONNX's own backend tests, as the onnx package has them."""

from __future__ import annotations

import random
import re
import unittest
import warnings
from typing import Any

import numpy as np
import pytest

from structir.frontend.onnx_backend import Backend

with warnings.catch_warnings(), np.errstate(all="ignore"):
    warnings.simplefilter("ignore")
    from onnx.backend.test import BackendTest

    SUITE: dict[str, Any] = {
        name: item
        for category in BackendTest(Backend, __name__)._test_items.values()
        for name, item in category.items()
        if name.endswith("_cpu")
    }

# Not supported: random numbers have no answer, some ops have no mapping, models take long.
BEYOND = re.compile(
    r"bernoulli|dropout|gradient|deform|tfidf|ai_onnx_ml|image_decoder|e8m0|affine_grid_.*expanded"
    r"|dft_inverse|dynamicquantizelinear|4d_causal_fp16|roialign_mode_max|unique_not_sorted_without"
    r"|bitcast|resnet|vgg|densenet|inception|shufflenet|squeezenet|alexnet|zfnet"
)
NAMES = sorted(name for name in SUITE if not BEYOND.search(name))
CHOSEN = random.Random(7).sample(NAMES, 40)


@pytest.mark.parametrize("name", CHOSEN)
@pytest.mark.filterwarnings("ignore")
def test_of_onnx(name: str) -> None:
    test = getattr(SUITE[name].func, "__wrapped__", SUITE[name].func)
    test(unittest.TestCase(), "CPU")


def test_most_of_the_suite_is_in_reach() -> None:
    assert len(NAMES) > 0.95 * len(SUITE)
