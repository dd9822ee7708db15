"""The list of broken rules stays true: each rule stands in its file, once."""

from pathlib import Path

import pytest

from tests.mutants import HERE, MUTANTS, Mutant


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.what)
def test_the_rule_is_there(mutant: Mutant) -> None:
    text = Path(HERE / mutant.file).read_text(encoding="utf-8")
    assert text.count(mutant.rule) == 1
    compile(text.replace(mutant.rule, mutant.broken), mutant.file, "exec")
