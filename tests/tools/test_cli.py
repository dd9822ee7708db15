"""Tests of the command line: output, streams and exit codes."""

import json
import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from click.testing import Result
from typer.testing import CliRunner

import structir
from structir.ir import structural_equal
from structir.tools import cli, commands
from tests.frontend.models import made, node, value

ROOT = Path(__file__).parents[2]
GOOD = """
from structir.script import I, R, T

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("batch", "seq", 8), "float32"), w: R.Tensor((8, "k"), "float32")):
        with R.dataflow():
            y = R.nn.softmax(R.matmul(x, w))
            R.output(y)
        return y

    @R.function
    def other(x: R.Tensor((4,), "float32")):
        return R.exp(x)
"""
WRONG = GOOD.replace('(8, "k")', '(9, "k")')
ILL_FORMED = GOOD.replace("return R.exp(x)", "return R.match_cast(x, R.Tensor((5,), 'float32'))")


@pytest.fixture
def good(tmp_path: Path) -> Path:
    path = tmp_path / "good.py"
    path.write_text(GOOD)
    return path


@pytest.fixture
def wrong(tmp_path: Path) -> Path:
    path = tmp_path / "wrong.py"
    path.write_text(WRONG)
    return path


def structir_(*words: object, stdin: str | None = None, **environment: str) -> Result:
    # wide enough for paths of temporary folders
    env = {"COLUMNS": "300", **environment}
    return CliRunner().invoke(cli.build(), [str(word) for word in words], input=stdin, env=env)


# ---- the command line itself


def test_help_shows_every_command_and_the_exit_codes() -> None:
    result = structir_("--help")
    assert result.exit_code == 0
    for name in ("check", "print", "infer", "run", "compile", "Exit codes", "NO_COLOR"):
        assert name in result.output


@pytest.mark.parametrize("command", ["check", "print", "infer", "run", "compile"])
def test_help_of_every_command_has_examples(command: str) -> None:
    result = structir_(command, "--help")
    assert result.exit_code == 0
    assert f"structir {command} " in result.output.split("Examples")[1]


def test_a_file_in_the_folder_is_a_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = 'def lambda_(word: str) -> None:\n    """Say it again."""\n    print(word * 2)\n'
    (tmp_path / "lambda_.py").write_text(command)
    monkeypatch.setattr(commands, "__path__", [*commands.__path__, str(tmp_path)])
    assert structir_("lambda", "ab").output == "abab\n"


def test_the_version() -> None:
    assert structir_("--version").output == f"structir {structir.__version__}\n"


def test_a_missing_file_is_a_wrong_command_line() -> None:
    result = structir_("check", "missing.py")
    assert result.exit_code == 2
    assert "missing.py" in result.stderr


@pytest.mark.parametrize(
    ("name", "content", "code", "words"),
    [
        ("bytes.py", b"\xff\xfe", 2, "cannot decode"),
        ("empty.py", b"", 1, "no function found"),
        ("bad.sir", b"hello", 1, "bad.sir: not a StructIR module file"),
    ],
)
def test_files_without_a_program(
    tmp_path: Path, name: str, content: bytes, code: int, words: str
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    result = structir_("check", path)
    assert result.exit_code == code
    assert words in result.stderr
    assert result.exception is None or isinstance(result.exception, SystemExit)


def test_other_code_of_a_script_is_ignored(tmp_path: Path) -> None:
    path = tmp_path / "script.py"
    path.write_text(GOOD + 'if __name__ == "__main__":\n    x = [1]\n    print(x)\n')
    assert structir_("check", path).exit_code == 0
    path.write_text(GOOD + "x = [1]\n")
    assert '__name__ == "__main__"' in structir_("check", path).stderr


# ---- check


def test_check_prints_counts(good: Path) -> None:
    result = structir_("check", good)
    assert result.exit_code == 0
    assert result.stdout.split()[-6:] == [str(good), "2", "3", "batch,", "seq,", "k"]
    assert structir_("check", "--quiet", good).stdout == ""


def test_check_prints_locations_and_exits_with_1(good: Path, wrong: Path) -> None:
    result = structir_("check", wrong, good)
    assert result.exit_code == 1
    line = 1 + WRONG.splitlines().index("            y = R.nn.softmax(R.matmul(x, w))")
    assert f"--> {wrong}:{line}:" in result.stderr
    assert "matmul" in result.stderr
    assert "^^^" in result.stderr
    assert str(good) in result.stdout  # the other program is still checked


def test_check_reports_errors_that_parsing_accepts(tmp_path: Path) -> None:
    path = tmp_path / "ill.py"
    path.write_text(ILL_FORMED)
    result = structir_("check", path)
    assert result.exit_code == 1
    assert "R.Tensor((5,)" in result.stderr


def test_check_reads_the_standard_input() -> None:
    assert structir_("check", "-", stdin=GOOD).exit_code == 0
    result = structir_("check", "-", stdin=WRONG)
    assert result.exit_code == 1
    assert "<stdin>:" in result.stderr


def test_check_shows_warnings_and_can_be_strict(tmp_path: Path) -> None:
    path = tmp_path / "trust.py"
    head = '@R.function\ndef main(x: R.Tensor(("n",), "float32")):\n    m = T.int64()\n'
    path.write_text(head + '    y: R.Tensor((4,), "float32") = R.exp(x)\n    return y\n')
    result = structir_("check", path)
    assert result.exit_code == 0
    assert result.stderr.startswith("warning[E0004]: ")
    assert structir_("check", "--strict", path).stderr == ""


@pytest.mark.parametrize(
    ("environment", "coloured"),
    [({"FORCE_COLOR": "1"}, True), ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, False), ({}, False)],
)
def test_colours(wrong: Path, environment: dict[str, str], coloured: bool) -> None:
    result = structir_("check", wrong, **{"NO_COLOR": "", "FORCE_COLOR": "", **environment})
    for part in ("\x1b[1;31merror[", "\x1b[1;31m^", "\x1b[1;32mhelp:"):
        assert (part in result.stderr) is coloured
    assert "error" in result.stderr


# ---- print


def test_print_shows_text_that_reads_back(good: Path) -> None:
    result = structir_("print", good)
    assert result.exit_code == 0
    assert structural_equal(structir.parse(result.stdout), structir.parse(GOOD))


def test_print_one_function_to_a_file(good: Path, tmp_path: Path) -> None:
    path = tmp_path / "out.py"
    assert structir_("print", good, "--function", "other", "-o", path).stdout == ""
    read = structir.parse(path.read_text())
    assert structural_equal(read["other"], structir.parse(GOOD)["other"])


def test_print_of_an_undefined_function(good: Path) -> None:
    result = structir_("print", good, "-f", "third")
    assert result.exit_code == 2
    assert "main, other" in result.stderr


def test_an_archive_is_read_too(good: Path, tmp_path: Path) -> None:
    path = tmp_path / "model.sir"
    structir.save(structir.parse(GOOD), path)
    assert structir_("print", path).stdout == structir_("print", good).stdout


def test_print_to_an_unwritable_file(good: Path, tmp_path: Path) -> None:
    result = structir_("print", good, "-o", tmp_path / "missing" / "out.py")
    assert result.exit_code == 2
    assert "cannot write" in result.stderr


# ---- infer


OPEN = """
@R.function
def main(
    a: R.Tensor((3, 4), "float32"), u: R.Tensor(ndim=2, dtype="float32"), v: R.Tensor
) -> R.Tensor((3, 5), "float32"):
    t = R.matmul(a, u)
    s = R.add(t, R.zeros((3, 5), "float32"))
    y = R.add(s, v)
    return y
"""
IMPOSSIBLE = OPEN.replace("R.add(s, v)", "R.ewise_fma(s, a, v)")


def test_infer_completes_the_shapes() -> None:
    result = structir_("infer", "-", stdin=OPEN)
    assert result.exit_code == 0
    assert result.stderr == ""
    assert 'u: R.Tensor((4, "d0"), dtype="float32")' in result.stdout
    assert "y: R.Tensor((3, 5)" in result.stdout
    assert 'v: R.Tensor(dtype="float32"))' in result.stdout


def test_infer_close_defaults_open_parameters() -> None:
    result = structir_("infer", "-", "--close", stdin=OPEN)
    assert result.exit_code == 0
    assert 'v: R.Tensor((3, 5), dtype="float32")' in result.stdout
    told = structir_("infer", "-", "--close", "--explain", stdin=OPEN).stdout.splitlines()
    assert "  v: (3, 5)   chosen" in told
    assert "  y: (3, 5)" in told


def test_infer_explain_prints_inferred_shapes() -> None:
    result = structir_("infer", "-", "--explain", stdin=OPEN)
    assert result.exit_code == 0
    assert "  y: (3, 5)" in result.stdout.splitlines()
    assert "chosen" not in result.stdout
    assert "  open: RowLe(inner=(*" in result.stdout
    assert re.search(r"  open: DimLe\(inner=\?\d+, outer=5\)", result.stdout)


@pytest.mark.parametrize("words", [(), ("--explain",), ("--close",)])
def test_infer_of_an_unsatisfiable_program(words: tuple[str, ...]) -> None:
    result = structir_("infer", "-", *words, stdin=IMPOSSIBLE)
    assert result.exit_code == 1
    assert result.stdout == ""
    assert "error" in result.stderr


# ---- run


@pytest.mark.parametrize("backend", ["interpret", "cpu"])
def test_run_prints_inputs_and_results(good: Path, backend: str) -> None:
    sizes = "--sizes", "batch=4,seq=16"
    result = structir_("run", good, *sizes, "--backend", backend, "--repeat", 2)
    assert result.exit_code == 0
    rows = {line.split()[0]: line for line in result.stdout.splitlines()}
    assert "(4, 16, 8)" in rows["x"]
    assert "(4, 16, " in rows["result"]
    assert f"main on {backend}: " in result.stderr


def test_run_is_deterministic_for_a_seed(good: Path) -> None:
    words = "run", good, "--backend", "interpret", "--seed"
    assert structir_(*words, 3).stdout == structir_(*words, 3).stdout
    assert structir_(*words, 3).stdout != structir_(*words, 4).stdout


def test_run_takes_arrays_from_a_file(good: Path, tmp_path: Path) -> None:
    path = tmp_path / "inputs.npz"
    np.savez(path, x=np.full((2, 3, 8), 7, np.float32))
    result = structir_("run", good, "--inputs", path, "--backend", "interpret")
    assert result.exit_code == 0
    row = next(line for line in result.stdout.splitlines() if line.split()[0] == "x")
    assert row.split()[-4:] == ["7", "0", "7", "7"]


@pytest.mark.parametrize(
    ("sizes", "part"),
    [
        ("batch=4,rows=2", "no symbolic dim rows"),
        ("batch", "--sizes: expected NAME=INT, found 'batch'"),
    ],
)
def test_run_rejects_invalid_sizes(good: Path, sizes: str, part: str) -> None:
    result = structir_("run", good, "--sizes", sizes)
    assert result.exit_code == 2
    assert part in result.stderr


def test_a_run_that_goes_wrong(good: Path, tmp_path: Path) -> None:
    path = tmp_path / "inputs.npz"
    np.savez(path, x=np.zeros((2, 3, 7), np.float32))
    result = structir_("run", good, "--inputs", path, "--backend", "interpret")
    assert result.exit_code == 3
    assert result.stderr.startswith("error: ")
    assert "expected 8" in result.stderr


def test_inputs_that_are_no_arrays(good: Path, tmp_path: Path) -> None:
    path = tmp_path / "inputs.npz"
    path.write_text("hello")
    plain = tmp_path / "inputs.npy"
    np.save(plain, np.zeros(2))
    for file in (path, plain):
        result = structir_("run", good, "--inputs", file)
        assert result.exit_code == 2
        assert "numpy.savez" in result.stderr


# ---- compile


def test_compile_for_an_unknown_target(good: Path) -> None:
    result = structir_("compile", good, "--target", "abacus")
    assert result.exit_code == 2
    assert "available: cpu" in result.stderr


def test_compile_shows_kernels(good: Path) -> None:
    result = structir_("compile", good, "--function", "other")
    assert result.exit_code == 0
    assert "# other" in result.stdout
    assert "exp" in result.stdout
    assert "compiled for cpu" in result.stderr


# ---- models of other systems


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.onnx"
    nodes = [node("MatMul", "x w", "h"), node("Relu", "h", "y")]
    onnx.save(made(nodes, [value("x", ["batch", 3])], ["y"], {"w": np.ones((3, 2), "f4")}), path)
    return path


def test_import_writes_a_program_that_runs(model: Path, tmp_path: Path) -> None:
    result = structir_("import", model, "-o", tmp_path / "model.sir")
    assert result.exit_code == 0
    shown = structir_("run", tmp_path / "model.sir", "--sizes", "batch=4")
    assert "(4, 2)" in shown.stdout
    assert structir_("run", model, "--sizes", "batch=4").stdout == shown.stdout


def test_import_shows_the_text(model: Path) -> None:
    assert 'R.Tensor(("batch", 3)' in structir_("import", model).stdout
    named = structir_("import", model, "--shape", "x=rows,3").stdout
    assert 'R.Tensor(("rows", 3)' in named
    assert structir_("import", model, "--shape", "rows,3").exit_code == 2
    assert structir_("import", model, "--shape", "x=rows,,3").exit_code == 2
    assert "expected the name of an input" in structir_("import", model, "--shape", "z=3").stderr


def test_import_of_an_exported_program(tmp_path: Path) -> None:
    program, written = ROOT / "examples" / "scorer.pt2", tmp_path / "scorer.sir"
    named = ("--rename", "s52=batch", "--rename", "s27=length")
    assert structir_("import", program, *named, "-o", written).exit_code == 0
    shown = structir_("run", written, "--sizes", "batch=4,length=5")
    assert "(4, 3)" in shown.stdout
    assert "(4, 3)" in structir_("run", program, "--sizes", "s52=4,s27=5").stdout
    assert structir_("import", program, "--rename", "s52").exit_code == 2


def test_import_of_files_that_are_no_models(model: Path, good: Path) -> None:
    assert structir_("import", good).exit_code == 2
    model.write_bytes(model.read_bytes()[:40])
    result = structir_("import", model)
    assert result.exit_code == 1
    assert "error" in result.stderr


def test_check_warns_of_a_program_for_one_size_and_strict_rejects_it(tmp_path: Path) -> None:
    path = tmp_path / "one_size.py"
    head = '@R.function\ndef main(x: R.Tensor(("n", 8), "float32")):\n'
    path.write_text(head + "    return R.reshape(x, (4, 10))\n")
    result = structir_("check", path)
    assert result.exit_code == 0
    assert result.stderr.startswith("warning[E0411]: expected a program for every size `n`")
    strict = structir_("check", "--strict", path)
    assert strict.exit_code == 1
    assert strict.stderr.startswith("error[E0411]: ")
    (record,) = json.loads(structir_("check", "--json", path).stdout)["files"]
    assert record["errors"] == []
    assert [warning["code"] for warning in record["warnings"]] == ["E0411"]
