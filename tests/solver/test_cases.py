"""Tests the solver on the shape cases, and prints a summary line for each group.

The folder of cases is read from STRUCTIR_CASES; without it, the copy beside this file is used.
"""

import json
import os
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import attrs
import pytest

from tests.cases import every_case
from tests.solver import judge
from tests.solver.case_program import Case

FOLDER = Path(os.environ.get("STRUCTIR_CASES") or Path(__file__).parent)
TEXT = (FOLDER / "solver_cases.jsonl").read_text(encoding="utf-8")
CASES = [json.loads(line) for line in TEXT.splitlines()]
BY_ID = {case["id"]: case for case in CASES}
STRETCH_SOLVED = 0.92


@attrs.frozen
class Verdict:
    """Returns the errors in the result of a case, by kind."""

    conflict_expected: bool
    unsound: list[str] = attrs.Factory(list)  # a false conflict, or a solution that is left out
    missed: list[str] = attrs.Factory(list)
    wrong_op: list[str] = attrs.Factory(list)
    not_minimal: list[str] = attrs.Factory(list)

    @property
    def solved(self) -> bool:
        return not (self.unsound or self.missed)


@cache
def verdict(name: str) -> Verdict:
    case = BY_ID[name]
    found = judge.answer(case)
    if case["expect"]["status"] == "conflict":
        return conflict_verdict(case, found)
    if found.bad is not None:
        return Verdict(False, unsound=[f"conflict at {found.bad}: {found.conflict}"])
    missed = judge.incomplete(found) + judge.checker_faults(case) + judge.label_faults(found)
    unsound = judge.unsound(found) + judge.invented(found)
    return Verdict(False, unsound, missed + judge.closing_faults(found))


def conflict_verdict(case: Case, found: judge.Answer) -> Verdict:
    expect = case["expect"]
    if found.bad is None:
        return Verdict(True, missed=["no conflict found"])
    first = expect["first_bad"]
    wrong = [] if found.bad == first else [f"blames {found.bad}, not {first}"]
    core, allowed = judge.explained(found), [sorted(m) for m in expect["muses"] or []]
    rough = [f"{core}, not one of {allowed}"] if allowed and sorted(core) not in allowed else []
    return Verdict(True, wrong_op=wrong, not_minimal=rough)


@every_case("case", CASES, ids=lambda case: case["id"])
def test_answer_is_sound_and_core_cases_are_solved(case: Case) -> None:
    found = verdict(case["id"])
    assert found.unsound == []
    assert found.wrong_op == []
    assert found.not_minimal == []
    if case["level"] == "core":
        assert found.missed == []


def test_stretch_cases_are_mostly_solved() -> None:
    solved = [verdict(case["id"]).solved for case in CASES if case["level"] == "stretch"]
    assert sum(solved) >= STRETCH_SOLVED * len(solved)


def summary(judged: Callable[[str], Verdict]) -> Iterator[str]:
    """Returns a summary line for each group."""
    groups: dict[str, Counter[object]] = defaultdict(Counter)
    for case in CASES:
        count, found = groups[case["group"]], judged(case["id"])
        count[case["level"], "total"] += 1
        count[case["level"], "solved"] += found.solved
        count["unsound"] += bool(found.unsound)
        if found.conflict_expected:
            count["conflicts"] += 1
            count["right op"] += found.solved and not found.wrong_op
            count["minimal"] += found.solved and not found.not_minimal
    for name, count in sorted(groups.items()):
        yield (
            f"{name:8} core {count['core', 'solved']}/{count['core', 'total']}"
            f"  stretch {count['stretch', 'solved']}/{count['stretch', 'total']}"
            f"  unsound {count['unsound']}"
            f"  conflicts with the right op {count['right op']}/{count['conflicts']}"
            f"  minimal sets {count['minimal']}/{count['conflicts']}"
        )


def test_summary(capsys: pytest.CaptureFixture[str]) -> None:
    lines = list(summary(verdict))
    with capsys.disabled():
        print("", *lines, sep="\n")
    assert len(lines) == len({case["group"] for case in CASES})
