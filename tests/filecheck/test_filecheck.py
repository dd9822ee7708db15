"""The files of this folder: each runs `structir` as its RUN lines say, and checks what it shows."""

import io
import shlex
from pathlib import Path

import pytest
from filecheck.finput import FInput
from filecheck.matcher import Matcher
from filecheck.options import Options
from filecheck.parser import Parser
from typer.testing import CliRunner

from structir.tools.cli import build

HERE = Path(__file__).parent
FILES = sorted(HERE.glob("*.txt"))
RUN = "# RUN: structir "


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_file(file: Path) -> None:
    lines = [line for line in file.read_text().splitlines() if line.startswith(RUN)]
    assert lines, "no RUN line"
    for line in lines:
        command, _, check = line.removeprefix(RUN).partition(" | filecheck %s")
        words = [
            word.replace("%s", str(file)).replace("%S", str(HERE)) for word in shlex.split(command)
        ]
        expected = int(words.pop(0)) if words[0].isdigit() else 0
        result = CliRunner().invoke(build(), words)
        assert result.exit_code == expected, result.output
        options = Options(str(file), extensions={"MLIR_REGEX_CLS"})
        for word in shlex.split(check):
            options.check_prefixes = [word.removeprefix("--check-prefix=")]
        matcher = Matcher(options, FInput("output", result.output), Parser.from_opts(options))
        matcher.stderr = said = io.StringIO()
        assert matcher.run() == 0, said.getvalue() + result.output


def test_there_are_files() -> None:
    assert len(FILES) >= 3
