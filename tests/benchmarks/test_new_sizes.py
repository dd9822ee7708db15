"""The benchmark of new sizes: both sides have the same results at all sizes."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnxruntime")
sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))

from benchmarks.new_sizes import cases, floats, new_and_known, sides

CASES = {name: (model, shapes) for name, model, shapes in cases()}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", CASES)
def test_both_sides_have_the_same_results(name: str) -> None:
    model, shapes = CASES[name]
    own, peer = sides(model)
    for n in (2, 3, 4, 5, 6, 5):
        args = [floats(*shape) for shape in shapes(n)]
        results = own(*args)
        expected = peer(*args)
        actual = results if isinstance(results, tuple) else (results,)
        for array, wanted in zip(actual, expected, strict=True):
            np.testing.assert_allclose(array, wanted, rtol=1e-3, atol=1e-4)
    _, known = new_and_known(own, shapes, range(7, 9))
    assert known > 0
