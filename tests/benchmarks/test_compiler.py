"""The compiler benchmark: its arithmetic, and that it runs."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.compiler import FIGURES, Figure, cell, least, medians, sides, slope

ROOT = Path(__file__).resolve().parents[2]


def figure(side: str, size: int, seconds: float, quickest: float) -> Figure:
    return Figure(side, "print", "transformer", size, seconds, quickest)


STORED = [
    figure("structir", 1000, 0.010, 0.009),
    figure("structir", 1000, 0.030, 0.008),
    figure("structir", 1000, 0.012, 0.011),
    figure("structir", 10000, 0.100, 0.080),
    figure("tvm", 1000, 0.024, 0.020),
]


def test_cells_are_medians_in_microseconds_a_binding() -> None:
    typical = medians(STORED)
    assert cell(typical, ("transformer", "print", "structir", 1000)) == "12.0"
    assert cell(typical, ("transformer", "print", "tvm", 1000)) == "24.0 (2.0x)"
    assert cell(typical, ("transformer", "print", "tvm", 10000)) == "-"


def test_slope_is_taken_from_the_least_times() -> None:
    quickest = least(STORED)
    assert slope(quickest, "transformer", "print", "structir") == "1.00"
    assert slope(quickest, "transformer", "print", "tvm") == ""


def test_peers_are_optional(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("BENCH_VENVS", raising=False)
    assert [side.name for side in sides()] == ["structir"]
    monkeypatch.setenv("BENCH_VENVS", str(tmp_path))
    assert [side.name for side in sides()] == ["structir"]
    (tmp_path / "vx" / "bin").mkdir(parents=True)
    (tmp_path / "vx" / "bin" / "python").touch()
    assert [side.name for side in sides()] == ["structir", "xdsl"]


@pytest.mark.exhaustive
def test_every_figure_is_measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("BENCH_VENVS", raising=False)
    stored = tmp_path / "figures.jsonl"
    small = ["--sizes", "60", "--rounds", "1", "--budget", "0.01", "--json", str(stored)]
    command = [sys.executable, str(ROOT / "benchmarks" / "compiler.py"), *small]
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
    measured = [json.loads(line) for line in stored.read_text(encoding="utf-8").splitlines()]
    assert [row["section"] for row in measured] == list(FIGURES)
