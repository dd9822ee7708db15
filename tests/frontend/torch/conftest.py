"""What the tests with torch share: equal operands in each run, in any order of the tests."""

import sys

import pytest


@pytest.fixture(autouse=True)
def seeded() -> None:
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(0)
