"""Integers wrap around in compiled programs as interpreted, and no index that wraps leaves its
array."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent / "guarded_runs.py"
PROPERTIES = ["reads", "writes", "narrow_dtypes", "counted_loops", "whole_loops", "fused_ops"]
PROPERTIES += ["parts", "library_calls"]


@pytest.mark.parametrize("name", PROPERTIES)
def test_extreme_integers(name):
    done = subprocess.run(
        [sys.executable, SCRIPT, name], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, f"exit status {done.returncode}\n{done.stderr[-3000:]}"
