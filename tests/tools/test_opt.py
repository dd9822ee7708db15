"""Tests of `structir opt`: user-defined passes, instruments, trace files."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from structir.tools.cli import build

NEW_PASS = '''
from structir.ir import Expr
from structir.opdef.attributes import Ints
from structir.ops.layout import permute_dims
from structir.rewriting.rule import rewrite


@rewrite
def two_permutes(x: Expr, p: Ints, q: Ints):
    """Two permutes in a row become one."""
    yield permute_dims(permute_dims(x, p), q)
    yield permute_dims(x, tuple(p[i] for i in q))
'''
PROGRAM = """
@R.function
def main(x: R.Tensor(("n", "m", 3), "float32")):
    a = R.permute_dims(x, [1, 2, 0])
    b = R.permute_dims(a, [1, 2, 0])
    return R.exp(b)
"""


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "two_permutes.py").write_text(NEW_PASS)
    return tmp_path


def test_a_new_pass_is_one_short_file(files: Path) -> None:
    assert len(NEW_PASS.strip().splitlines()) <= 15
    words = ["opt", str(files / "program.py"), "--load", str(files / "two_permutes.py")]
    trace = files / "run.json"
    options = ["-p", "two_permutes{rounds=2}", "--verify", "--trace", str(trace)]
    result = CliRunner().invoke(build(), [*words, *options])
    assert result.exit_code == 0, result.output
    assert result.output.count("permute_dims") == 1
    (record,) = json.loads(trace.read_text())
    assert record["options"] == {"rounds": "2"}
    assert record["notes"][0].startswith("main: two_permutes at b")
    told = CliRunner().invoke(build(), ["opt", "--help"], env={"COLUMNS": "200"})
    assert "Two permutes in a row become one." in told.output


def test_two_passes_on_the_standard_input(files: Path) -> None:
    result = CliRunner().invoke(build(), ["opt", "-", "-p", "simplify,dce"], input=PROGRAM)
    assert result.exit_code == 0, result.output
    assert "axes=[2, 0, 1]" in result.output


def test_verify_reports_comparisons_and_accepts_sizes(files: Path) -> None:
    program = files / "required.py"
    program.write_text(PROGRAM.replace("    a =", '    R.require("n == 1009")\n    a =', 1))
    words = ["opt", str(program), "--load", str(files / "two_permutes.py"), "-q"]
    words += ["-p", "two_permutes", "--verify"]
    result = CliRunner().invoke(build(), words)
    assert result.exit_code == 4
    assert "compared nothing" in result.output
    assert "--sizes" in result.output
    result = CliRunner().invoke(build(), [*words, "--sizes", "n=1009"])
    assert result.exit_code == 0, result.output
    assert "main: compared at n=1009, m=17" in result.output


def test_verify_takes_a_seed_and_a_number_of_inputs(files: Path) -> None:
    words = ["opt", str(files / "program.py"), "-p", "simplify", "--verify", "-q"]
    lines = [
        CliRunner().invoke(build(), [*words, *options]).output
        for options in ([], ["--inputs", "5"], ["--seed", "1"])
    ]
    assert all("compared at" in line for line in lines)
    assert lines[0] != lines[1]


BROKEN = '''
from structir import function_pass, rewrite
from structir.ir import Expr
from structir.script import R


@function_pass
def broken_pass(function):
    """Fails."""
    return function.params[7]


@rewrite
def broken_rule(x: Expr):
    """Fails where it matches."""
    yield R.permute_dims(x, [1, 2, 0])
    yield {}["missing"]
'''


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("broken_pass", "IndexError: tuple index out of range"),
        ("broken_rule", "KeyError: 'missing'"),
    ],
)
def test_an_exception_in_user_code_is_the_error_of_the_user(
    files: Path, name: str, message: str
) -> None:
    (files / "broken.py").write_text(BROKEN)
    words = ["opt", str(files / "program.py"), "--load", str(files / "broken.py"), "-p", name]
    result = CliRunner().invoke(build(), words)
    assert result.exit_code == 1
    assert message in result.output
    assert 'broken.py", line' in result.output and f"in {name}" in result.output
    assert "bug in StructIR" not in result.output
    assert "structir/" not in result.output
