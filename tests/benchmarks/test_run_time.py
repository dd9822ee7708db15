"""The run-time benchmark: what its table says, and that it runs at tiny sizes."""

import json
import subprocess
import sys
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from benchmarks.run_time import table_of, time_text

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(1.234e-6, "1.23 us"), (456.7e-6, "457 us"), (0.012, "12.0 ms"), (2.5, "2.50 s")],
)
def test_times_are_in_the_unit_that_suits(seconds: float, text: str) -> None:
    assert time_text(seconds) == text


def test_table_has_ratios_and_programs_together() -> None:
    rows = [
        {"program": name, "sizes": sizes, "compiled": 0.002, "numpy": numpy}
        for sizes, numpy in (("small", 0.003), ("large", 0.001))
        for name in ("one", "two")
    ]
    console = Console(width=100, file=StringIO(), record=True)
    console.print(table_of(rows, 5))
    lines = [line.split("│") for line in console.export_text().splitlines() if "ms" in line]
    assert [line[1].strip() for line in lines] == ["one", "one", "two", "two"]
    assert [line[-2].strip() for line in lines] == ["1.50", "0.50", "1.50", "0.50"]


@pytest.mark.exhaustive
def test_every_program_agrees_with_numpy_and_is_timed(tmp_path: Path) -> None:
    stored = tmp_path / "figures.jsonl"
    small = ["--elements", "1", "1000", "--batches", "1x3", "--rounds", "1", "--json", str(stored)]
    command = [sys.executable, str(ROOT / "benchmarks" / "run_time.py"), *small]
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
    rows = [json.loads(line) for line in stored.read_text(encoding="utf-8").splitlines()]
    names = ["relu(x*a+b)", "gelu-tanh", "softmax", "layer_norm"]
    assert [row["program"] for row in rows] == [*names, *names, "MiniLM encoder"]
    assert all(row["compiled"] > 0 and row["numpy"] > 0 for row in rows)
