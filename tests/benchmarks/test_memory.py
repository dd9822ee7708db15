"""The benchmark of memory: every case runs, and its peaks never decrease."""

from pathlib import Path

import pytest

from benchmarks.memory import rows

pytestmark = pytest.mark.exhaustive


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads /proc")
def test_every_case_runs() -> None:
    cases = dict(rows(2, 64))
    assert {"StructIR, one file", "StructIR, external data"} <= cases.keys()
    assert all(peaks == sorted(peaks) and peaks[0] > 0 for peaks in cases.values())
