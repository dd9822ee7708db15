"""The benchmark of deduction runs, over every op."""

import subprocess
import sys
from pathlib import Path

from structir.ir import registered_ops

ROOT = Path(__file__).resolve().parents[2]


def test_it_prints_a_median_for_every_way() -> None:
    run = subprocess.run(
        [sys.executable, "benchmarks/deduction.py", "--every", "--times", "2", "--slowest", "1"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    rows = [[cell.strip() for cell in line.split("│")] for line in run.stdout.splitlines()]
    found = {row[1]: row for row in rows if len(row) > 4 and row[2].isdigit()}
    declared = [op for op in registered_ops() if hasattr(op.definition, "index_signature")]
    # other tests of this process declare ops, too
    lined = sum(op.definition.body.__module__.startswith("structir.") for op in declared)
    assert found.keys() == {"alike", "fresh", "emit"}
    assert all(int(row[2]) == lined and float(row[3]) > 0 for row in found.values())
