"""Tests that cases give the same results after inference and compilation."""

import warnings
from typing import Any

import numpy as np
import pytest

import structir
from structir.errors import DiagnosticWarning
from tests.solver.case_program import Case
from tests.solver.case_text import text_of
from tests.solver.test_cases import CASES


def runs(case: Case) -> bool:
    """Returns whether a case can run: its solution has arrays, and no call is opaque."""
    solutions = case["expect"].get("solutions", [])
    arrays = bool(solutions) and not any("*" in shape for shape in solutions[0].values())
    return arrays and "R.sig" not in text_of(case)


def values(case: Case, solution: dict[str, list[int]]) -> list[Any]:
    random = np.random.default_rng(0)
    shapes = [solution[param["name"]] for param in case["params"]]
    return [np.asarray(random.random(shape), "float32") for shape in shapes]


@pytest.mark.parametrize("case", [c for c in CASES if runs(c)][::3], ids=lambda case: case["id"])
def test_completed_programs_run_the_same(case: Case) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DiagnosticWarning)
        module = structir.parse(text_of(case))
        completed = structir.infer(module)
    for solution in case["expect"]["solutions"][:2]:
        args = values(case, solution)
        expected = structir.interpret(module, "main", *args)
        for found in (
            structir.interpret(completed, "main", *args),
            structir.compile(completed)["main"](*args),
        ):
            assert np.shape(found) == np.shape(expected) == tuple(solution[case["ret"][0]])
            np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4)
