"""Tests of `structir prove`: verdicts, exit codes and JSON."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from structir.tools.cli import build
from structir.tools.exit_codes import ExitCode

PROGRAM = """from structir.script import R

@R.function
def main(x: R.Tensor(("n", 3), "float32")):
    return {}
"""


def prove(tmp_path: Path, before: str, after: str | None, *words: str) -> Any:
    paths = [tmp_path / "before.py", tmp_path / "after.py"]
    for path, result in zip(paths, (before, after), strict=True):
        if result is not None:
            path.write_text(PROGRAM.format(result), encoding="utf-8")
    files = [str(path) for path in paths[: 2 if after is not None else 1]]
    return CliRunner().invoke(build(), ["prove", *files, *words])


@pytest.mark.parametrize(
    ("before", "after", "code", "text"),
    [
        ("R.add(x, x)", "R.multiply(x, 2)", 0, "main: proved over the reals for all sizes"),
        ("R.flip(R.flip(x, axis=0), axis=0)", "x", 0, "main: proved bit for bit"),
        ("R.abs(x)", "x", ExitCode.PASS_ERROR, "main: refuted"),
        ("R.sin(R.negative(x))", "R.negative(R.sin(x))", ExitCode.NOT_DECIDED, "sin(-1 * x[i, j])"),
    ],
)
def test_verdicts(tmp_path: Path, before: str, after: str, code: int, text: str) -> None:
    result = prove(tmp_path, before, after, "--proof", "--check")
    assert result.exit_code == code and text in result.output
    assert ("checked 1 equation again" in result.output) is (code == 0)


def test_passes_are_proved_and_written_as_json(tmp_path: Path) -> None:
    result = prove(tmp_path, "R.add(x, R.negative(x))", None, "-p", "simplify", "--json")
    assert result.exit_code == 0
    (record,) = json.loads(result.stdout)["functions"]
    assert record["verdict"] == "proved" and record["bitwise"] is True


def test_one_second_program_is_needed(tmp_path: Path) -> None:
    assert prove(tmp_path, "x", None).exit_code == ExitCode.INVALID_USAGE
    assert prove(tmp_path, "x", "x", "-p", "cse").exit_code == ExitCode.INVALID_USAGE
    assert prove(tmp_path, "x", "x", "--function", "f").exit_code == ExitCode.INVALID_USAGE
