"""`structir reduce`: reduces a program while a command fails on it."""

from __future__ import annotations

import contextlib
import io
import shlex
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from structir.lazy import lazy_module
from structir.tools import cli
from structir.tools.as_json import Json, write
from structir.tools.exit_codes import ExitCode
from structir.tools.programs import ProgramFile, read_program
from structir.tools.terminal import console, diagnostics, show, show_program

if TYPE_CHECKING:
    from structir.ir.module import IRModule

rich_progress = lazy_module("rich.progress")
reduction = lazy_module("structir.tools.reduction")
PLACEHOLDER = "{}"

PANEL = "Test and debug"


def reduce(
    file: ProgramFile,
    command: Annotated[
        str,
        typer.Option(
            "--command", "-c", help="Failing command; {} is the program file, appended by default."
        ),
    ],
    match: Annotated[
        str,
        typer.Option(
            help="Text in the output of the failing command; only its exit code by default."
        ),
    ] = "",
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Write to this file instead of the terminal."
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Remove functions, bindings, results and parameters while a command still fails.

    A candidate fails if the command exits with the code of the original program and, with --match,
    prints the text. Every candidate is well formed. Commands of structir run in this process.

    With --json: the bindings `before` and `after`, and the `text`.

    [bold]Examples[/bold]

        structir reduce model.py -c 'structir opt {} -p my_pass --load my_pass.py --verify'

        structir reduce model.py -c 'python compile_it.py {}' --match 'IndexError' -o small.py
    """
    with diagnostics(json):
        module = read_program(file)
        size_before = reduction.size_of(module)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "program.py"
            code, output_text = _outcome(command, module, path)
            if code == 0 or match not in output_text:
                problem = "succeeds" if code == 0 else f"does not print {match!r}"
                show(f"error: nothing to reduce: the command {problem} on {file}\n{output_text}")
                raise typer.Exit(ExitCode.INVALID_USAGE)

            def fails(candidate: IRModule) -> bool:
                candidate_code, text = _outcome(command, candidate, path)
                return candidate_code == code and match in text

            module = _with_progress(module, fails)
    if json:
        write({"before": size_before, "after": reduction.size_of(module), "text": module.script()})
    if output is not None:
        output.write_text(module.script(), encoding="utf-8")
    elif not json:
        show_program(module.script())


def _with_progress(module: IRModule, fails: object) -> IRModule:
    """Returns the reduced module; shows a progress bar."""
    columns = (
        rich_progress.TextColumn("{task.description}"),
        rich_progress.BarColumn(),
        rich_progress.TimeElapsedColumn(),
    )
    size_before = reduction.size_of(module)
    with rich_progress.Progress(*columns, console=console(stderr=True), transient=True) as progress:
        task = progress.add_task("reducing", total=max(size_before, 1))

        def update(smallest: IRModule, tries: int) -> None:
            remaining = reduction.size_of(smallest)
            text = f"{size_before} → {remaining} bindings, {tries} candidates"
            progress.update(task, completed=size_before - remaining, description=text)

        small: IRModule = reduction.reduce_module(module, fails, update)
    console(stderr=True).print(f"{size_before} → {reduction.size_of(small)} bindings")
    return small


def _outcome(command: str, module: IRModule, path: Path) -> tuple[int, str]:
    """Returns the exit code of the command on a program, and its output."""
    path.write_text(module.script(), encoding="utf-8")
    words = shlex.split(command)
    if not any(PLACEHOLDER in word for word in words):
        words.append(PLACEHOLDER)
    words = [word.replace(PLACEHOLDER, str(path)) for word in words]
    if words[0] != "structir":
        run = subprocess.run(words, capture_output=True, text=True, check=False)
        return run.returncode, run.stdout + run.stderr
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        try:
            cli.build()(words[1:])
        except SystemExit as exit_:
            return int(exit_.code or 0), out.getvalue()
        except Exception as error:  # an exception is a failure of the command, too
            return 1, f"{type(error).__name__}: {error}"
    return 0, out.getvalue()
