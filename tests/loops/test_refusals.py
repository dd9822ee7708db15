"""Every refusal of a primitive prevents a wrong result, or answers arguments without a result."""

import pytest

from tests.loops.refusals import Refusal, all_refusals
from tests.loops.refused import Case
from tests.loops.refused_bad_arguments import BAD_ARGUMENTS
from tests.loops.refused_wrong_results import WRONG_RESULTS


def check_message(case: Case) -> Refusal:
    """Checks the diagnostic of a refused step; returns the refusal."""
    refusal, diagnostic = case.refused(case.kernel())
    assert diagnostic.code == case.code and diagnostic.hint
    assert diagnostic.op in (None, *case.step[:1])
    assert len(diagnostic.notes) >= case.locations, "both locations are named"
    return refusal


@pytest.mark.parametrize("case", WRONG_RESULTS, ids=lambda case: case.title)
def test_refusal_prevents_a_wrong_result(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    check_message(case)
    kernel = case.kernel()
    wrong = case.unchecked(kernel, monkeypatch)
    assert not case.computes_the_same(kernel, wrong), wrong


@pytest.mark.parametrize("case", BAD_ARGUMENTS, ids=lambda case: case.title)
def test_refused_arguments_have_no_result_or_the_same(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_message(case)
    kernel = case.kernel()
    try:
        new = case.unchecked(kernel, monkeypatch)
        same = case.computes_the_same(kernel, new)
    except Exception:
        return  # no result
    assert same, new


def test_every_refusal_has_a_case() -> None:
    """A new refusal needs a case: one that shows the wrong result that it prevents, or, if its
    arguments have no result or the same, a bad argument."""
    answered = {case.refused(case.kernel())[0] for case in (*WRONG_RESULTS, *BAD_ARGUMENTS)}
    missing = sorted(map(str, all_refusals() - answered))
    assert not missing, "\n".join(missing)
    assert len(answered) > 100
