"""Random programs on the simulator, and those in which it was once found to be wrong."""

from pathlib import Path

import pytest

from structir.tools.fuzzing import failures, random_program, replay

FINDINGS = sorted((Path(__file__).parents[2] / "tools" / "findings").glob("cuda-*"))


@pytest.mark.parametrize("file", FINDINGS, ids=lambda file: file.stem)
def test_saved_failures_are_fixed(file):
    assert not replay(file)


def test_random_programs():
    for seed in range(6000, 6004):
        found = [f"{seed} {each}" for each in failures(random_program(seed, 6), seed, ["cuda"])]
        assert not found
