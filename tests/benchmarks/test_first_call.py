"""The benchmark of first calls: both sides of every case agree, and neither waits for the other."""

import numpy as np
import pytest

from benchmarks.first_call import HELD, Case, cases, figures, held


@pytest.fixture(autouse=True)
def _released():
    yield
    for waiting in HELD:
        waiting.set()


@pytest.mark.parametrize("case", list(cases(large=False)), ids=lambda case: case.name)
def test_the_interpreter_agrees_with_numpy(case: Case) -> None:
    actual = held(case.module)(*case.args)
    np.testing.assert_allclose(actual, case.numpy(*case.args), 2e-3, 2e-3)


def test_figures_are_times() -> None:
    assert min(figures(next(cases(large=False)), 1)) > 0
