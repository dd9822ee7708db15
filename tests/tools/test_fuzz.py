"""Tests of the fuzzer: some of its programs, and the handling of failures."""

import re
import signal
import sys
from pathlib import Path
from typing import Any

import numba.core.config
import numpy as np
import pytest
from typer.testing import CliRunner

import structir
from structir.errors import StructIRError
from structir.ir import IRModule
from structir.tools import checks
from structir.tools.checks import CHECKS, run_check
from structir.tools.cli import build
from structir.tools.comparison import Disagreement, require_agreement
from structir.tools.fuzzing import failure, failures, random_program, replay, signature_of
from structir.tools.reduction import size_of

ROOT = Path(__file__).parents[2]
CHEAP = ["text", "deduction", "solver", "passes"]  # the others compile kernels


def assert_no_failure(module: IRModule, seed: int, names: list[str]) -> None:
    violations = list(failures(module, seed, names))
    assert not violations, "\n".join([f"{seed} {v.signature}\n{v.error}" for v in violations])


@pytest.mark.sampled(1)
@pytest.mark.parametrize("chunk", range(4))
def test_programs_pass_every_check(chunk: int) -> None:
    for seed in range(5000 + chunk * 6, 5000 + (chunk + 1) * 6):
        module = random_program(seed, 6)
        names = [*CHEAP, "cpu", "shards"] if seed % 15 == 0 else CHEAP
        assert_no_failure(module, seed, names)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("chunk", range(4))
def test_polymorphic_programs_pass_every_check(chunk: int) -> None:
    for seed in range(chunk * 20, (chunk + 1) * 20):
        module = random_program(seed, 5, polymorphic=True)
        names = ["erasure", "solver"] + ["text", "passes", "cpu"] * (seed % 20 == 0)
        assert_no_failure(module, seed, names)


def test_polymorphic_programs_have_rows_dtype_variables_and_ragged_axes() -> None:
    texts = [random_program(seed, 5, polymorphic=True).script() for seed in range(40)]
    for part in ('"*s"', "'T", '"*:len"', "R.einsum(", "R.vmap(", "R.scan("):
        assert any(part in text for text in texts), part
    assert random_program(7, 5, polymorphic=True).script() == texts[7]


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch) -> str:
    """A check that every program with a call violates."""

    def calls(module: IRModule, seed: int) -> None:
        if "R.add(" in module.script():
            raise checks.Disagreement("it adds")

    monkeypatch.setitem(CHECKS, "calls", calls)
    return "calls"


def run(*words: object) -> tuple[int, str]:
    result = CliRunner().invoke(build(), ["fuzz", *map(str, words)])
    return result.exit_code, result.output


def test_a_failure_is_reduced_saved_and_replayed(planted: str, tmp_path: Path) -> None:
    words = ("--programs", 40, "--seed", 1, "--size", 12, "--check", planted, "-o", tmp_path)
    code, said = run(*words)
    assert code == 5, said
    (file,) = tmp_path.iterdir()  # all look alike: one is kept
    text = file.read_text()
    assert text.startswith("# calls: Disagreement")
    assert size_of(structir.parse(text)) <= 2, text
    code, said = run("--replay", file)
    assert code == 5
    assert "it adds" in said
    file.write_text(text.replace("R.add(", "R.subtract("))
    code, said = run("--replay", file)
    assert code == 0, said
    assert "passes" in said


def test_failures_with_large_constants_are_archives(tmp_path: Path) -> None:
    from_text = """
@R.function
def main(x: R.Tensor(("n",), "float32")):
    return R.add(R.const([0.5, 1.5], "float32"), x)
"""
    structir.save(structir.parse(from_text), tmp_path / "text-3.sir")
    assert replay(tmp_path / "text-3.sir") == []


def test_success_is_exit_code_0(tmp_path: Path) -> None:
    code, said = run("--programs", 3, "--seed", 0, "--check", "text", "-o", tmp_path / "none")
    assert code == 0, said
    assert not (tmp_path / "none").exists()
    assert "3 programs" in said


def test_the_simulator_must_be_selected_before_cuda_is_initialized(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "numba.cuda", sys)
    monkeypatch.setattr(numba.core.config, "ENABLE_CUDASIM", 0)
    with pytest.raises(StructIRError, match="already imported for a GPU"):
        run_check("cuda", random_program(1, 2), 1)


def test_narrow_floats_may_differ_by_their_rounding() -> None:
    module = structir.parse(HALVES)
    x = np.float16([0.1, 0.2, 0.3])
    expected = structir.interpret(module, "main", x)
    require_agreement(module, "main", [x], expected, expected * np.float16(1.001))
    with pytest.raises(Disagreement):
        require_agreement(module, "main", [x], expected, expected * np.float16(1.1))


HALVES = """
@R.function
def main(x: R.Tensor((3,), "float16")):
    return R.exp(R.exp(x))
"""


@pytest.mark.parametrize("ctrl_c", [signal.default_int_handler, signal.SIG_IGN])
def test_termination_reports_the_results_so_far(
    ctrl_c: Any, planted: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def terminated(module: IRModule, fails: Any) -> IRModule:
        signal.raise_signal(signal.SIGTERM)
        raise AssertionError

    monkeypatch.setattr("structir.tools.fuzzing.reduce_module", terminated)
    before = signal.signal(signal.SIGINT, ctrl_c), signal.getsignal(signal.SIGTERM)
    try:
        words = ("--programs", 40, "--seed", 1, "--size", 12, "--check", planted, "-o", tmp_path)
        code, output = run(*words)
    finally:
        signal.signal(signal.SIGINT, before[0])
    assert code == 5, output
    assert "seeds from 1, interrupted" in output
    assert replay(next(tmp_path.iterdir()))  # saved as it was generated
    assert signal.getsignal(signal.SIGTERM) == before[1]


def test_an_unknown_check_is_wrong_usage() -> None:
    code, said = run("--check", "nothing")
    assert code == 2
    assert "nothing" in said


def test_the_same_seed_generates_the_same_program() -> None:
    assert random_program(5, 6).script() == random_program(5, 6).script()


def test_failures_of_one_cause_have_one_signature() -> None:
    def raised(name: str) -> Exception:
        try:
            structir.parse(f"@R.function\ndef main(x: R.Tensor((3,), 'float32')):\n  return {name}")
        except StructIRError as error:
            return error
        raise AssertionError

    assert signature_of(raised("R.exp(x, 5)")) == signature_of(raised("R.exp(x, 7)"))
    assert signature_of(raised("R.exp(x, 5)")) != signature_of(raised("x" * 9))


# ---- the checks themselves notice what they are for

UNTRUE = """
@R.function(pure=False)
def main(x: R.Tensor(("n",), "float32")):
    y: R.Tensor(("n", 3), "float32") = R.call_packed(
        "tests.fuzz.flat", x, sinfo_args=R.Tensor("float32")
    )
    return x
"""


@pytest.mark.filterwarnings("ignore")
def test_deduction_notices_an_untrue_struct_info() -> None:
    structir.interpret.register_extern("tests.fuzz.flat", lambda x: x)
    found = failure("deduction", structir.parse(UNTRUE), 0)
    assert found is not None
    assert "violates its StructInfo: y" in str(found.error)


KEPT = sorted(f for f in (Path(__file__).parent / "findings").iterdir() if f.is_file())
FINDINGS = [file for file in KEPT if not file.stem.startswith("cuda")]  # in a process of their own


@pytest.mark.sampled(15)
@pytest.mark.parametrize("file", FINDINGS, ids=lambda file: file.stem)
def test_saved_failures_are_fixed(file: Path) -> None:
    assert not replay(file)


def test_generation_errors_are_failures(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def undrawn(seed: int, size: int, polymorphic: bool) -> IRModule:
        raise ZeroDivisionError(seed)

    monkeypatch.setattr("structir.tools.commands.fuzz.fuzzing.random_program", undrawn)
    code, said = run("--programs", 3, "--seed", 7, "-o", tmp_path)
    assert code == 5, said
    (file,) = tmp_path.iterdir()
    assert file.name == "generate-7.txt"
    assert "ZeroDivisionError: 7" in file.read_text()


def test_every_check_is_documented() -> None:
    text = (ROOT / "docs" / "testing.md").read_text()
    rows = set(re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE))
    assert rows >= set(CHECKS)
