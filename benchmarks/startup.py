"""CPU time of start-up: the command line, completions and the namespaces of the language.

    python benchmarks/startup.py

Each row is the median of several child processes, measured by their processor time (user and
system) after one run that fills the bytecode cache. The bare interpreter and the import of typer
are beside them: they bound from below what the command can take.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).parents[1]
PROGRAM = """
from structir.script import I, R, T


@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n", 8), "float32"), w: R.Tensor((8, 6), "float32")):
        with R.dataflow():
            a = R.exp(x)
            y = R.matmul(a, w)
            R.output(y)
        return y
"""
COMMAND = "import sys; from structir.tools.cli import main; sys.argv[0] = 'structir'; main()"


class Case(NamedTuple):
    """A start of the interpreter: Python statements, arguments, and the line to complete."""

    title: str
    limit: float | None
    statements: str
    arguments: tuple[str, ...] = ()
    line: str = ""
    shell: str = "bash"


def cases(file: str) -> list[Case]:
    """Returns the starts to measure; limits are seconds of CPU time."""
    return [
        Case("python", None, "pass"),
        Case("import typer", None, "import typer"),
        Case("import structir", None, "import structir"),
        Case("structir --version", 0.15, COMMAND, ("--version",)),
        Case("TAB: a command", 0.15, COMMAND, line="structir co"),
        Case("TAB: an option", 0.15, COMMAND, line="structir opt --ver"),
        Case("TAB: an option, in zsh", 0.15, COMMAND, line="structir opt --ver", shell="zsh"),
        Case("TAB: a pass", 0.15, COMMAND, line=f"structir opt {file} -p cse,de"),
        Case("TAB: a function", 0.15, COMMAND, line=f"structir run {file} -f m"),
        Case("TAB: a size", 0.15, COMMAND, line=f"structir run {file} --sizes n"),
        Case("from structir.script import ...", 0.15, "from structir.script import I, R, T"),
        Case("first R.add", 0.25, "from structir.script import R; R.add"),
        Case("structir check FILE", 0.5, COMMAND, ("check", file)),
        Case("structir --help", None, COMMAND, ("--help",)),
    ]


def seconds(case: Case) -> float:
    """Returns the CPU time of one child process."""
    completion = {
        "_STRUCTIR_COMPLETE": f"complete_{case.shell}",
        "_TYPER_COMPLETE_ARGS": case.line,
        "COMP_WORDS": case.line,
        "COMP_CWORD": str(len(case.line.split()) - 1),
    }
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, "-c", case.statements, *case.arguments],
        env=environment() | (completion if case.line else {}),
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        check=True,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def environment() -> dict[str, str]:
    """Returns the environment, with the bytecode cache enabled."""
    return {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}


def measure(case: Case, rounds: int) -> float:
    """Returns the median CPU time with a warm bytecode cache."""
    seconds(case)
    return statistics.median([seconds(case) for _ in range(rounds)])


def table(rounds: int) -> Table:
    """Returns the measured times beside their limits."""
    result = Table("start", box=None, header_style="bold")
    for name in ("CPU time", "limit", ""):
        result.add_column(name, justify="right")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "model.py"
        file.write_text(PROGRAM)
        for case in cases(str(file)):
            time = measure(case, rounds)
            limit = "" if case.limit is None else f"{case.limit:.2f} s"
            over = "over" if case.limit is not None and time > case.limit else ""
            result.add_row(case.title, f"{time:.3f} s", limit, over)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7, help="child processes per row")
    Console().print(table(parser.parse_args().rounds))


if __name__ == "__main__":
    main()
