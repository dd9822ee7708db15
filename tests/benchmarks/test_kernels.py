"""The kernel benchmark: its cases agree in every language at hand, and what its table says."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "examples")]

import kernel_cases  # noqa: E402
import kernel_page  # noqa: E402
import kernel_peers  # noqa: E402
import structir  # noqa: E402

SMALL = ("rms_norm 1,000", "100 ops", "exp 1,000")


def test_every_case_is_a_program() -> None:
    families = [f for f in kernel_cases.FAMILIES if f is not kernel_cases.encoders]
    cases = [case for family in families for case in family()]
    assert len({case.name for case in cases}) == len(cases)
    for case in cases:
        module = structir.parse(kernel_peers.text_of(case), constants=dict(case.constants))
        assert len(module["main"].params) == len(case.inputs)


def test_small_cases_agree_with_their_peers_and_are_timed() -> None:
    command = [sys.executable, str(ROOT / "benchmarks" / "kernels.py"), *SMALL]
    command += ["--rounds", "1", "--seconds", "0.001", "--peers", kernel_cases.ORT]
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
    lines = finished.stdout.splitlines()
    assert [sum(line.startswith(f"| {name}") for line in lines) for name in SMALL] == [1] * 3


@pytest.mark.parametrize(("theirs", "text"), [(0.006, "3.00 (2)"), (0.003, "**1.50 (2)**")])
def test_a_ratio_below_what_is_asked_is_bold(theirs: float, text: str) -> None:
    times = {kernel_peers.OWN: {"median": 0.002}, kernel_cases.JAX: {"median": theirs}}
    row = {"case": "exp", "asked": {kernel_cases.JAX: 2.0}, "microseconds": None}
    row |= {"flops": 0, "bytes": 0, "times": times}
    line = kernel_page.table(kernel_page.described([row], 1, 1.0)).splitlines()[-1]
    assert line == f"| exp | 2.00 ms |  |  |  |  | {text} |  |"
