"""Programs before and after a pass: the files of `pairs`, one per pass.

A file holds cases: a line `# name: pipeline`, the program, a line `# after`, the expected program.
"""

import re
import warnings
from pathlib import Path

import pytest

import structir
from structir.errors import DiagnosticWarning, StructIRError
from structir.ir import structural_equal
from structir.passes import PassContext, VerifyIR, VerifyResults, all_passes, pipeline

FILES = sorted((Path(__file__).parent / "pairs").glob("*.txt"))
CASE = re.compile(r"^# ([^\n:]+): ([^\n]+)\n(.*?)^# after\n(.*?)(?=^# |\Z)", re.M | re.S)
CASES = [
    pytest.param(file.stem, *case.groups()[1:], id=f"{file.stem}: {case[1]}")
    for file in FILES
    for case in CASE.finditer(file.read_text())
]


@pytest.mark.parametrize(("name", "applied", "before", "after"), CASES)
def test_a_pair(name: str, applied: str, before: str, after: str) -> None:
    with warnings.catch_warnings():  # what one pass completes, reading alone cannot decide
        warnings.simplefilter("ignore", DiagnosticWarning)
        module = structir.parse(before)
    with PassContext([VerifyIR(), VerifyResults()]):
        result = pipeline(applied)(module)
    expected = structir.parse(after) if after.strip() != "the same" else module
    assert structural_equal(result, expected), result.script()
    assert structural_equal(structir.parse(result.script()), result)


def test_every_pass_has_a_pair() -> None:
    """Every pass has cases in the files of pairs or in a test file."""
    own = {file.stem.removeprefix("test_") for file in Path(__file__).parent.glob("test_*.py")}
    tested = {name.partition("{")[0] for case in CASES for name in case.values[1].split(",")}
    ours = [each for each in all_passes() if each.transform.__module__.startswith("structir.")]
    assert {each.name for each in ours} - tested - own == set()


def test_a_case_changes_its_program() -> None:
    with pytest.raises(StructIRError):
        pipeline("bind_symbolic_vars{sizes=q=3}")(structir.parse(CASES[0].values[2]))
