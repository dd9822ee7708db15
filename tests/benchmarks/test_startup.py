"""The benchmark of start-up: every case runs, and its time is that of the child process."""

from pathlib import Path

import pytest

from benchmarks.startup import PROGRAM, Case, cases, measure, seconds


def test_the_time_is_that_of_the_child_process() -> None:
    assert measure(Case("loop", None, "sum(range(10**7))"), 1) > measure(Case("", None, "pass"), 1)


@pytest.mark.parametrize("index", range(len(cases(""))))
def test_every_case_runs(index: int, tmp_path: Path) -> None:
    file = tmp_path / "model.py"
    file.write_text(PROGRAM)
    case = cases(str(file))[index]
    assert seconds(case) > 0 and (case.limit is None or case.limit <= 0.5)
