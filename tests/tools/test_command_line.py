"""Tests of all commands: help with examples, JSON, exit codes, completion."""

import json
import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import shellingham
from click.testing import Result
from typer.testing import CliRunner

import structir
from structir.passes.base import Pass
from structir.tools import cli
from structir.tools.checks import CHECKS
from structir.tools.command_page import page
from structir.tools.commands import check, print
from structir.tools.exit_codes import EXIT_CODES, ExitCode
from tests.frontend.models import made, node, value

DOCS = Path(__file__).parents[2] / "docs"
COMMANDS: dict[str, Any] = {name: cli.load_command(name) for name in cli.command_names()}
PROGRAM = """
@R.function
def main(x: R.Tensor(("n", 8), "float32"), w: R.Tensor((8, 6), "float32")):
    a = R.exp(x)
    b = R.exp(x)
    return R.matmul(R.add(a, b), w)
"""
WRONG = PROGRAM.replace("(8, 6)", "(9, 6)")
every_command = pytest.mark.parametrize("name", list(COMMANDS))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "model.py").write_text(PROGRAM)
    (tmp_path / "wrong.py").write_text(WRONG)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def structir_(*words: object, **environment: str) -> Result:
    env = {"COLUMNS": "300", **environment}
    return CliRunner().invoke(cli.build(), list(map(str, words)), env=env, prog_name="structir")


# ---- help


@every_command
def test_examples_of_the_help_are_valid(name: str) -> None:
    result = structir_(name, "--help")
    assert result.exit_code == 0
    command = COMMANDS[name]
    told, _, examples = command.help.partition("Examples[/bold]")
    assert told.strip() and "\n    " not in told
    lines = [line.strip() for line in examples.splitlines() if line.strip()]
    assert lines
    for line in lines:
        assert line in result.output
        words = shlex.split(line.split(" | jq ")[0].split(" > ")[0])
        words = words[words.index("structir") + 1 :]
        assert words[0] == name
        context = command.make_context(name, [], resilient_parsing=True)
        command.make_parser(context).parse_args(words[1:])  # refuses what it does not know


@every_command
def test_every_option_has_a_help_text(name: str) -> None:
    assert [p.name for p in COMMANDS[name].params if not p.help] == []


def test_the_page_matches_the_commands() -> None:
    assert (DOCS / "command-line.md").read_text(encoding="utf-8") == page()


def test_a_command_without_required_arguments_runs_without_any() -> None:
    result = structir_("explain")
    assert result.exit_code == 0
    assert "E0301" in result.stdout


# ---- JSON


JSON_CALLS = {
    "explain": "E0201",
    "check": "model.py",
    "export": "model.py --onnx -o model.onnx",
    "infer": "model.py",
    "print": "model.py",
    "view": "model.py -o page.html",
    "run": "model.py --sizes n=3 --backend interpret",
    "compile": "model.py",
    "bench": "model.py --sizes n=3 --repeat 1",
    "cache": "show",
    "shard": "model.py -s n=4 -w 2",
    "opt": "model.py -p cse",
    "fuzz": "--programs 1 --seed 1 --check text",
    "reduce": "model.py -c 'structir opt -p cse,nonsense'",
    "prove": "model.py -p cse",
    "import": "model.onnx",
}


@every_command
def test_json_has_the_documented_keys(name: str, folder: Path) -> None:
    if name == "import":
        values = value("x", ["batch", 3])
        onnx.save(made([node("Relu", "x", "y")], [values], ["y"]), folder / "model.onnx")
    result = structir_(name, *shlex.split(JSON_CALLS[name]), "--json")
    assert result.exit_code == 0, result.output
    data = json.loads(result.stdout)
    told = COMMANDS[name].help.partition("With --json:")[2].partition("[bold]")[0]
    assert [key for key in data if f"`{key}`" not in told] == []


def test_json_of_reduce(folder: Path) -> None:
    words = [*shlex.split(JSON_CALLS["reduce"]), "--json"]
    data = json.loads(structir_("reduce", *words).stdout)
    assert data["before"] > data["after"]
    assert structir.parse(data["text"])


def test_json_of_an_invalid_program_has_locations(folder: Path) -> None:
    for name in ("print", "infer", "run", "compile", "bench", "opt", "view", "shard"):
        result = structir_(name, "wrong.py", "--json", *(["-p", "cse"] if name == "opt" else []))
        assert result.exit_code == ExitCode.INVALID_PROGRAM
        (error,) = json.loads(result.stdout)["errors"]
        assert error["file"] == "wrong.py" and error["line"] == 6
        assert {"message", "severity", "column", "end", "notes"} <= error.keys()
    data = json.loads(structir_("check", "wrong.py", "model.py", "--json").stdout)
    assert [len(file["errors"]) for file in data["files"]] == [1, 0]
    assert data["files"][1]["symbolic_dims"] == ["n"]


def test_json_of_results(folder: Path) -> None:
    values = json.loads(structir_("run", "model.py", "--sizes", "n=3", "--json").stdout)["values"]
    assert [value["shape"] for value in values] == [[3, 8], [8, 6], [3, 6]]
    assert all(isinstance(value["mean"], float) for value in values)
    shapes = json.loads(structir_("infer", "model.py", "--json").stdout)["functions"]["main"]
    assert shapes["shapes"]["a"] == [["n", "8"]]
    steps = json.loads(structir_("opt", "model.py", "-p", "cse", "--json").stdout)
    assert "-        b: R.Tensor" in steps["passes"][0]["difference"]
    plan = json.loads(structir_("shard", "model.py", "-s", "n=4", "-w", "2", "--json").stdout)
    assert [shard["reads"]["x"] for shard in plan["shards"]] == [
        [[0, 2], [0, 8]],
        [[2, 4], [0, 8]],
    ]


def test_json_of_errors_without_a_location(folder: Path) -> None:
    np.savez(folder / "bad.npz", x=np.zeros((2, 7), "float32"))
    words = ["run", "model.py", "--inputs", "bad.npz", "--backend", "interpret", "--json"]
    result = structir_(*words)
    assert result.exit_code == ExitCode.RUN_TIME_ERROR
    (error,) = json.loads(result.stdout)["errors"]
    assert "expected 8" in error["message"] and "line" not in error


def test_json_replaces_nan_and_infinity_by_null(folder: Path) -> None:
    (folder / "model.py").write_text(PROGRAM.replace("R.add(a, b)", "R.log(R.negative(a))"))
    result = structir_("run", "model.py", "--sizes", "n=3", "--backend", "interpret", "--json")
    assert json.loads(result.stdout)["values"][-1]["mean"] is None


def test_a_plan_at_row_lengths_and_dtypes(folder: Path) -> None:
    text = (
        '@R.function\ndef main(x: R.Tensor(("n", "*", 3), "\'T")):\n    return R.sum(x, axis=1)\n'
    )
    (folder / "rows.py").write_text(text)
    options = ["--sizes", "n=4,x=[3,1,4,1]", "--dtypes", "T=float64", "-w", "2"]
    result = structir_("shard", "rows.py", *options)
    assert "main: 2 shards (2 x 1), 280 bytes in" in result.stdout
    result = structir_("shard", "rows.py", "--sizes", "x=[3,a]", "--dtypes", "T=float64")
    assert "expected NAME=INT or NAME=[INT,...], found 'x=[3,a]'" in result.stderr


def test_a_plan_as_tables(folder: Path) -> None:
    result = structir_("shard", "model.py", "-s", "n=4", "-w", "2", "--picture", "blocks.svg")
    lines = [line.strip() for line in result.stdout.splitlines()]
    assert lines[0] == "main: 2 shards (2 x 1), 512 bytes in"
    rows = [re.split(r" *[│┃] *", line)[1:-1] for line in lines if line[:1] in ("│", "┃")]
    assert rows == [
        ["shard", "gv1 (computed)", "x", "w", "bytes in", "bytes out"],
        ["0", "0:2 0:6", "0:2 0:8", "0:8 0:6", "256", "48"],
        ["1", "2:4 0:6", "2:4 0:8", "0:8 0:6", "256", "48"],
        ["input", "bytes", "sent", "ratio", "along axis 0 (parallel)"],
        ["x", "128", "128", "1.00", "disjoint"],
        ["w", "192", "384", "2.00", "full"],
    ]
    assert "traffic" in lines
    assert (folder / "blocks.svg").read_text().startswith("<svg")


# ---- exit codes


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("check model.py", ExitCode.SUCCESS),
        ("check wrong.py", ExitCode.INVALID_PROGRAM),
        ("check --nonsense", ExitCode.INVALID_USAGE),
        ("check missing.py", ExitCode.INVALID_USAGE),
        ("opt model.py -p nonsense", ExitCode.INVALID_USAGE),
        ("run model.py --inputs bad.npz --backend interpret", ExitCode.RUN_TIME_ERROR),
        ("run model.py --sizes n=999999999999999", ExitCode.RUN_TIME_ERROR),
        ("run model.py --sizes n=999999999999999999999999", ExitCode.RUN_TIME_ERROR),
        ("opt model.py -p breaking --verify", ExitCode.PASS_ERROR),
        ("fuzz --programs 1 --check failing -o found", ExitCode.FUZZ_FAILURE),
    ],
)
def test_exit_codes(
    folder: Path, words: str, code: ExitCode, monkeypatch: pytest.MonkeyPatch
) -> None:
    np.savez(folder / "bad.npz", x=np.zeros((2, 7), "float32"))
    breaking = Pass("breaking", lambda module: structir.parse(PROGRAM.replace("add", "multiply")))
    monkeypatch.setattr("structir.passes._ADDED", {"breaking": breaking})
    monkeypatch.setitem(CHECKS, "failing", _failing)
    assert structir_(*words.split()).exit_code == code


def _failing(*_: object) -> None:
    raise AssertionError("as it is meant to")


def test_unexpected_exceptions_are_internal_errors(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # no frame of this file is below that of the command: it would be the error of user code
    monkeypatch.setattr(check, "read_program", abs)
    result = structir_("check", "model.py")
    assert result.exit_code == ExitCode.INTERNAL_ERROR
    assert "TypeError: " in result.stderr and "bug in StructIR" in result.stderr


def test_system_errors_are_reported(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(check, "read_program", full)
    result = structir_("check", "model.py")
    assert result.exit_code == ExitCode.INVALID_USAGE and "No space left" in result.stderr


def test_interrupts_have_their_own_exit_code(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(print, "read_program", interrupted)
    assert structir_("print", "model.py").exit_code == ExitCode.INTERRUPTED


def test_help_lists_the_exit_codes() -> None:
    assert set(EXIT_CODES) == set(ExitCode)
    shown = " ".join(structir_("--help").output.split())
    assert all(f"{code:d} {told}" in shown for code, told in EXIT_CODES.items())


# ---- the shell


def completed(words: str) -> list[str]:
    environment = {
        "_STRUCTIR_COMPLETE": "complete_bash",
        "COMP_WORDS": f"structir {words}",
        "COMP_CWORD": str(len(words.split())),
    }
    return structir_(**environment).output.split()


def test_the_shell_completes_commands_options_and_passes() -> None:
    assert completed("co") == ["compile"]
    assert "--verify" in completed("opt --ver")
    assert completed("opt -p cse,dead") == ["cse,dead_code_elimination"]
    assert "passes" in completed("fuzz --check pa")


@pytest.mark.parametrize(
    ("shell", "line"),
    [
        ("bash", "complete -o"),
        ("zsh", "#compdef structir"),
        ("fish", "complete --command structir"),
    ],
)
def test_completion_can_be_shown(shell: str, line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shellingham, "detect_shell", lambda: (shell, f"/bin/{shell}"))
    result = structir_("--show-completion")
    assert "_STRUCTIR_COMPLETE" in result.output
    assert line in result.output


def test_no_color_holds_for_help_and_programs(folder: Path) -> None:
    colour = re.compile(r"\x1b\[(?:\d+;)*(?:[349][0-8]|10[0-7])[;m]")
    for words in (["--help"], ["opt", "--help"], ["print", "model.py"], ["infer", "model.py"]):
        assert colour.search(structir_(*words, FORCE_COLOR="1", NO_COLOR="").output)
        assert not colour.search(structir_(*words, FORCE_COLOR="1", NO_COLOR="1").output)
