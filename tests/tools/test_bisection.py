"""`opt --bisect` and `opt --why-not`: the first wrong pass and application, and failing clauses."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from structir.tools.bisection import _ordinal
from structir.tools.cli import build

RULES = '''
from structir import rewrite
from structir.ir import Expr
from structir.script import R


@rewrite
def exp_as_power(x: Expr):
    """Is wrong for vectors."""
    yield R.exp(x)
    if x.struct_info.ndim == 1:
        yield R.sin(x)
    else:
        yield R.power(R.const(2.718281828459045), x)
'''
PROGRAM = """
@R.function
def main(x: R.Tensor(("n", 4), "float32"), w: R.Tensor((4,), "float32")):
    a = R.exp(x)
    b = R.exp(R.multiply(a, a))
    c = R.tanh(b)
    d = R.exp(w)
    e = R.add(c, d)
    f = R.exp(e)
    return (f, R.matmul(f, w))
"""


@pytest.fixture
def words(tmp_path: Path) -> list[str]:
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "rules.py").write_text(RULES)
    return ["opt", str(tmp_path / "program.py"), "--load", str(tmp_path / "rules.py")]


def test_bisect_reports_the_application_and_a_small_program(words: list[str]) -> None:
    result = CliRunner().invoke(build(), [*words, "-p", "cse,exp_as_power", "--bisect"])
    assert result.exit_code == 4, result.output
    assert "first wrong pass: exp_as_power, the 1st that changes the program" in result.output
    assert "first wrong application of 4: exp_as_power at d" in result.output
    assert "smallest program: 1 of 8 bindings" in result.output
    assert result.output.count("= R.exp(w)") == 1
    assert "before:" in result.output


def test_bisect_as_json(words: list[str]) -> None:
    options = ["-p", "exp_as_power", "--bisect", "--json"]
    result = CliRunner().invoke(build(), [*words, *options])
    record = json.loads(result.stdout)
    assert (record["wrong"], record["applications"]) == ("exp_as_power", 4)


def test_bisect_of_right_passes(words: list[str]) -> None:
    result = CliRunner().invoke(build(), [*words, "-p", "cse,dce", "--bisect"])
    assert (result.exit_code, result.output.strip()) == (0, "no pass changes the results")


def test_why_not(words: list[str]) -> None:
    result = CliRunner().invoke(build(), [*words, "--why-not", "square", "-q"])
    assert result.exit_code == 0, result.output
    assert "square does not match" in result.output
    assert "expected a call of power" in result.output
    result = CliRunner().invoke(build(), [*words, "--why-not", "squared", "-q"])
    assert result.exit_code != 0
    assert "did you mean square" in result.output


def test_exact_is_an_error_where_it_does_not_apply(words: list[str]) -> None:
    result = CliRunner().invoke(build(), [*words, "-p", "canonicalise,exp_as_power", "--verify"])
    assert result.exit_code == 4
    options = ["-p", "square", "--verify", "--exact", "-q"]
    result = CliRunner().invoke(build(), [*words, *options])
    assert result.exit_code == 0  # the pass changes nothing


@pytest.mark.parametrize(
    ("number", "text"), [(1, "1st"), (2, "2nd"), (3, "3rd"), (11, "11th"), (22, "22nd")]
)
def test_ordinals(number: int, text: str) -> None:
    assert _ordinal(number) == text
