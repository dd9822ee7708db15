"""The benchmark for GPUs, from end to end, on threads of the host with a driver that only tells
the time."""

import ctypes
import itertools
import subprocess
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "examples"))

from benchmarks import cuda as benchmark  # noqa: E402
from structir.targets.cuda import target  # noqa: E402
from tests.targets.cuda.host_threads import HostThreads  # noqa: E402

NEEDED = ("relu(x)", "layer_norm", "matmul 1024 float16", "linear + gelu by tanh")


def copied(to, source, size, stream):
    ctypes.memmove(to, source, size)
    return (0,)


@pytest.fixture
def device(monkeypatch):
    made = HostThreads()
    ticks = itertools.count()
    made.driver = SimpleNamespace(
        cuDeviceGetName=lambda length, number: (
            0,
            b"a GPU of threads\0\0".ljust(length, b"\0"),
        ),
        cuEventCreate=lambda flags: (0, object()),
        cuEventRecord=lambda event, stream: (0,),
        cuEventSynchronize=lambda event: (0,),
        cuEventElapsedTime=lambda start, end: (0, 1.0 + next(ticks)),
        cuMemcpyDtoDAsync=copied,
    )
    for module in (benchmark, target):
        monkeypatch.setattr(module, "device_of", lambda arch: made)
    monkeypatch.setattr(benchmark, "ROUNDS", 1)
    monkeypatch.setattr(benchmark, "SHORTEST", 0)
    monkeypatch.setattr(benchmark, "MOST", 1)
    monkeypatch.setattr(benchmark, "find_spec", lambda name: None)
    return made


@pytest.mark.exhaustive
def test_it_runs_and_all_is_right(device, monkeypatch, capsys):
    cases = benchmark.cases
    chosen = lambda torch: [c for c in cases(torch) if c.name.startswith(NEEDED)]  # noqa: E731
    monkeypatch.setattr(benchmark, "cases", chosen)
    monkeypatch.setattr(benchmark, "many_shapes", partial(benchmark.many_shapes, count=2))
    monkeypatch.setattr(sys, "argv", ["cuda.py", "--small"])
    benchmark.main()
    told = capsys.readouterr().out
    assert "Measured on a GPU of threads" in told
    assert told.count("| yes |") == len(NEEDED)
    assert "2 shapes with one compilation: yes" in told


def test_as_a_script_it_finds_what_it_needs():
    script = [sys.executable, str(ROOT / "benchmarks" / "cuda.py"), "--small"]
    found = subprocess.run(script, capture_output=True, text=True, check=False)
    assert found.returncode == 0 or "nothing to measure: no CUDA driver" in found.stderr


def test_every_case_is_a_program(device):
    for case in benchmark.cases(None):
        module = case.module()
        assert len(module["main"].params) == len(case.shapes)
