"""Wrong rewrites and passes are caught by `VerifyResults()` with its defaults; correct ones pass.

The samples are small; `python -m tests.passes.manager.wrong_rewrites` measures all.
"""

import functools

import pytest

from tests.passes.manager.held_out_programs import HELD_OUT
from tests.passes.manager.held_out_rewrites import HELD_OUT_KINDS
from tests.passes.manager.wrong_programs import PROGRAMS
from tests.passes.manager.wrong_rewrites import (
    KINDS,
    Mutant,
    all_mutants,
    dim_count,
    false_alarms,
    is_caught,
    selected,
    witness,
)

NAMES = list(PROGRAMS)


# To find the mutants takes seconds: a test does it, not the collection by every worker.
@functools.cache
def sample() -> list[Mutant]:
    return selected(32)


@functools.cache
def held_out_sample() -> list[Mutant]:
    return selected(4, 0, [*HELD_OUT][::8], HELD_OUT_KINDS)


def test_mutants_have_every_kind_and_number_of_dims() -> None:
    assert len(PROGRAMS) == 40
    assert {dim_count(name) for name in PROGRAMS} == {0, 1, 2, 3, 4}
    kinds = {*KINDS, "dropped_check"}
    assert {mutant.kind for mutant in selected(len(kinds))} == kinds


@pytest.mark.parametrize("index", range(32))
def test_a_wrong_rewrite_is_caught(index: int) -> None:
    mutant = sample()[index]
    assert is_caught(mutant) or witness(mutant) is None


@pytest.mark.parametrize("name", NAMES[::7])
def test_no_shipped_pass_is_rejected(name: str) -> None:
    assert list(false_alarms([name])) == []


def test_all_mutants_are_pairs_of_different_modules() -> None:
    pairs = all_mutants(seed=1, count=6)
    assert pairs and all(before.script() != after.script() for _, before, after in pairs)
    assert {name.split(": ")[1] for name, _, _ in pairs} <= {*KINDS, "dropped_check"}


@pytest.mark.parametrize("index", range(4))
def test_a_held_out_rewrite_is_caught(index: int) -> None:
    mutant = held_out_sample()[index]
    assert is_caught(mutant) or witness(mutant) is None
