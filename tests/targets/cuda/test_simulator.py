"""The CUDA backend on numba's simulator, in processes of their own: numba is told of it before it
is loaded. By hand: `NUMBA_ENABLE_CUDASIM=1 pytest tests/targets/cuda/simulated_programs.py`."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


SHORT = HERE / "simulated_random.py"
OTHERS = sorted({*HERE.glob("simulated_*.py")} - {SHORT})


@pytest.mark.parametrize(
    "files", [[SHORT], pytest.param(OTHERS, marks=pytest.mark.exhaustive)], ids=["short", "others"]
)
def test_on_the_simulator(files):
    run = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *map(str, files)]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    environment["NUMBA_ENABLE_CUDASIM"] = "1"
    found = subprocess.run(run, env=environment, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout + found.stderr
