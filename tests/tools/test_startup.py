"""Imports at start-up: the command line, completions, a check, and the language's namespaces."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROGRAM = """
@R.function
def main(x: R.Tensor(("n", 8), "float32"), w: R.Tensor((8, 6), "float32")):
    return R.matmul(x, w)
"""
LIBRARIES = ("numba", "numpy", "pydantic", "rich", "scipy", "sympy")
RUN = "import sys; from structir.tools.cli import main; sys.argv[0] = 'structir'; main()"


def modules_after(statements: str, *words: str, **environment: str) -> set[str]:
    """Returns the modules that a fresh interpreter has imported when it ends."""
    return run(statements, *words, **environment)[1]


def run(statements: str, *words: str, **environment: str) -> tuple[str, set[str]]:
    """Returns what a fresh interpreter prints, and the modules that it has imported."""
    start = (
        "import atexit, sys\n"
        "names = lambda: filter(sys.modules.get, sys.modules)\n"
        "atexit.register(lambda: print('MODULES', *names(), file=sys.stderr))\n"
    )
    finished = subprocess.run(
        [sys.executable, "-c", start + statements, *words],
        env={k: v for k, v in os.environ.items() if "COVERAGE" not in k} | environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return finished.stdout, set(finished.stderr.rpartition("MODULES ")[2].split())


def libraries(modules: set[str]) -> set[str]:
    return modules & set(LIBRARIES)


def packages(modules: set[str]) -> set[str]:
    """Returns the packages and files right below `structir` that were imported."""
    return {name.split(".")[1] for name in modules if name.startswith("structir.")}


def commands(modules: set[str]) -> set[str]:
    return {name for name in modules if name.startswith("structir.tools.commands.")}


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "model.py"
    path.write_text(PROGRAM)
    return str(path)


def test_the_version_needs_no_command() -> None:
    modules = modules_after(RUN, "--version")
    assert not libraries(modules) and not commands(modules)
    assert packages(modules) == {"interrupts", "lazy", "tools", "tracebacks"}


COMPLETIONS = ["", "op", "opt --pri", "opt {file} -p cse,de", "run {file} -f ", "run {file} -s "]
COMPLETIONS += [f"{name} --" for name in ("bench", "cache", "check", "compile", "fuzz", "import")]
COMPLETIONS += [f"{name} --" for name in ("infer", "print", "reduce", "run", "shard", "view")]


@pytest.mark.parametrize("words", COMPLETIONS)
def test_a_completion_imports_no_part_of_the_compiler(words: str, file: str) -> None:
    line = f"structir {words}".format(file=file)
    count = len(line.split()) - (not line.endswith(" "))
    environment = {"COMP_WORDS": line, "COMP_CWORD": str(count)}
    modules = modules_after(RUN, _STRUCTIR_COMPLETE="complete_bash", **environment)
    assert not libraries(modules)
    assert packages(modules) <= {"errors", "interrupts", "lazy", "tools", "tracebacks"}
    assert len(commands(modules)) <= 1


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_completions_with_descriptions_are_light_too(shell: str) -> None:
    environment = {
        "_TYPER_COMPLETE_ARGS": "structir run --s",
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
    }
    environment |= {"_STRUCTIR_COMPLETE": f"complete_{shell}"}
    text, modules = run(RUN, **environment)
    assert "--seed" in text and "Seed of the random inputs" in text
    assert not libraries(modules)


def test_help_imports_no_command() -> None:
    assert not commands(modules_after(RUN, "--help"))


def test_a_check_imports_no_backend(file: str) -> None:
    modules = modules_after(RUN, "check", file)
    assert libraries(modules) <= {"pydantic", "rich"}
    assert commands(modules) == {"structir.tools.commands.check"}
    assert not packages(modules) & {"frontend", "interpret", "passes", "runtime", "targets"}


def test_the_namespaces_of_the_language_are_light() -> None:
    modules = modules_after("from structir.script import I, R, T")
    assert not libraries(modules) and "structir.ops" not in modules
    modules = modules_after("from structir.script import R; R.add")
    assert not libraries(modules) and "structir.opdef.gradient" not in modules
