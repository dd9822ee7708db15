"""The list of broken rules stays true: each rule stands in its file, once."""

import re
from pathlib import Path

import pytest

from tests.mutants import HERE, MUTANTS, Mutant


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.what)
def test_the_rule_is_there(mutant: Mutant) -> None:
    text = Path(HERE / mutant.file).read_text(encoding="utf-8")
    assert text.count(mutant.rule) == 1
    compile(text.replace(mutant.rule, mutant.broken), mutant.file, "exec")


@pytest.mark.parametrize("tests", sorted({mutant.tests for mutant in MUTANTS}))
def test_make_test_runs_the_tests_of_the_rule(tests: str) -> None:
    paths = [HERE / part for part in tests.split()]
    files = [file for path in paths for file in (path.rglob("*.py") if path.is_dir() else [path])]
    assert files
    left_out = re.compile(r"pytest\.mark\.(exhaustive|sampled)")
    assert not [file.name for file in files if left_out.search(file.read_text(encoding="utf-8"))]
