"""Profiles list every kernel once, with source locations and plausible values."""

import numpy as np
import pytest
from typer.testing import CliRunner

import structir
from structir.script import I, R
from structir.tools.cli import build

TEXT = """
@R.function
def main(x: R.Tensor(("n", 32), "float32"), w: R.Tensor((32, 16), "float32")):
    return R.sum(R.exp(R.matmul(x, w)), axis=0)
"""


@I.ir_module
class Calls:
    @R.function
    def layer(x: R.Tensor(("n",), "float32")):
        return R.exp(x)

    @R.function
    def main(x: R.Tensor(("n",), "float32"), twice: R.Tensor((), "bool")):
        y = Calls.layer(x)
        if twice:
            z = Calls.layer(y)
        else:
            z = y
        return z


def floats(*shape):
    return np.random.default_rng(0).standard_normal(shape, np.float32)


def test_figures():
    executable = structir.compile(structir.parse(TEXT, filename="model"))
    x, w = floats(64, 32), floats(32, 16)
    found = executable.profile(x, w, repeat=3)
    assert len(found.kernels) == len(executable.plans()[0].kernels)
    assert sum(k.operations for k in found.kernels) >= 2 * 64 * 32 * 16 + 2 * 64 * 16
    assert sum(k.bytes for k in found.kernels) >= x.nbytes + w.nbytes + 16 * 4
    assert all(k.runs == 1 and k.seconds > 0 and k.gigabytes > 0 for k in found.kernels)
    text = str(found)
    assert "R.matmul at model:4" in text and "whole call" in text and "GFLOP/s" in text
    wanted = np.exp(x @ w).sum(0)
    np.testing.assert_allclose(executable["main"](x, w), wanted, rtol=1e-4)


@pytest.mark.parametrize(("twice", "runs"), [(True, 2), (False, 1)])
def test_kernels_of_called_functions_are_counted(twice, runs):
    executable = structir.compile(Calls)
    found = executable.profile(floats(100), np.asarray(twice), repeat=2)
    assert [k.runs for k in found.kernels] == [runs]
    assert found.kernels[0].operations == runs * 100


def test_bench_shows_the_table(tmp_path):
    file = tmp_path / "model.py"
    file.write_text(TEXT)
    done = CliRunner().invoke(build(), ["bench", str(file), "--sizes", "n=8", "--repeat", "2"])
    assert done.exit_code == 0 and "R.matmul at" in done.output and "whole call" in done.output
    wrong = CliRunner().invoke(build(), ["bench", str(file), "--sizes", "k=8"])
    assert wrong.exit_code == 2 and "no symbolic dim k" in wrong.output
