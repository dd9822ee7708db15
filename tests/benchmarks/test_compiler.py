"""The compiler benchmark: its arithmetic, and that it runs."""

import json
import os
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


SMALL = ["--budget", "0.01"]


def output(script: str, *options: str) -> str:
    command = [sys.executable, str(ROOT / "benchmarks" / script), *SMALL, *options]
    paths = os.pathsep.join([str(ROOT / "benchmarks" / "peers"), str(ROOT)])
    environment = os.environ | {"PYTHONPATH": paths}
    finished = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


def test_every_figure_is_measured() -> None:
    """In one process for all sections, which the benchmark measures in one each."""
    lines = output("structir_side.py", "--n", "60", "--kind", "transformer").splitlines()
    assert [json.loads(line)["section"] for line in lines] == list(FIGURES)


def test_figures_of_its_processes_are_stored(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("BENCH_VENVS", raising=False)
    stored = tmp_path / "figures.jsonl"
    options = ("--sizes", "60", "--rounds", "1", "--sections", "print", "equal")
    table = output("compiler.py", *options, "--json", str(stored))
    measured = [json.loads(line) for line in stored.read_text(encoding="utf-8").splitlines()]
    names = ["print", "struct_equal", "struct_hash"]
    assert [row["section"] for row in measured] == names
    assert all(name in table for name in names)
