"""The benchmark of threads: its cases are one program on both sides, and the table has ratios."""

import sys
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

import structir

pytest.importorskip("onnxruntime")
sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))

from benchmarks.threads import CASES, concurrent, decode_step, layers, table_of
from benchmarks.turns import Sample


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", CASES)
def test_a_case_is_the_same_program_on_both_sides(name: str) -> None:
    args = CASES[name].arguments()
    own = structir.compile(CASES[name].module())["main"](*args)
    np.testing.assert_allclose(CASES[name].session(1)(*args), own, rtol=1e-3, atol=1e-3)


def test_layers_are_the_same_program_on_both_sides() -> None:
    case = layers(8)
    args = case.arguments()
    own = structir.compile(case.module())["main"]
    np.testing.assert_allclose(case.session(1)(*args), own(*args), rtol=1e-3, atol=1e-3)
    calls, seconds = concurrent([own], args, 2)
    assert calls > 0 and seconds > 0


def test_kernels_of_a_decode_step_run_on_one_thread() -> None:
    module, args = decode_step(2)
    executable = structir.compile(module, num_threads=2)
    executable["main"](*args)
    (region,) = executable._regions["main"]
    assert not any(region._bound.latest()[0].chunks)


def test_table_has_speed_ups() -> None:
    console = Console(width=120, file=StringIO(), record=True)
    times = [Sample(t, t) for t in (2e-6, 1e-6, 3e-6, 1e-6, 1e-6, 2e-6)]
    console.print(table_of([("one", times[:4]), ("two", times[4:])], 2))
    text = console.export_text()
    assert "2.00" in text and "3.00" in text and "0.50" in text
