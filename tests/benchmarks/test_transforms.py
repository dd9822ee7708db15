"""The benchmark of traced functions runs, and its results agree with each other."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_it_prints_every_figure() -> None:
    run = subprocess.run(
        [sys.executable, "benchmarks/transforms.py", "--quick"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    for figure in ("us per op", "vmap of attention", "train step", "cold, 4 blocks and 1"):
        assert figure in run.stdout
