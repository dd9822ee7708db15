"""The cases that have a text, through the reader, the op lines and `structir.solver.explain`."""

import warnings
from typing import Any

import attrs
import pytest

import structir
from structir.errors import DiagnosticWarning, StructInfoError
from structir.solver.report import Report
from structir.solver.solver import Solver, Value
from structir.solver.terms import Row
from tests.solver import judge
from tests.solver.case_program import Case
from tests.solver.case_text import NoText, text_of
from tests.solver.test_cases import CASES

SOLVED = 0.85  # a product of vectors has a rank of its own here, so some answers stay open


def text_or_none(case: Case) -> str | None:
    try:
        return text_of(case)
    except NoText:
        return None


WITH_TEXT = [(case, text) for case in CASES if (text := text_or_none(case)) is not None]


@attrs.frozen
class Heard:
    """A program that was heard, as the judge sees an answer."""

    case: Case
    report: Report
    sizes: dict[str, Any] = attrs.Factory(dict)
    rows: dict[str, Any] = attrs.Factory(dict)

    @property
    def program(self) -> "Heard":
        return self

    @property
    def solver(self) -> Solver:
        return self.report.functions["main"].solver

    def value(self, name: str) -> Value:
        return self.report.value("main", name)

    def shape(self, name: str) -> Row:
        return self.report.shape("main", name)


def heard(case: Case, text: str) -> Heard | None:
    """The answer to a case; None where it was found impossible."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DiagnosticWarning)
        try:
            report = structir.solver.explain(structir.parse(text))
        except StructInfoError:  # told by the reader already
            return None
    return None if report.conflicts else Heard(case, report)


@pytest.mark.parametrize(("case", "text"), WITH_TEXT, ids=[case["id"] for case, _ in WITH_TEXT])
def test_answer_is_sound(case: Case, text: str) -> None:
    found = heard(case, text)
    if case["expect"]["status"] == "conflict":
        return
    assert found is not None
    assert judge.unsound(found) == []  # type: ignore[arg-type]


def test_most_are_solved() -> None:
    solved = 0
    for case, text in WITH_TEXT:
        found = heard(case, text)
        if case["expect"]["status"] == "conflict":
            solved += found is None
        else:
            solved += found is not None and not judge.incomplete(found)  # type: ignore[arg-type]
    assert solved >= SOLVED * len(WITH_TEXT), f"{solved} of {len(WITH_TEXT)}"
